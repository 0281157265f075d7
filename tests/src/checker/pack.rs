//! `pack` checks packs and indexes: I1, I2, I3 and I18.

use std::collections::BTreeMap;

use super::{
    State,
    input::{Input, Read, pack_name},
};

/// A pack's directory, and the content of its frames.
#[derive(Debug)]
pub(super) struct Pack {
    /// By offset.
    pub(super) frames: BTreeMap<u64, Frame>,
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) id: [u8; 32],
    pub(super) kind: u8,
    pub(super) codec: u8,
    pub(super) encryption: u8,
    pub(super) stored_len: u64,
    pub(super) raw: Vec<u8>,
}

impl State {
    pub(super) fn read_packs(&mut self) {
        for (tenant, key) in self.tenants() {
            let packs: Vec<_> =
                self.below(&tenant, "packs").map(|(name, bytes)| (name, bytes.clone())).collect();
            for (name, bytes) in packs {
                let read = read(&name, &key, &bytes);
                if let Some(pack) = self.findings.whole(read, "I1–I3", &name) {
                    self.packs.insert((tenant.clone(), name), pack);
                }
            }
        }
    }

    pub(super) fn check_indexes(&mut self) {
        for (tenant, chunk_key) in self.tenants() {
            let indexes: Vec<_> =
                self.below(&tenant, "index").map(|(name, bytes)| (name, bytes.clone())).collect();
            for (name, bytes) in indexes {
                let listed = listed(&bytes, &chunk_key);
                let listed = self.findings.whole(listed, "I18", format_args!("index {name}"));
                for (pack, id, offset, stored_len) in listed.into_iter().flatten() {
                    let Some(found) = self.packs.get(&(tenant.clone(), pack.clone())) else { continue };
                    let frame = found.frames.get(&offset);
                    let same = frame
                        .is_some_and(|frame| (frame.id, frame.stored_len, frame.kind) == (id, stored_len, 1));
                    self.findings.must(same, "I18", format_args!("index {name}: {offset} of {pack}"));
                }
            }
        }
    }
}

fn must(holds: bool, otherwise: &str) -> Read<()> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn read(name: &str, chunk_key: &[u8], bytes: &[u8]) -> Read<Pack> {
    must(bytes.len() >= 144 && bytes.starts_with(b"\x89PSTP\r\n\x1a\x01\0"), "no header")?;
    let (before, trailer) = bytes.split_at(bytes.len() - 128);
    must(trailer.ends_with(b"PSTPEND\n") && trailer[88..90] == [1, 0], "no trailer")?;
    let mut fields = Input(trailer);
    must(fields.take(32)? == chunk_key, "the key is another tenant's")?;
    let write = u128::from_be_bytes(fields.take(16)?.try_into().unwrap());
    must(pack_name(write, fields.u32()?) == name, "it is called otherwise")?;
    let (count, directory) = (fields.u32()? as usize, fields.u64()? as usize);
    must(fields.byte()? == 1, "an unknown hash")?;
    must(before.len() == directory + 64 * count, "the lengths do not add up")?;
    let check = blake3::hash(&bytes[directory..bytes.len() - 32]);
    must(check.as_bytes()[..24] == trailer[96..120], "its checksum is wrong")?;
    let mut frames = BTreeMap::new();
    let (mut end, mut entries) = (16, Input(&before[directory..]));
    for _ in 0..count {
        let (at, frame) = entry(&mut entries, before, chunk_key)?;
        must(at >= end && at + frame.stored_len <= directory as u64, "frames overlap")?;
        let meta = name.ends_with("-meta");
        must(if meta { (2..=4).contains(&frame.kind) } else { frame.kind == 1 }, "a frame of another kind")?;
        end = at + frame.stored_len;
        frames.insert(at, frame);
    }
    Ok(Pack { frames })
}

fn entry(entries: &mut Input<'_>, pack: &[u8], chunk_key: &[u8]) -> Read<(u64, Frame)> {
    let id: [u8; 32] = entries.take(32)?.try_into().unwrap();
    let (kind, codec, encryption, _) = (entries.byte()?, entries.byte()?, entries.byte()?, entries.byte()?);
    let (stored_len, raw_len, crc) = (entries.u32()?, entries.u32()?, entries.u32()?);
    let (offset, _) = (entries.u64()?, entries.u64()?);
    must(stored_len > 0 && raw_len > 0 && raw_len <= 16 << 20, "an impossible length")?;
    must((codec, encryption) == (1, 0), "an unknown coding")?;
    let range = offset as usize..offset as usize + stored_len as usize;
    let stored = pack.get(range).ok_or("a frame outside of the pack")?;
    must(crc32c::crc32c(stored) == crc, "I2: the CRC is wrong")?;
    let raw = zstd::bulk::decompress(stored, raw_len as usize).map_err(|error| error.to_string())?;
    must(raw.len() == raw_len as usize, "I3: the raw length is wrong")?;
    let digest = blake3::keyed_hash(chunk_key.try_into().map_err(|_| "no key")?, &raw);
    must(*digest.as_bytes() == id, "I3: the id is wrong")?;
    Ok((offset, Frame { id, kind, codec, encryption, stored_len: stored_len.into(), raw }))
}

/// Pack, id, offset and stored length of a chunk, as an index has them.
type Listed = (String, [u8; 32], u64, u64);

/// Everything an index lists.
fn listed(bytes: &[u8], chunk_key: &[u8]) -> Read<Vec<Listed>> {
    must(bytes.len() >= 104 && bytes.starts_with(b"\x89PSTI\r\n\x1a\x01\0"), "no header")?;
    let (content, check) = bytes.split_at(bytes.len() - 32);
    must(blake3::hash(content).as_bytes() == check, "its checksum is wrong")?;
    must(&content[32..64] == chunk_key, "the key is another tenant's")?;
    let mut input = Input(&content[64..]);
    let (count, _) = (input.u32()?, input.u32()?);
    let mut packs = Vec::new();
    for _ in 0..count {
        packs.push((input.pack()?, input.u32()?));
    }
    let mut all = Vec::new();
    for (pack, chunks) in packs {
        for _ in 0..chunks {
            let id = input.take(32)?.try_into().unwrap();
            let (offset, stored_len) = (input.u64()?, input.u32()?);
            input.take(4)?;
            all.push((pack.clone(), id, offset, stored_len.into()));
        }
    }
    must(input.0.is_empty(), "bytes are left over")?;
    Ok(all)
}
