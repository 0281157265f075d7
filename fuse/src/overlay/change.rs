//! `Change` is one change of the tree as a journal holds it; this module encodes and decodes it.
//!
//! Integers are varints, names and values are length-prefixed, times are a signed varint of
//! seconds and a varint of nanoseconds. The first byte tells the change.

use store::{
    catalog::pointer::IntendedFlip,
    format::{
        FormatError, Result,
        bytes::{Put, Reader},
        tree::Time,
    },
    id::{FlipId, RecordId},
};

use super::node::Ino;

/// Bounds of what is read back.
const MAX_NAME: usize = 255;
const MAX_TARGET: usize = 32 << 10;
const MAX_XATTR: usize = 64 << 10;

/// A commit that was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    pub record: RecordId,
    /// The last epoch that it takes.
    pub epoch: u64,
    /// How the pointer was to be moved. Journals of earlier versions do not say.
    pub flip: Option<IntendedFlip>,
}

/// What a new node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewKind {
    File,
    Directory,
    Symlink { target: Vec<u8> },
    Fifo,
    Socket,
    CharDevice { device: u64 },
    BlockDevice { device: u64 },
}

/// Attributes that are to be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub atime: Option<Time>,
    pub mtime: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new node with its first name.
    Create {
        parent: Ino,
        name: Vec<u8>,
        ino: Ino,
        kind: NewKind,
        mode: u32,
        uid: u32,
        gid: u32,
        time: Time,
    },
    /// Another name of a node.
    Link {
        ino: Ino,
        parent: Ino,
        name: Vec<u8>,
        time: Time,
    },
    /// A name goes, and an empty directory with it.
    Unlink {
        parent: Ino,
        name: Vec<u8>,
        time: Time,
    },
    /// A node gets another name, in place of what had it; or two nodes change places.
    Rename {
        parent: Ino,
        name: Vec<u8>,
        new_parent: Ino,
        new_name: Vec<u8>,
        exchange: bool,
        time: Time,
    },
    Set {
        ino: Ino,
        setting: Setting,
        time: Time,
    },
    Xattr {
        ino: Ino,
        name: Vec<u8>,
        value: Option<Vec<u8>>,
        time: Time,
    },
    /// Bytes were written to the data file of this generation. `crc` is theirs.
    Write {
        ino: Ino,
        generation: u32,
        offset: u64,
        len: u64,
        crc: u32,
        time: Time,
    },
    /// A range became zeros. With `extend`, the file reaches at least to its end.
    Zero {
        ino: Ino,
        offset: u64,
        len: u64,
        extend: bool,
        time: Time,
    },
    Truncate {
        ino: Ino,
        size: u64,
        time: Time,
    },
    /// All writes to this node up to the record with this number are on disk.
    Sync {
        ino: Ino,
        number: u64,
    },
    /// From here on this is the epoch: a commit takes what was written before.
    Epoch {
        epoch: u64,
    },
    /// A commit will publish a record and move the pointer to it.
    Intent(Intent),
    /// The commit that was meant has failed for good.
    NoIntent,
}

