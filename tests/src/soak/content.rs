//! `content` makes files that prove by their content that they are whole.
//!
//! A file is a row of parts. A part names its slot, its generation and its length, and all its bytes follow from
//! these, so a reader knows every byte. So the judge tells a file that is truncated, mixed of two generations or
//! partly zero from one that a writer had completed.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path};

use crate::tree::noise;

/// Counts every write of a run: none is used twice.
pub type Generation = u64;

/// The generation in each slot of a tree.
pub type Contents = BTreeMap<usize, Generation>;

/// The folder of the slots.
pub const FOLDER: &str = "Default";

/// How many files a tree has.
pub const SLOTS: usize = 12;

pub fn name(slot: usize) -> String {
    format!("{FOLDER}/slot-{slot}")
}

/// The bytes of one part. Most are small, as a profile's files are; a few are of many chunks.
pub fn part(slot: usize, generation: Generation) -> Vec<u8> {
    let drawn = generation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let len = match drawn % 16 {
        0 => 150_000 + drawn % 200_000,
        1..=4 => 5_000 + drawn % 30_000,
        _ => 1 + drawn % 2_000,
    };
    let mut bytes = format!("slot {slot} generation {generation} of {len}\n").into_bytes();
    bytes.extend(noise(len as usize, generation));
    bytes
}

/// The generation that the file is at; an error names the fault.
pub fn judge(slot: usize, bytes: &[u8]) -> Result<Generation, String> {
    let (mut rest, mut at) = (bytes, 0);
    if rest.is_empty() {
        return Err("it is empty".to_owned());
    }
    while !rest.is_empty() {
        let found = generation_of(slot, rest).ok_or_else(|| {
            format!("at {} of {} bytes no part of it begins", bytes.len() - rest.len(), bytes.len())
        })?;
        let expected = part(slot, found);
        let shared = expected.iter().zip(rest).take_while(|(one, other)| one == other).count();
        if shared < expected.len() {
            let (from, all) = (bytes.len() - rest.len(), expected.len());
            return Err(format!("generation {found}, from {from}, is right for {shared} of {all} bytes"));
        }
        if found <= at {
            return Err(format!("generation {found} comes after {at}"));
        }
        (rest, at) = (&rest[expected.len()..], found);
    }
    Ok(at)
}

fn generation_of(slot: usize, bytes: &[u8]) -> Option<Generation> {
    let line = bytes.iter().take(100).position(|byte| *byte == b'\n')?;
    let text = std::str::from_utf8(&bytes[..line]).ok()?;
    let rest = text.strip_prefix(&format!("slot {slot} generation "))?;
    rest.split(' ').next()?.parse().ok()
}

/// How each slot below `root` is found: a slot that is not there is left out.
pub fn look(root: &Path, slots: usize) -> BTreeMap<usize, Result<Generation, String>> {
    let mut found = BTreeMap::new();
    for slot in 0..slots {
        match fs::read(root.join(name(slot))) {
            Ok(bytes) => drop(found.insert(slot, judge(slot, &bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => drop(found.insert(slot, Err(format!("it cannot be read: {error}")))),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_writer_completed_is_told_from_what_one_did() {
        let (one, two) = (part(3, 7), part(3, 8));
        assert_eq!(judge(3, &one), Ok(7));
        assert_eq!(judge(3, &[&one[..], &two].concat()), Ok(8));
        for torn in [
            &one[..one.len() - 1],
            &one[1..],
            &[],
            &[&two[..], &one].concat(),
            &[&one[..one.len() / 2], &two[two.len() / 2..]].concat(),
            &[&one[..], &[0]].concat(),
        ] {
            judge(3, torn).unwrap_err();
        }
        judge(4, &one).unwrap_err();
        let mut zeros = one.clone();
        zeros[40..].fill(0);
        judge(3, &zeros).unwrap_err();
    }
}
