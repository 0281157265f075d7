//! `WorkspaceFolder` keeps what this host knows of a workspace: its settings, its slots and the database of its events.
//!
//! It lies outside of the workspace, in a folder that is named after the digest of the directory's path. Whoever changes
//! something holds the lock of the folder meanwhile. Files are replaced whole, so one that is killed leaves the old one.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use store::{
    ErrorKind,
    name::{ChromeMajor, Lineage, ProfileName},
    tree::root_dir::RootDir,
};

use super::{
    ignore_files::ignored,
    slots::{Kept, Slots},
};
use crate::{Engine, failure::Failure};

/// How the name of the folder begins in which a revert prepares what it moves to its place; 16 digits follow.
pub(crate) const PREPARED: &str = ".pstore-revert-";
const SETTINGS: &str = "workspace.json";
const SLOTS: &str = "slots.json";
const LOCK: &str = "lock";
/// The database of events.
pub(crate) const SESSION_DB: &str = "session.db";
const VERSION: u32 = 1;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What was fixed when a workspace was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkspaceSettings {
    pub version: u32,
    pub directory: PathBuf,
    /// The directory's device and inode: another directory at the same path is another workspace.
    pub device: u64,
    pub inode: u64,
    pub profile: ProfileName,
    pub store: String,
    pub auto_max: u64,
    pub manual_max: u64,
    pub auto_interval: u64,
    /// Leave out what `.gitignore` and `.pstoreignore` say.
    #[serde(default)]
    pub ignore_files: bool,
}

/// The folder of one workspace.
#[derive(Clone, Debug)]
pub(crate) struct WorkspaceFolder {
    pub path: PathBuf,
    pub settings: WorkspaceSettings,
}

/// The lock of a folder, for as long as it lives.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl WorkspaceFolder {
    /// The folder of the workspace in `directory`, which was started before.
    pub fn open(engine: &Engine, directory: &Path) -> Result<Self, Failure> {
        let directory = canonical(directory)?;
        let path = folder_of(engine, &directory)?;
        let settings: WorkspaceSettings = match read(&path.join(SETTINGS))? {
            Some(settings) => settings,
            None => return Err(unstarted(&directory)),
        };
        if settings.version > VERSION {
            return Err(Failure::new(
                ErrorKind::UnsupportedFormat,
                format!("the workspace {} was started by a newer pstore", directory.display()),
            ));
        }
        let folder = Self { path, settings };
        folder.require_same()?;
        let shown = engine.location.shown();
        if folder.settings.store != shown {
            let message = format!(
                "the checkpoints of {} are in {}, and not in {shown}",
                directory.display(),
                folder.settings.store
            );
            return Err(Failure::usage(message).hint(format!("use --store {}", folder.settings.store)));
        }
        Ok(folder)
    }

    /// Fails if another directory is there by now, or another mount.
    pub fn require_same(&self) -> Result<(), Failure> {
        let (directory, settings) = (self.directory(), &self.settings);
        let found = fs::metadata(directory).map_err(|error| unreadable(directory, &error))?;
        if (found.dev(), found.ino()) == (settings.device, settings.inode) {
            return Ok(());
        }
        let (shown, profile) = (directory.display(), &settings.profile);
        let message = format!("{shown} is another directory than the one that was a workspace of {profile}");
        Err(Failure::new(ErrorKind::Conflict, message).hint(format!(
            "`pstore workspace start {shown} {profile}` goes on with it there, and its checkpoints stay"
        )))
    }

    /// Takes the lock unless somebody has it.
    pub fn try_lock(&self) -> Result<Option<FolderLock>, Failure> {
        let path = self.path.join(LOCK);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| unwritable(&path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FolderLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(unwritable(&path, &error.into())),
        }
    }

    /// What is kept of an earlier start in this directory, whichever directory that was.
    pub fn earlier(engine: &Engine, directory: &Path) -> Result<Option<WorkspaceSettings>, Failure> {
        let directory = canonical(directory)?;
        read(&folder_of(engine, &directory)?.join(SETTINGS))
    }

    /// Makes the folder, or gives it these settings.
    pub fn make(engine: &Engine, settings: WorkspaceSettings) -> Result<Self, Failure> {
        let path = folder_of(engine, &settings.directory)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| unwritable(&path, &error))?;
        let folder = Self { path, settings };
        write(&folder.path.join(SETTINGS), &folder.settings)?;
        Ok(folder)
    }

    /// What was fixed for the workspaces that were started directly below a folder. No directory is looked at: one whose
    /// file system does not answer keeps nobody waiting who does not ask for it.
    pub fn started_below(engine: &Engine, folder: &Path) -> Result<Vec<WorkspaceSettings>, Failure> {
        let (root, folder) = (engine.settings.workspaces()?, canonical(folder)?);
        let entries = match fs::read_dir(&root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&root, &error)),
        };
        let mut found: Vec<WorkspaceSettings> = Vec::new();
        for entry in entries.flatten() {
            // One that cannot be read is told to who asks for that workspace itself.
            found.extend(read(&entry.path().join(SETTINGS)).ok().flatten());
        }
        found.retain(|settings| settings.directory.parent() == Some(&*folder));
        Ok(found)
    }

    /// The lineage of the checkpoints.
    pub fn lineage(&self) -> Lineage {
        Lineage { name: self.settings.profile.clone(), chrome_major: ChromeMajor::WORKSPACE }
    }

    /// Where the workspace is.
    pub fn directory(&self) -> &Path {
        &self.settings.directory
    }

    /// The database of events.
    pub fn session_db(&self) -> PathBuf {
        self.path.join(SESSION_DB)
    }

    /// Paths that no checkpoint has and no revert touches: what a revert that was killed has left, and what the workspace's
    /// own files say if they are asked.
    pub fn left_out(&self) -> Result<Vec<String>, Failure> {
        let mut left_out = prepared(self);
        if self.settings.ignore_files {
            let root = RootDir::open(self.directory())?;
            left_out.extend(ignored(&root).map_err(|error| unreadable(self.directory(), &error))?);
        }
        Ok(left_out)
    }

    /// Waits until nobody else changes anything.
    #[crate::boxed]
    pub async fn lock(&self) -> Result<FolderLock, Failure> {
        loop {
            match self.try_lock()? {
                Some(lock) => return Ok(lock),
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Waits for that, but no longer than `patience`.
    #[crate::boxed]
    pub async fn lock_within(&self, patience: Duration) -> Result<FolderLock, Failure> {
        tokio::time::timeout(patience, self.lock()).await.unwrap_or_else(|_| {
            let message = format!("another process is changing the workspace {}", self.directory().display());
            Err(Failure::new(ErrorKind::InUse, message))
        })
    }

    /// The slots as they are now.
    pub fn slots(&self) -> Result<Slots, Failure> {
        Ok(read(&self.path.join(SLOTS))?.unwrap_or_default())
    }

    /// Replaces the slots. Whoever calls it has the lock.
    pub fn keep_slots(&self, slots: &Slots, _lock: &FolderLock) -> Result<(), Failure> {
        write(&self.path.join(SLOTS), slots)
    }

    /// What a person types to see the checkpoints.
    pub fn listing(&self) -> String {
        format!("`pstore workspace list {}` shows the checkpoints there are", self.directory().display())
    }

    /// A checkpoint by `cp-N`, `N` or its name; the newest if none is said.
    pub fn checkpoint(&self, slots: &Slots, wanted: Option<&str>) -> Result<Kept, Failure> {
        let found = match wanted {
            None => slots.newest(),
            Some(wanted) => slots.find(wanted),
        };
        found.cloned().ok_or_else(|| {
            let message = match wanted {
                None => format!("{} has no checkpoint yet", self.directory().display()),
                Some(wanted) => format!("{} has no checkpoint {wanted}", self.directory().display()),
            };
            let hint = match wanted {
                None => format!("`pstore checkpoint {}` takes one", self.directory().display()),
                Some(_) => self.listing(),
            };
            Failure::new(ErrorKind::NotFound, message).hint(hint)
        })
    }
}

/// The directory without links on the way.
pub(crate) fn canonical(directory: &Path) -> Result<PathBuf, Failure> {
    let found = fs::canonicalize(directory).map_err(|error| unreadable(directory, &error))?;
    if !found.is_dir() {
        let message = format!("{} is not a directory", directory.display());
        return Err(Failure::new(ErrorKind::NotFound, message));
    }
    Ok(found)
}

fn folder_of(engine: &Engine, directory: &Path) -> Result<PathBuf, Failure> {
    use std::os::unix::ffi::OsStrExt;
    let digest = Sha256::digest(directory.as_os_str().as_bytes());
    let name: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    Ok(engine.settings.workspaces()?.join(name))
}

fn unstarted(directory: &Path) -> Failure {
    let shown = directory.display();
    Failure::new(ErrorKind::NotFound, format!("{shown} is no workspace"))
        .hint(format!("`pstore workspace start {shown} TENANT/PROFILE` makes it one"))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Failure::new(kind, format!("{} cannot be read: {error}", path.display()))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(ErrorKind::Io, format!("{} cannot be written: {error}", path.display()))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        Failure::new(ErrorKind::Damaged, format!("{} is damaged: {error}", path.display()))
            .hint("move it away; the checkpoints are in the store, and `pstore list` shows them")
    })
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let unwritten = |error: io::Error| unwritable(path, &error);
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| Failure::internal(format!("{} cannot be written: {error}", path.display())))?;
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(unwritten)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(unwritten)?;
    fs::rename(&new, path).map_err(unwritten)
}

