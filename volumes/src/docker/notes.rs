//! `Notes` remembers on this host what is to be undone at a daemon, until it is undone.
//!
//! A note is written before anything is done, and removed after it is undone. Whoever wrote one holds its lock, and the
//! kernel lets go of that when the process ends, however it ends. So a note that can be locked was left by a dead
//! process: the next command undoes what it names.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use bollard::models::RestartPolicy;
use engine::{failure::Failure, settings::Settings};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use store::{
    Error,
    id::{Nonce, random},
};

use super::containers::Status;

const FOLDER: &str = "docker-notes";
const SUFFIX: &str = "json";
/// A daemon finishes what it has begun though nobody waits for it. By then it has.
const YOUNG: Duration = Duration::from_secs(600);

/// What is to be undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Undo {
    /// Bring a container back to the state in which it was found.
    Resume {
        /// The container's id.
        container: String,
        /// The container's name, for people.
        name: String,
        /// The state in which it was found.
        found: Status,
        /// How long it may take to end, if it was told to.
        #[serde(default)]
        stop_seconds: Option<u32>,
    },
    /// Remove a container that we have made.
    Container {
        /// Its name.
        name: String,
        /// The mark that it has; one of this name that has another is somebody's. A helper has a name of its own, and none.
        #[serde(default)]
        mark: Option<String>,
    },
    /// Remove a name of an image, and the image if it has no other.
    Image {
        /// The name.
        tag: String,
    },
    /// Remove a volume that we have made.
    Volume {
        /// Its name.
        name: String,
        /// The mark that it has; one of this name that has another is somebody's.
        #[serde(default)]
        mark: Option<String>,
    },
    /// Put a container back into the place of one that was to replace it.
    PutBack {
        /// The id of the container that is to be put back.
        container: String,
        /// Its name, which the other one may have now.
        name: String,
        /// Whether it ran.
        found: Status,
        /// The mark of the other one.
        #[serde(default)]
        mark: Option<String>,
        /// How long it may take to end, if it was told to.
        #[serde(default)]
        stop_seconds: Option<u32>,
        /// When its daemon was to start it by itself, if it was.
        #[serde(default)]
        restarts: Option<RestartPolicy>,
    },
}

impl Undo {
    /// Whether this container is at rest until it is done.
    fn rests(&self, id: &str) -> bool {
        matches!(self, Self::Resume { container, .. } | Self::PutBack { container, .. } if container == id)
    }

    /// Containers go before what they use.
    fn order(&self) -> u8 {
        match self {
            Self::Resume { .. } => 0,
            Self::PutBack { .. } => 1,
            Self::Container { .. } => 2,
            Self::Image { .. } | Self::Volume { .. } => 3,
        }
    }
}

/// What a note says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The daemon's address.
    pub host: String,
    /// What is to be undone there.
    pub undo: Undo,
}

/// The notes of this host and user.
#[derive(Clone, Debug)]
pub struct Notes {
    folder: PathBuf,
}

/// A note that this process holds.
#[derive(Debug)]
pub(super) struct HeldNote {
    path: PathBuf,
    /// Open and locked.
    file: File,
    pub note: Note,
}

impl Notes {
    /// The notes of this host, beside the sessions of mounts.
    pub fn of(settings: &Settings) -> Result<Self, Failure> {
        Ok(Self { folder: settings.sessions()?.join(FOLDER) })
    }

    /// Writes a note down, durably, before anything is done.
    pub(super) fn write(&self, note: Note) -> Result<HeldNote, Failure> {
        let name = Nonce::from_bytes(random()).to_string();
        let path = self.folder.join(name).with_extension(SUFFIX);
        let written = self.write_to(&path, &note);
        let file = written.map_err(|error| Error::io("cannot write the note", &path, error))?;
        Ok(HeldNote { path, file, note })
    }