impl Change {
    /// The node that it is about, if that is one alone.
    pub fn subject(&self) -> Option<Ino> {
        match self {
            Self::Set { ino, .. }
            | Self::Xattr { ino, .. }
            | Self::Write { ino, .. }
            | Self::Zero { ino, .. }
            | Self::Truncate { ino, .. }
            | Self::Sync { ino, .. } => Some(*ino),
            _ => None,
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Create { parent, name, ino, kind, mode, uid, gid, time } => {
                out.push(1);
                out.put_varint(parent.0);
                out.put_bytes(name);
                out.put_varint(ino.0);
                put_kind(&mut out, kind);
                [mode, uid, gid].into_iter().for_each(|value| out.put_varint((*value).into()));
                put_time(&mut out, *time);
            }
            Self::Link { ino, parent, name, time } => {
                out.push(2);
                out.put_varint(ino.0);
                out.put_varint(parent.0);
                out.put_bytes(name);
                put_time(&mut out, *time);
            }
            Self::Unlink { parent, name, time } => {
                out.push(3);
                out.put_varint(parent.0);
                out.put_bytes(name);
                put_time(&mut out, *time);
            }
            Self::Rename { parent, name, new_parent, new_name, exchange, time } => {
                out.push(4);
                out.put_varint(parent.0);
                out.put_bytes(name);
                out.put_varint(new_parent.0);
                out.put_bytes(new_name);
                out.push((*exchange).into());
                put_time(&mut out, *time);
            }
            Self::Set { ino, setting, time } => {
                out.push(5);
                out.put_varint(ino.0);
                put_setting(&mut out, setting);
                put_time(&mut out, *time);
            }
            Self::Xattr { ino, name, value, time } => {
                out.push(6);
                out.put_varint(ino.0);
                out.put_bytes(name);
                out.push(value.is_some().into());
                out.put_bytes(value.as_deref().unwrap_or_default());
                put_time(&mut out, *time);
            }
            Self::Write { ino, generation, offset, len, crc, time } => {
                out.push(7);
                out.put_varint(ino.0);
                out.put_varint((*generation).into());
                out.put_varint(*offset);
                out.put_varint(*len);
                out.extend_from_slice(&crc.to_le_bytes());
                put_time(&mut out, *time);
            }
            Self::Zero { ino, offset, len, extend, time } => {
                out.push(8);
                out.put_varint(ino.0);
                out.put_varint(*offset);
                out.put_varint(*len);
                out.push((*extend).into());
                put_time(&mut out, *time);
            }
            Self::Truncate { ino, size, time } => {
                out.push(9);
                out.put_varint(ino.0);
                out.put_varint(*size);
                put_time(&mut out, *time);
            }
            Self::Sync { ino, number } => {
                out.push(10);
                out.put_varint(ino.0);
                out.put_varint(*number);
            }
            Self::Epoch { epoch } => {
                out.push(11);
                out.put_varint(*epoch);
            }
            Self::Intent(Intent { record, epoch, flip }) => {
                out.push(if flip.is_some() { 14 } else { 12 });
                out.extend_from_slice(&record.to_bytes());
                out.put_varint(*epoch);
                if let Some(IntendedFlip { flip_id, seen }) = flip {
                    out.extend_from_slice(flip_id.as_bytes());
                    out.extend_from_slice(seen.as_bytes());
                }
            }
            Self::NoIntent => out.push(13),
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let change = match reader.u8()? {
            1 => Self::Create {
                parent: ino(&mut reader)?,
                name: name(&mut reader)?,
                ino: ino(&mut reader)?,
                kind: read_kind(&mut reader)?,
                mode: number(&mut reader)?,
                uid: number(&mut reader)?,
                gid: number(&mut reader)?,
                time: read_time(&mut reader)?,
            },
            2 => Self::Link {
                ino: ino(&mut reader)?,
                parent: ino(&mut reader)?,
                name: name(&mut reader)?,
                time: read_time(&mut reader)?,
            },
            3 => Self::Unlink {
                parent: ino(&mut reader)?,
                name: name(&mut reader)?,
                time: read_time(&mut reader)?,
            },
            4 => Self::Rename {
                parent: ino(&mut reader)?,
                name: name(&mut reader)?,
                new_parent: ino(&mut reader)?,
                new_name: name(&mut reader)?,
                exchange: reader.u8()? != 0,
                time: read_time(&mut reader)?,
            },
            5 => Self::Set {
                ino: ino(&mut reader)?,
                setting: read_setting(&mut reader)?,
                time: read_time(&mut reader)?,
            },
            6 => {
                let (ino, name) = (ino(&mut reader)?, name(&mut reader)?);
                let some = reader.u8()? != 0;
                let value = reader.bytes(MAX_XATTR, "an attribute")?.to_vec();
                Self::Xattr { ino, name, value: some.then_some(value), time: read_time(&mut reader)? }
            }
            7 => Self::Write {
                ino: ino(&mut reader)?,
                generation: number(&mut reader)?,
                offset: reader.varint()?,
                len: reader.varint()?,
                crc: reader.u32()?,
                time: read_time(&mut reader)?,
            },
            8 => Self::Zero {
                ino: ino(&mut reader)?,
                offset: reader.varint()?,
                len: reader.varint()?,
                extend: reader.u8()? != 0,
                time: read_time(&mut reader)?,
            },
            9 => Self::Truncate {
                ino: ino(&mut reader)?,
                size: reader.varint()?,
                time: read_time(&mut reader)?,
            },
            10 => Self::Sync { ino: ino(&mut reader)?, number: reader.varint()? },
            11 => Self::Epoch { epoch: reader.varint()? },
            kind @ (12 | 14) => {
                let (record, epoch) = (RecordId::from_bytes(reader.array()?), reader.varint()?);
                let flip = (kind == 14).then(|| read_intended_flip(&mut reader)).transpose()?;
                Self::Intent(Intent { record, epoch, flip })
            }
            13 => Self::NoIntent,
            other => return Err(FormatError::Malformed(format!("a change of unknown kind {other}"))),
        };
        reader.finish()?;
        Ok(change)
    }
}

fn read_intended_flip(reader: &mut Reader<'_>) -> Result<IntendedFlip> {
    let mut flip = || reader.array().map(FlipId::from_bytes);
    Ok(IntendedFlip { flip_id: flip()?, seen: flip()? })
}

fn ino(reader: &mut Reader<'_>) -> Result<Ino> {
    Ok(Ino(reader.varint()?))
}

fn name(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    Ok(reader.bytes(MAX_NAME, "a name")?.to_vec())
}

fn number(reader: &mut Reader<'_>) -> Result<u32> {
    Ok(reader.bounded(u32::MAX.into(), "a number")? as u32)
}

pub(super) fn put_time(out: &mut Vec<u8>, time: Time) {
    out.put_signed(time.seconds);
    out.put_varint(time.nanos.into());
}

pub(super) fn read_time(reader: &mut Reader<'_>) -> Result<Time> {
    Ok(Time { seconds: reader.signed()?, nanos: reader.bounded(999_999_999, "nanoseconds")? as u32 })
}

fn put_kind(out: &mut Vec<u8>, kind: &NewKind) {
    let (tag, target, device) = match kind {
        NewKind::File => (0, &[][..], 0),
        NewKind::Directory => (1, &[][..], 0),
        NewKind::Symlink { target } => (2, target.as_slice(), 0),
        NewKind::Fifo => (3, &[][..], 0),
        NewKind::Socket => (4, &[][..], 0),
        NewKind::CharDevice { device } => (5, &[][..], *device),
        NewKind::BlockDevice { device } => (6, &[][..], *device),
    };
    out.push(tag);
    match tag {
        2 => out.put_bytes(target),
        5 | 6 => out.put_varint(device),
        _ => {}
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Result<NewKind> {
    Ok(match reader.u8()? {
        0 => NewKind::File,
        1 => NewKind::Directory,
        2 => NewKind::Symlink { target: reader.bytes(MAX_TARGET, "a link")?.to_vec() },
        3 => NewKind::Fifo,
        4 => NewKind::Socket,
        5 => NewKind::CharDevice { device: reader.varint()? },
        6 => NewKind::BlockDevice { device: reader.varint()? },
        other => return Err(FormatError::Malformed(format!("a node of unknown kind {other}"))),
    })
}

fn put_setting(out: &mut Vec<u8>, setting: &Setting) {
    let Setting { mode, uid, gid, atime, mtime } = setting;
    let numbers = [mode, uid, gid];
    let times = [atime, mtime];
    let given = numbers.iter().map(|value| value.is_some()).chain(times.iter().map(|time| time.is_some()));
    out.push(given.enumerate().fold(0, |bits, (at, given)| bits | u8::from(given) << at));
    numbers.into_iter().flatten().for_each(|value| out.put_varint((*value).into()));
    times.into_iter().flatten().for_each(|time| put_time(out, *time));
}

fn read_setting(reader: &mut Reader<'_>) -> Result<Setting> {
    let bits = reader.u8()?;
    let has = |at: u8| bits & (1 << at) != 0;
    let mut setting = Setting::default();
    for (at, slot) in [&mut setting.mode, &mut setting.uid, &mut setting.gid].into_iter().enumerate() {
        if has(at as u8) {
            *slot = Some(number(reader)?);
        }
    }
    for (at, slot) in [&mut setting.atime, &mut setting.mtime].into_iter().enumerate() {
        if has(at as u8 + 3) {
            *slot = Some(read_time(reader)?);
        }
    }
    Ok(setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_read_back_as_written() {
        let time = Time { seconds: -5, nanos: 999_999_999 };
        let name = b"n\xff".to_vec();
        let (record, id) = (RecordId::from_bytes([7; 16]), |byte| FlipId::from_bytes([byte; 16]));
        let create = |kind| Change::Create {
            parent: Ino::ROOT,
            name: b"x".to_vec(),
            ino: Ino(9),
            kind,
            mode: 0o7777,
            uid: u32::MAX,
            gid: 1,
            time,
        };
        let changes = [
            create(NewKind::File),
            create(NewKind::Directory),
            create(NewKind::Symlink { target: b"/t".to_vec() }),
            create(NewKind::Fifo),
            create(NewKind::Socket),
            create(NewKind::CharDevice { device: 5 }),
            create(NewKind::BlockDevice { device: u64::MAX }),
            Change::Link { ino: Ino(3), parent: Ino(2), name: name.clone(), time },
            Change::Unlink { parent: Ino(2), name: name.clone(), time },
            Change::Rename {
                parent: Ino(2),
                name: name.clone(),
                new_parent: Ino(7),
                new_name: name.clone(),
                exchange: true,
                time,
            },
            Change::Set {
                ino: Ino(3),
                setting: Setting { uid: Some(4), mtime: Some(time), ..Setting::default() },
                time,
            },
            Change::Set {
                ino: Ino(3),
                setting: Setting { mode: Some(4), gid: Some(0), atime: Some(time), ..Setting::default() },
                time,
            },
            Change::Xattr { ino: Ino(3), name: name.clone(), value: Some(vec![1, 2]), time },
            Change::Xattr { ino: Ino(3), name, value: None, time },
            Change::Write { ino: Ino(3), generation: 2, offset: 1 << 40, len: 4096, crc: 0xdead_beef, time },
            Change::Zero { ino: Ino(3), offset: 0, len: 1, extend: true, time },
            Change::Truncate { ino: Ino(3), size: 0, time },
            Change::Sync { ino: Ino(3), number: 1234 },
            Change::Epoch { epoch: 2 },
            Change::Intent(Intent { record, epoch: 2, flip: None }),
            Change::Intent(Intent {
                record,
                epoch: 2,
                flip: Some(IntendedFlip { flip_id: id(3), seen: id(4) }),
            }),
            Change::NoIntent,
        ];
        for change in changes {
            let bytes = change.encode();
            assert_eq!(Change::decode(&bytes).as_ref(), Ok(&change));
            for len in 0..bytes.len() {
                Change::decode(&bytes[..len]).unwrap_err();
            }
        }
        Change::decode(&[99]).unwrap_err();
    }
}
