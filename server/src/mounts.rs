//! `Mounts` gives mounts of this host to callers that may not mount: each in a directory that the server makes.

use std::{
    fmt, fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use engine::{
    failure::Failure,
    verbs::mount::{MountOutcome, MountRequest},
};
use rustix::fs::{AtFlags, Mode, OFlags};
use store::{ErrorKind, id::RecordId};

/// A mount that is being made.
pub type Launching = Pin<Box<dyn Future<Output = Result<MountOutcome, Failure>> + Send>>;

/// Starts the process that serves a mount, as `pstore mount` does.
#[derive(Clone)]
pub struct Launcher(pub Arc<dyn Fn(&MountRequest) -> Launching + Send + Sync>);

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launcher")
    }
}

/// Where mounts are made, and how.
#[derive(Clone, Debug)]
pub struct MountsAt {
    /// The directory.
    pub directory: PathBuf,
    /// Starts the process of each.
    pub launcher: Launcher,
}

/// The directory below which mounts are made.
#[derive(Debug)]
pub(crate) struct Mounts {
    directory: PathBuf,
    handle: OwnedFd,
    pub(crate) launcher: Launcher,
}

impl Mounts {
    /// Fails unless the directory is this user's alone to change, and its path has no link in it: else somebody
    /// could put another in its place.
    pub(crate) fn open(MountsAt { directory, launcher }: &MountsAt) -> Result<Self, Failure> {
        let shown = directory.display();
        let wrong = |what: &str| {
            Failure::usage(format!("{shown} {what}"))
                .hint("--mounts takes a directory that only its owner can write to")
        };
        let failed = |error: io::Error| {
            Failure::new(ErrorKind::Io, format!("{shown} cannot be used for mounts: {error}"))
        };
        if directory.canonicalize().map_err(failed)? != *directory {
            return Err(wrong("is not an absolute path without links"));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle =
            rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let metadata = fs::symlink_metadata(directory).map_err(failed)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(wrong("belongs to another user"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(wrong("can be written to by others"));
        }
        Ok(Self { directory: directory.clone(), handle, launcher: launcher.clone() })
    }

    /// Where the mount with this name is. The name is an id, so that the path stays below the directory.
    pub(crate) fn path(&self, id: RecordId) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// The name of what is mounted on `path`, if it is below the directory.
    pub(crate) fn id_of(&self, path: &Path) -> Option<RecordId> {
        let below = path.strip_prefix(&self.directory).ok()?;
        below.to_str()?.parse().ok()
    }

    /// Makes an empty directory to mount on.
    pub(crate) fn make(&self, id: RecordId) -> Result<PathBuf, Failure> {
        self.require_unmoved()?;
        let made = rustix::fs::mkdirat(&self.handle, id.to_string(), Mode::RWXU);
        made.map_err(|errno| {
            Failure::new(ErrorKind::Io, format!("no directory can be made for the mount: {errno}"))
        })?;
        Ok(self.path(id))
    }

    /// Removes the directory of a mount that has ended. One that is in use, or holds something, stays.
    pub(crate) fn remove(&self, id: RecordId) {
        if let Err(errno) = rustix::fs::unlinkat(&self.handle, id.to_string(), AtFlags::REMOVEDIR) {
            tracing::warn!("the directory of mount {id} stays: {errno}");
        }
    }

    /// Fails if another directory is where this one was.
    fn require_unmoved(&self) -> Result<(), Failure> {
        let same = rustix::fs::fstat(&self.handle).ok().zip(fs::symlink_metadata(&self.directory).ok());
        match same.is_some_and(|(own, found)| (own.st_dev, own.st_ino) == (found.dev(), found.ino())) {
            true => Ok(()),
            false => {
                let message = "the directory for mounts is not the one that the server was started with";
                Err(Failure::new(ErrorKind::Io, message).hint("start the server again"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn at(directory: &Path) -> Result<Mounts, Failure> {
        let launch = |_: &MountRequest| -> Launching { Box::pin(async { Err(Failure::internal("unused")) }) };
        Mounts::open(&MountsAt { directory: directory.to_owned(), launcher: Launcher(Arc::new(launch)) })
    }

    #[test]
    fn a_directory_that_others_could_replace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (own, link, open) = (root.join("own"), root.join("link"), root.join("open"));
        [&own, &open].iter().for_each(|path| fs::create_dir(path).unwrap());
        symlink(&own, &link).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        for wrong in [&link, &open, &root.join("nowhere"), &own.join("..").join("own")] {
            at(wrong).unwrap_err();
        }
        let mounts = at(&own).unwrap();
        let id = RecordId::from_parts(1, [2; 10]);
        let made = mounts.make(id).unwrap();
        assert_eq!((mounts.id_of(&made), made.parent()), (Some(id), Some(own.as_path())));
        for other in [root.join(id.to_string()), own.join("x"), made.join("x"), own.clone()] {
            assert_eq!(mounts.id_of(&other), None, "{}", other.display());
        }
        // One that was put in its place is noticed.
        fs::rename(&own, root.join("moved")).unwrap();
        symlink(root.join("open"), &own).unwrap();
        mounts.make(RecordId::from_parts(2, [2; 10])).unwrap_err();
        mounts.remove(id);
        assert!(!root.join("moved").join(id.to_string()).exists());
    }
}