    fn write_to(&self, path: &Path, note: &Note) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let unnamed = path.with_extension("new");
        let mut file = File::create_new(&unnamed)?;
        // Locked before it has its name: none is ever seen that could be taken for a dead process's.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&serde_json::to_vec(note)?)?;
        file.sync_all()?;
        fs::rename(&unnamed, path)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(file)
    }

    /// The notes about `host` that dead processes have left, held by this one from now on.
    pub(super) fn left(&self, host: &str) -> Vec<HeldNote> {
        let mut left: Vec<HeldNote> =
            self.paths().filter_map(taken).filter(|held| held.note.host == host).collect();
        left.sort_by_key(|held| held.note.undo.order());
        left
    }

    /// The daemons at which dead processes have left something.
    pub(super) fn hosts_left(&self) -> BTreeSet<String> {
        self.paths().filter_map(taken).map(|held| held.note.host).collect()
    }

    /// Whether a living command has this container at rest, or is about to; the holder of `own` does not count.
    ///
    /// A daemon has many addresses, and no two containers have the same id.
    pub(super) fn is_at_rest(&self, container: &str, own: Option<&HeldNote>) -> bool {
        let others = self.paths().filter(|path| own.is_none_or(|own| *path != own.path));
        others.filter_map(held_by_another).any(|note| note.undo.rests(container))
    }

    /// The notes of dead commands that have left this container at rest, or may have, held by this one from now on.
    pub(super) fn left_at_rest(&self, container: &str) -> Vec<HeldNote> {
        self.paths().filter_map(taken).filter(|held| held.note.undo.rests(container)).collect()
    }

    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX))
    }
}

/// What a note says whose writer lives.
fn held_by_another(path: PathBuf) -> Option<Note> {
    let mut file = File::open(&path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return None;
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The note, if nobody holds it.
fn taken(path: PathBuf) -> Option<HeldNote> {
    let mut file = File::open(&path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Its owner may have removed it between the two: what it names is undone.
    if file.metadata().ok()?.nlink() == 0 {
        return None;
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let note = serde_json::from_slice(&text);
    let note = note.inspect_err(|error| tracing::warn!(%error, ?path, "a note cannot be read")).ok()?;
    Some(HeldNote { path, file, note })
}

impl HeldNote {
    /// Whether the daemon may still be making what it names, for the writer of the note.
    pub fn is_young(&self) -> bool {
        self.is_younger_than(YOUNG)
    }

    /// What it names is asked for now: from this moment on the daemon may be doing it.
    pub fn touch(&self) {
        if let Err(error) = self.file.set_modified(SystemTime::now()) {
            tracing::warn!(path = %self.path.display(), %error, "a note keeps its older time");
        }
    }

    /// Whether it was written less than so long ago.
    pub fn is_younger_than(&self, limit: Duration) -> bool {
        let modified = fs::metadata(&self.path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age < limit))
    }

    /// Removes it: what it names is undone.
    pub fn remove(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a note could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn note(host: &str, container: &str) -> Note {
        let (container, name) = (container.to_owned(), "web".to_owned());
        let undo = Undo::Resume { container, name, found: Status::Running, stop_seconds: None };
        Note { host: host.to_owned(), undo }
    }

    #[test]
    fn a_note_is_of_a_living_command_until_that_ends_and_then_the_next_one_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes { folder: folder.path().to_owned() };
        assert!(!notes.is_at_rest("1", None));
        let held = notes.write(note("here", "1")).unwrap();
        assert!(notes.is_at_rest("1", None));
        assert!(!notes.is_at_rest("1", Some(&held)), "its own does not count");
        assert!(!notes.is_at_rest("2", None));
        assert!(notes.left("here").is_empty() && notes.hosts_left().is_empty());
        // As the kernel does when the process ends.
        drop(held);
        assert!(!notes.is_at_rest("1", None));
        assert_eq!(notes.hosts_left(), BTreeSet::from(["here".to_owned()]));
        let mut left = notes.left("here");
        assert_eq!(left.iter().map(|held| &held.note).collect::<Vec<_>>(), [&note("here", "1")]);
        assert!(notes.is_at_rest("1", None), "the command that undoes it works on the container");
        left.remove(0).remove();
        assert!(notes.left("here").is_empty());
    }

    #[test]
    fn a_note_that_its_owner_has_removed_meanwhile_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes { folder: folder.path().to_owned() };
        let held = notes.write(note("here", "1")).unwrap();
        let opened = File::open(&held.path).unwrap();
        held.remove();
        assert!(taken(format!("/proc/self/fd/{}", opened.as_raw_fd()).into()).is_none());
    }

    #[test]
    fn a_note_is_as_young_as_what_was_asked_last() {
        let folder = tempfile::tempdir().unwrap();
        let held = Notes { folder: folder.path().to_owned() }.write(note("here", "1")).unwrap();
        held.file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        assert!(!held.is_younger_than(Duration::from_secs(50)));
        held.touch();
        assert!(held.is_younger_than(Duration::from_secs(50)));
    }
}
