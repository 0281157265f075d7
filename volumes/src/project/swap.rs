//! `swap` puts restored folders in the place of those of a project: all of them, or none.
//!
//! The note says what is moved where before anything is. As long as it does not say that all is replaced, whoever
//! finds it moves everything back; from then on, whoever finds it removes what was there before.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use engine::failure::Failure;
use store::{Error, error::IoContext};

use super::note::{Made, Note, Replaced};

/// Moves what the note says into place.
pub fn forward(note: &mut Note) -> Result<(), Failure> {
    for replaced in &note.pending.replaced {
        move_in(replaced)?;
    }
    note.pending.is_replaced = true;
    let written = note.write();
    // Whoever fails here moves everything back.
    note.pending.is_replaced = written.is_ok();
    written
}

/// Ends what a swap has begun: back if it was not complete, else what was there before goes.
pub fn settle(note: &Note) -> Result<(), Error> {
    for replaced in note.pending.replaced.iter().rev() {
        if !note.pending.is_replaced {
            move_back(replaced)?;
        }
        remove(&replaced.old)?;
        remove(&replaced.new)?;
    }
    note.pending.staging.iter().try_for_each(|staging| {
        remove_unfinished(staging)?;
        remove(staging)
    })
}

/// Removes what a restore of a snapshot writes beside its target until all is there. The name of the target is in that of
/// what it writes, and no other target of this project had the same.
fn remove_unfinished(staging: &Path) -> Result<(), Error> {
    let (Some(folder), Some(name)) = (staging.parent(), staging.file_name()) else { return Ok(()) };
    let begins = [&b"."[..], name.as_encoded_bytes(), b".pstore-"].concat();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.at("cannot read", folder)?,
    };
    for entry in entries {
        let entry = entry.at("cannot read", folder)?;
        if entry.file_name().as_encoded_bytes().starts_with(&begins) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn move_in(replaced: &Replaced) -> Result<(), Error> {
    let Replaced { place, new, old, restored, .. } = replaced;
    match fs::rename(place, old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        renamed => renamed.at("cannot move", place)?,
    }
    if restored.is_some() {
        fs::rename(new, place).at("cannot move", new)?;
    }
    flush(place)
}

fn move_back(replaced: &Replaced) -> Result<(), Error> {
    let Replaced { place, new, old, was_there, restored, made } = replaced;
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    // What is still new was never moved in, and what somebody else has made in the place stays there.
    if !was_there && restored.is_some() && !exists(new) && exists(place) && may_be_ours(place, *made) {
        fs::rename(place, new).at("cannot move", place)?;
        flush(place)?;
    }
    if exists(old) {
        if exists(place) {
            remove(new)?;
            fs::rename(place, new).at("cannot move", place)?;
        }
        fs::rename(old, place).at("cannot move", old)?;
        flush(place)?;
    }
    Ok(())
}

/// What is to be moved in, so that it can be told from what somebody else makes in the place.
pub fn made(new: &Path) -> Result<Made, Error> {
    let found = fs::symlink_metadata(new).at("cannot read", new)?;
    Ok(Made::Complete { device: found.dev(), number: found.ino() })
}

/// Whether what is in the place was moved there. Of an older note that is not known.
fn may_be_ours(place: &Path, known: Made) -> bool {
    match known {
        Made::Unknown => true,
        Made::NotYet => false,
        // A device may have another number since the host was started.
        Made::Complete { number, .. } => fs::symlink_metadata(place).is_ok_and(|found| found.ino() == number),
    }
}

fn flush(place: &Path) -> Result<(), Error> {
    let folder = place.parent().unwrap_or(Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).at("cannot flush", folder)
}

fn remove(path: &Path) -> Result<(), Error> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.at("cannot remove", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(at: &Path, text: &str) {
        fs::create_dir_all(at).unwrap();
        fs::write(at.join("file"), text).unwrap();
    }

    fn read(at: &Path) -> String {
        fs::read_to_string(at.join("file")).unwrap()
    }

    #[test]
    fn what_is_cut_short_at_any_place_is_moved_back() {
        // After so many renames of two swaps.
        for renames in 0..=4 {
            let root = tempfile::tempdir().unwrap();
            let swaps = ["a", "b"].map(|name| {
                let path = |kind: &str| root.path().join(format!("{name}{kind}"));
                // The second place has nothing before.
                let was_there = name == "a";
                if was_there {
                    folder(&path(""), "before");
                }
                folder(&path(".new"), "after");
                Replaced {
                    place: path(""),
                    new: path(".new"),
                    restored: Some(path(".r")),
                    old: path(".old"),
                    was_there,
                    made: made(&path(".new")).unwrap(),
                }
            });
            let mut left = renames;
            for swap in &swaps {
                for (from, to) in [(&swap.place, &swap.old), (&swap.new, &swap.place)] {
                    if left > 0 {
                        left -= 1;
                        if from.exists() {
                            fs::rename(from, to).unwrap();
                        }
                    }
                }
            }
            for swap in swaps.iter().rev() {
                move_back(swap).unwrap();
                match swap.was_there {
                    true => assert_eq!(read(&swap.place), "before", "after {renames} renames"),
                    false => assert!(!swap.place.exists(), "after {renames} renames"),
                }
                assert!(!swap.old.exists());
            }
        }
    }

    #[test]
    fn a_place_is_not_emptied_for_what_does_not_come() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        folder(&path("a"), "before");
        let swap = Replaced {
            place: path("a"),
            new: path("new"),
            restored: Some(path("r")),
            old: path("old"),
            was_there: true,
            made: Made::NotYet,
        };
        move_in(&swap).unwrap_err();
        move_back(&swap).unwrap();
        assert_eq!(read(&path("a")), "before");
    }

    /// Where nothing was, an app may make something while the new one is brought near, which takes long.
    #[test]
    fn what_somebody_else_makes_in_an_empty_place_stays_there() {
        for is_complete in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let path = |name: &str| root.path().join(name);
            let mut swap = Replaced {
                place: path("a"),
                new: path("new"),
                restored: Some(path("r")),
                old: path("old"),
                was_there: false,
                made: Made::NotYet,
            };
            if is_complete {
                folder(&path("new"), "after");
                swap.made = made(&path("new")).unwrap();
                // Somebody has removed it, or an earlier attempt to move back has.
                fs::rename(path("new"), path("elsewhere")).unwrap();
            }
            folder(&path("a"), "of the app");
            move_back(&swap).unwrap();
            assert_eq!(read(&path("a")), "of the app", "complete: {is_complete}");
        }
    }

    #[test]
    fn what_a_killed_restore_was_writing_beside_the_project_goes() {
        let root = tempfile::tempdir().unwrap();
        let staging = root.path().join(".pstore-restore-current-abc");
        let unfinished = root.path().join("..pstore-restore-current-abc.pstore-0123456789abcdef");
        let another = root.path().join("..pstore-restore-current-abd.pstore-0123456789abcdef");
        for path in [&unfinished, &another] {
            folder(&path.join("files"), "half");
        }
        remove_unfinished(&staging).unwrap();
        assert!(!unfinished.exists() && another.exists());
    }

    #[test]
    fn a_note_of_an_older_pstore_is_read_and_followed() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let text = serde_json::json!({
            "place": path("a"), "new": path("new"), "restored": path("r"), "old": path("old"), "was_there": false
        });
        let swap: Replaced = serde_json::from_value(text).unwrap();
        assert_eq!(swap.made, Made::Unknown);
        folder(&path("a"), "after");
        move_back(&swap).unwrap();
        assert!(!path("a").exists() && path("new").exists());
    }
}
