//! `Note` is what a save or restore leaves on disk about the services that it has brought to rest, so that they go on
//! even if it is killed.
//!
//! Whoever works on a project holds the flock of its note, and the kernel lets go of that when the process ends,
//! however it ends. So a note that can be locked and is not empty was left by a dead process: the next command of
//! that project undoes what it says.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::Read,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::PathBuf,
};

use engine::{Engine, failure::Failure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use store::{ErrorKind, error::IoContext, name::ProfileName};

use super::{file::Hook, service::Resting};

/// Where notes are, below the sessions of mounts.
const FOLDER: &str = ".projects";

/// What is to be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The services that rest, as they were found.
    pub resting: Vec<Resting>,
    /// The hooks that run after a save, if those before it have begun.
    pub post_save: Vec<Hook>,
    /// Where these hooks run.
    pub project_file: PathBuf,
    /// Folders that are being replaced, in their order.
    pub replaced: Vec<Replaced>,
    /// Where restored folders are until then.
    pub staging: Vec<PathBuf>,
    /// All folders are replaced: what was there before is to go.
    pub is_replaced: bool,
}

/// A folder in whose place another one is put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// Where it is.
    pub place: PathBuf,
    /// Where the new one is until then, beside it.
    pub new: PathBuf,
    /// Where it was written; `None` if the place is empty afterwards.
    pub restored: Option<PathBuf>,
    /// Where the old one is from then on.
    pub old: PathBuf,
    /// Whether there is an old one.
    pub was_there: bool,
    /// What is known of the new one.
    #[serde(default)]
    pub made: Made,
}

/// What is known of what a restore puts in a place. It tells that from what somebody else makes there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// Nothing: an older pstore has written the note.
    #[default]
    Unknown,
    /// It is not complete yet, so nothing was moved in.
    NotYet,
    /// It is complete.
    Complete {
        /// The device that it is on.
        device: u64,
        /// Its number there, which it keeps when it is moved.
        number: u64,
    },
}

/// The note of a project, locked.
#[derive(Debug)]
pub struct Note {
    path: PathBuf,
    file: File,
    /// What it says.
    pub pending: Pending,
}

impl Note {
    /// Locks the note of a project, and reads it. Fails if somebody else works on that project on this host.
    pub fn take(engine: &Engine, name: &ProfileName) -> Result<Self, Failure> {
        let folder = engine.settings.sessions()?.join(FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).at("cannot make", &folder)?;
        let path = folder.join(format!("{}+{}.json", name.tenant, name.profile));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).at("cannot open", &path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let message = format!("a save or restore of {name} is going on on this host");
            return Err(Failure::new(ErrorKind::LockHeld, message).hint(format!(
                "wait for it; `pstore lock show {name} --chrome-major 65534` tells who it is"
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).at("cannot read", &path)?;
        let pending = match text.trim().is_empty() {
            true => Pending::default(),
            false => serde_json::from_str(&text).map_err(|error| {
                let message = format!("{} is damaged: {error}", path.display());
                Failure::new(ErrorKind::Damaged, message)
                    .hint("look which services it names, let them go on by hand, and remove the file")
            })?,
        };
        Ok(Self { path, file, pending })
    }

    /// The files of projects of which a dead command has left something to undo.
    pub fn files_left(engine: &Engine) -> Vec<PathBuf> {
        let folder = engine.settings.sessions().map(|sessions| sessions.join(FOLDER));
        let notes =
            folder.into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        // One that is being written is a living command's.
        let left =
            notes.filter_map(|note| serde_json::from_slice::<Pending>(&fs::read(note.path()).ok()?).ok());
        let files = left.map(|pending| pending.project_file);
        files.filter(|file| !file.as_os_str().is_empty()).collect()
    }

    /// Makes what it says durable.
    pub fn write(&mut self) -> Result<(), Failure> {
        let text = match self.pending == Pending::default() {
            true => String::new(),
            false => serde_json::to_string(&self.pending)
                .map_err(|error| Failure::internal(format!("the note cannot be written: {error}")))?,
        };
        // In its place, since the lock is the file's: whole in one call, and blanks over what was longer before.
        let text = text.into_bytes();
        let before = self.file.metadata().at("cannot read", &self.path)?.len();
        let mut padded = text.clone();
        padded.resize(text.len().max(before as usize), b' ');
        let written = self
            .file
            .write_all_at(&padded, 0)
            .and_then(|()| self.file.set_len(text.len() as u64))
            .and_then(|()| self.file.sync_all());
        Ok(written.at("cannot write", &self.path)?)
    }

    /// Writes down that nothing is to be undone any more.
    pub fn clear(&mut self) -> Result<(), Failure> {
        self.pending = Pending::default();
        self.write()
    }
}
