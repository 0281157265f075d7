//! `Notes` remembers on this host what is to be undone at a daemon, until it is undone.
//!
//! A note is written before anything is done, and removed after it is undone. Whoever wrote one holds its lock, and the
//! kernel lets go of that when the process ends, however it ends. So a note that can be locked was left by a dead
//! process: the next command undoes what it names.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    },
    /// Remove a container that we have made.
    Container {
        /// Its name.
        name: String,
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
    },
    /// Put a container back into the place of one that was to replace it.
    PutBack {
        /// The id of the container that is to be put back.
        container: String,
        /// Its name, which the other one may have now.
        name: String,
        /// Whether it ran.
        found: Status,
    },
}

impl Undo {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    _file: File,
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
        Ok(HeldNote { path, _file: file, note })
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
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let named = paths.filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX));
        let mut left: Vec<HeldNote> = named.filter_map(taken).filter(|held| held.note.host == host).collect();
        left.sort_by_key(|held| held.note.undo.order());
        left
    }
}

/// The note, if nobody holds it.
fn taken(path: PathBuf) -> Option<HeldNote> {
    let mut file = File::open(&path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let note = serde_json::from_slice(&text);
    let note = note.inspect_err(|error| tracing::warn!(%error, ?path, "a note cannot be read")).ok()?;
    Some(HeldNote { path, _file: file, note })
}

impl HeldNote {
    /// Whether the daemon may still be making what it names, for whoever has written it.
    pub fn is_young(&self) -> bool {
        let modified = fs::metadata(&self.path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age < YOUNG))
    }

    /// Removes it: what it names is undone.
    pub fn remove(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a note could not be removed");
        }
    }
}
