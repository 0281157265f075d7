//! `Header` encodes and decodes the 512 bytes before every member of a tar stream.
//!
//! Written as POSIX ustar; read as POSIX, GNU and the old Unix wrote them.

use super::{
    Block,
    numbers::{number, put_number, text, unsigned_number},
    sparse,
};
use crate::format::{FormatError, Result};

/// The largest number in the eight bytes of a mode or an owner.
pub(crate) const MAX_ID: u64 = 0o7_777_777;
/// The largest number in the twelve bytes of a size or a time.
pub(crate) const MAX_SIZE: u64 = 0o77_777_777_777;
/// The longest name that fits into a header without a pax record.
pub const MAX_NAME: usize = 100;
pub(crate) const MAX_PREFIX: usize = 155;

const MODE: std::ops::Range<usize> = 100..108;
const UID: std::ops::Range<usize> = 108..116;
const GID: std::ops::Range<usize> = 116..124;
const SIZE: std::ops::Range<usize> = 124..136;
const MTIME: std::ops::Range<usize> = 136..148;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const KIND: usize = 156;
const LINK: std::ops::Range<usize> = 157..257;
const MAGIC: std::ops::Range<usize> = 257..265;
const DEVICE_MAJOR: std::ops::Range<usize> = 329..337;
const DEVICE_MINOR: std::ops::Range<usize> = 337..345;
const PREFIX: std::ops::Range<usize> = 345..500;

const POSIX: &[u8; 8] = b"ustar\x0000";

/// The kind of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    File,
    /// Another name of a member that came before.
    HardLink,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A directory.
    Directory,
    /// A FIFO.
    Fifo,
    /// Records about the member that follows.
    Pax,
    /// Records about all members that follow.
    PaxGlobal,
    /// GNU's way to give a long path, or link target, of the member that follows.
    GnuLongPath,
    /// The long target of the link that follows, as GNU tar writes it.
    GnuLongLink,
    /// GNU's way to leave holes out.
    GnuSparse,
    /// A letter that this code does not know.
    Other(u8),
}

impl MemberKind {
    const KNOWN: [(Self, u8); 12] = [
        (Self::File, b'0'),
        (Self::HardLink, b'1'),
        (Self::Symlink, b'2'),
        (Self::CharDevice, b'3'),
        (Self::BlockDevice, b'4'),
        (Self::Directory, b'5'),
        (Self::Fifo, b'6'),
        (Self::Pax, b'x'),
        (Self::PaxGlobal, b'g'),
        (Self::GnuLongPath, b'L'),
        (Self::GnuLongLink, b'K'),
        (Self::GnuSparse, b'S'),
    ];

    fn to_byte(self) -> u8 {
        match self {
            Self::Other(byte) => byte,
            known => Self::KNOWN.iter().find(|(kind, _)| *kind == known).map_or(b'0', |(_, byte)| *byte),
        }
    }

    fn from_byte(byte: u8) -> Self {
        match byte {
            // The old way to say it, and a hint that the file be laid out in one piece.
            0 | b'7' => Self::File,
            _ => Self::KNOWN
                .iter()
                .find(|(_, known)| *known == byte)
                .map_or(Self::Other(byte), |(kind, _)| *kind),
        }
    }
}

/// A member by its own header; the extended headers before it may override that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// As it is written: a directory's may end in a slash.
    pub path: Vec<u8>,
    /// The kind of the member.
    pub kind: MemberKind,
    /// The bits of the mode.
    pub mode: u32,
    /// The number of the owner.
    pub uid: u64,
    /// The number of the group.
    pub gid: u64,
    /// How many bytes follow, padding aside. Of links and directories a reader ignores it.
    pub size: u64,
    /// When the content was changed last, in seconds since 1970.
    pub mtime: i64,
    /// The target of a link.
    pub link: Vec<u8>,
    /// The major number of a device.
    pub device_major: u64,
    /// The minor number of a device.
    pub device_minor: u64,
    /// Of a file in GNU's way to leave holes out; only read.
    pub sparse: Option<sparse::Head>,
}

impl Header {
    /// A header with this path and nothing else.
    pub fn new(path: impl Into<Vec<u8>>, kind: MemberKind) -> Self {
        Self {
            path: path.into(),
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            mtime: 0,
            link: Vec::new(),
            device_major: 0,
            device_minor: 0,
            sparse: None,
        }
    }

