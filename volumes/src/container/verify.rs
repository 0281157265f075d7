//! `verify` compares what the daemon says is in a volume with what was stored.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use engine::failure::Failure;
use store::{
    Error, ErrorKind,
    archive::reader::{Limits, Reader, What},
    format::tree::{Kind, TreePath},
};

use super::{image_archive::problem, volume_content::VolumeContent};

/// How much is compared at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Fails unless the volume, whose content is in the file `spooled`, is the stored one: every path, type, owner, mode,
/// target and byte.
pub(super) fn verify(name: &str, spooled: &Path, stored: &VolumeContent) -> Result<(), Failure> {
    let file = File::open(spooled).map_err(|error| Error::io("cannot read", spooled, error))?;
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file), Limits::of(u64::MAX));
    let ordinals = stored.ordinals()?;
    // A bit for each entry: which of them were seen.
    let mut seen = vec![0_u64; (ordinals.end - ordinals.start).div_ceil(64) as usize];
    while let Some(member) = reader.next_member().map_err(problem)? {
        let path = member.path.clone();
        let Some((ordinal, entry)) = stored.find(&path)? else {
            return Err(differs(name, &path, "it was not stored"));
        };
        let (word, bit) = place(ordinal - ordinals.start);
        if seen[word] & bit != 0 {
            return Err(differs(name, &path, "it is there twice"));
        }
        seen[word] |= bit;
        let has_same_rights = member.meta.plain_mode() == entry.meta.plain_mode()
            && (member.meta.uid, member.meta.gid) == (entry.meta.uid, entry.meta.gid);
        // Of the names of one file, the daemon may take another one for the first.
        let is_link = match &member.what {
            What::HardLink { .. } => {
                matches!(entry.kind, Kind::HardLink { .. }) || stored.is_linked(&path)?
            }
            _ => false,
        };
        let same = match (&member.what, &entry.kind) {
            (What::Directory, Kind::Directory) => has_same_rights,
            (What::Symlink { target: is }, Kind::Symlink { target }) => is == target,
            (What::File { size, .. }, Kind::File { size: stored, .. }) => has_same_rights && size == stored,
            // Compared where its content is.
            (What::HardLink { .. }, Kind::HardLink { .. } | Kind::File { .. }) => is_link,
            (What::File { .. }, Kind::HardLink { .. }) => true,
            _ => false,
        };
        if !same {
            return Err(differs(name, &path, "its type, size, owner or mode is another"));
        }
        if let (What::File { .. }, Kind::File { .. }) = (&member.what, &entry.kind) {
            let is_equal = equal(&mut reader.content(), &mut stored.open(&path)?);
            if !is_equal.map_err(|error| Error::io("cannot read", spooled, error))? {
                return Err(differs(name, &path, "its content is another"));
            }
        }
    }
    for ordinal in ordinals.clone() {
        let (word, bit) = place(ordinal - ordinals.start);
        if seen[word] & bit != 0 {
            continue;
        }
        if let Some(entry) = stored.at(ordinal)?.filter(|entry| !entry.path.is_root()) {
            return Err(differs(name, &entry.path, "it is missing"));
        }
    }
    Ok(())
}

/// Where the bit of an entry is.
fn place(number: u64) -> (usize, u64) {
    ((number / 64) as usize, 1 << (number % 64))
}

fn equal(one: &mut dyn Read, other: &mut dyn Read) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    loop {
        let got = one.read(&mut left)?;
        if got == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        match other.read_exact(&mut right[..got]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if left[..got] != right[..got] {
            return Ok(false);
        }
    }
}

fn differs(volume: &str, path: &TreePath, how: &str) -> Failure {
    let message = format!("the volume {volume} is not as it was stored: {path}: {how}");
    Failure::new(ErrorKind::IntegrityFailed, message).hint("nothing was replaced; run the restore again")
}