/// What a revert that was killed has left.
pub(crate) fn prepared(folder: &WorkspaceFolder) -> Vec<String> {
    let entries = fs::read_dir(folder.directory()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_prepared(name.as_bytes())).collect()
}

/// Whether a path is that of a folder in which a revert prepares something, or in which such a folder is made; or below it.
pub(crate) fn is_prepared(path: &[u8]) -> bool {
    let digits = |text: &[u8]| {
        let (digits, rest) = text.split_at_checked(16)?;
        digits.iter().all(u8::is_ascii_hexdigit).then(|| rest.to_vec())
    };
    let top = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    if let Some(rest) = top.strip_prefix(PREPARED.as_bytes()) {
        return digits(rest).is_some_and(|rest| rest.is_empty());
    }
    let hidden = top.strip_prefix(b".").and_then(|top| top.strip_prefix(PREPARED.as_bytes()));
    let made = hidden.and_then(digits);
    let made = made.as_deref().and_then(|rest| rest.strip_prefix(b".pstore-")).and_then(digits);
    made.is_some_and(|rest| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_revert_prepares_has_a_name_that_nobody_else_gives() {
        for path in [
            ".pstore-revert-0123456789abcdef",
            ".pstore-revert-0123456789abcdef/src/a",
            "..pstore-revert-0123456789abcdef.pstore-0123456789abcdef/a",
        ] {
            assert!(is_prepared(path.as_bytes()), "{path}");
        }
        for path in [
            ".pstore-revert-notes",
            ".pstore-revert-0123456789abcdef-mine",
            "..pstore-revert-0123456789abcdef",
            "a/.pstore-revert-0123456789abcdef",
            "",
        ] {
            assert!(!is_prepared(path.as_bytes()), "{path}");
        }
    }
}