    /// The header in ustar. A value that does not fit is cut off or 0: see [`split`] and the bounds
    /// above for values that must be in a pax record instead.
    pub fn encode(&self) -> Block {
        let mut block = [0; super::BLOCK_LEN];
        let (prefix, name) = split(&self.path).unwrap_or((b"", &self.path));
        put_text(&mut block[..MAX_NAME], name);
        put_text(&mut block[PREFIX], prefix);
        put_text(&mut block[LINK], &self.link);
        put_number(&mut block[MODE], u64::from(self.mode));
        put_number(&mut block[UID], self.uid);
        put_number(&mut block[GID], self.gid);
        put_number(&mut block[SIZE], self.size);
        put_number(&mut block[MTIME], u64::try_from(self.mtime).unwrap_or(0));
        block[KIND] = self.kind.to_byte();
        block[MAGIC].copy_from_slice(POSIX);
        put_number(&mut block[DEVICE_MAJOR], self.device_major);
        put_number(&mut block[DEVICE_MINOR], self.device_minor);
        let (sum, _) = checksums(&block);
        block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    /// The header in a block, or `None` if it is one of zeros, as at the end of a stream.
    pub fn decode(block: &Block) -> Result<Option<Self>> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let stated = number(&block[CHECKSUM], "checksum")?;
        let (unsigned, signed) = checksums(block);
        // Some old programs added the bytes as signed numbers.
        if stated != unsigned && stated != signed {
            return Err(FormatError::malformed("a tar header whose checksum is wrong"));
        }
        let posix = block[MAGIC].starts_with(b"ustar\0");
        let gnu = &block[MAGIC] == b"ustar  \0";
        let mut path = Vec::new();
        if posix && block[PREFIX.start] != 0 {
            path.extend_from_slice(text(&block[PREFIX]));
            path.push(b'/');
        }
        path.extend_from_slice(text(&block[..MAX_NAME]));
        let mut kind = MemberKind::from_byte(block[KIND]);
        if kind == MemberKind::File && !posix && !gnu && path.ends_with(b"/") {
            // The oldest archives have no other way to say it.
            kind = MemberKind::Directory;
        }
        let device = |field, what| if posix || gnu { unsigned_number(&block[field], what) } else { Ok(0) };
        // Others have used that letter in ways of their own.
        let sparse =
            (kind == MemberKind::GnuSparse && gnu).then(|| sparse::Head::decode(block)).transpose()?;
        Ok(Some(Self {
            path,
            kind,
            sparse,
            mode: (unsigned_number(&block[MODE], "mode")? & 0o7777) as u32,
            uid: unsigned_number(&block[UID], "owner")?,
            gid: unsigned_number(&block[GID], "group")?,
            size: unsigned_number(&block[SIZE], "size")?,
            mtime: number(&block[MTIME], "time")?,
            link: text(&block[LINK]).to_vec(),
            device_major: device(DEVICE_MAJOR, "device")?,
            device_minor: device(DEVICE_MINOR, "device")?,
        }))
    }
}

/// A path in the two fields ustar has for it, if it fits into them: prefix and name.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= MAX_NAME {
        return Some((b"", path));
    }
    // As much as possible in the name, so that there is one way to do it; a slash at the
    // very end belongs to a directory's name.
    let from = path.len().checked_sub(MAX_NAME + 1)?;
    let at = from + path[from..path.len() - 1].iter().position(|byte| *byte == b'/')?;
    (1..=MAX_PREFIX).contains(&at).then(|| (&path[..at], &path[at + 1..]))
}

fn put_text(field: &mut [u8], text: &[u8]) {
    let len = text.len().min(field.len());
    field[..len].copy_from_slice(&text[..len]);
}

/// The sum of all bytes, those of the checksum counted as spaces: unsigned, and signed.
fn checksums(block: &Block) -> (i64, i64) {
    let bytes =
        || block.iter().enumerate().map(|(at, byte)| if CHECKSUM.contains(&at) { b' ' } else { *byte });
    (bytes().map(i64::from).sum(), bytes().map(|byte| i64::from(byte.cast_signed())).sum())
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
