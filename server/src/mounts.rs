//! `Mounts` gives mounts of this host to callers that may not mount: each in a directory that the server makes,
//! below one for its tenant.

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
use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use store::{ErrorKind, catalog::clock, id::RecordId, name::Tenant};

/// How many mounts there may be on this host.
const MOST: usize = 128;
/// How many of them may be one tenant's.
const MOST_OF_A_TENANT: usize = 32;
/// A directory that is older, and empty, is nobody's mount any more.
const LEFT_AFTER_MS: u64 = 600_000;
/// Others pass through the directory of a tenant, and see no names in it. Who gets into a mount is up to the mount.
const TENANT_MODE: Mode = Mode::RWXU.union(Mode::XGRP).union(Mode::XOTH);

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

const WRITTEN_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// How directories are opened: never through a link.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where mounts are made, and how.
#[derive(Clone, Debug)]
pub struct MountsAt {
    /// The directory.
    pub directory: PathBuf,
    /// Whether callers may ask for mounts that all users of the host may use.
    pub for_others: bool,
    /// Starts the process of each.
    pub launcher: Launcher,
}

/// The directory below which mounts are made.
#[derive(Debug)]
pub(crate) struct Mounts {
    directory: PathBuf,
    handle: OwnedFd,
    pub(crate) for_others: bool,
    pub(crate) launcher: Launcher,
}

impl Mounts {
    /// Fails unless the directory is this user's alone to change, and its path has no link in it: else somebody
    /// could put another in its place.
    pub(crate) fn open(MountsAt { directory, for_others, launcher }: &MountsAt) -> Result<Self, Failure> {
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
        let handle =
            rustix::fs::open(directory, DIRECTORY, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let metadata = fs::symlink_metadata(directory).map_err(failed)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(wrong("belongs to another user"));
        }
        if metadata.mode() & WRITTEN_BY_OTHERS != 0 {
            return Err(wrong("can be written to by others"));
        }
        for parent in directory.ancestors().skip(1) {
            if is_replaceable_below(&fs::symlink_metadata(parent).map_err(failed)?) {
                return Err(wrong(&format!(
                    "could be replaced by others, who can write to {}",
                    parent.display()
                )));
            }
        }
        let (directory, launcher) = (directory.clone(), launcher.clone());
        Ok(Self { directory, handle, for_others: *for_others, launcher })
    }

    /// The name of the mount on `path`, if it is in the directory of the tenant.
    pub(crate) fn id_of(&self, tenant: &Tenant, path: &Path) -> Option<RecordId> {
        let below = path.strip_prefix(self.directory.join(tenant.as_str())).ok()?;
        below.to_str()?.parse().ok()
    }

    /// Makes an empty directory to mount on, unless there are too many. Its name is an id, so that the path stays
    /// in the directory of the tenant.
    pub(crate) fn make(&self, tenant: &Tenant, id: RecordId) -> Result<PathBuf, Failure> {
        self.require_unmoved()?;
        let failed = |errno: Errno| {
            Failure::new(ErrorKind::Io, format!("no directory can be made for the mount: {errno}"))
        };
        let is_made = match rustix::fs::mkdirat(&self.handle, tenant.as_str(), TENANT_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(failed(errno)),
        };
        let own = self.of_tenant(tenant).map_err(failed)?;
        if is_made {
            // The tenant's users pass through it, whatever the umask of the server.
            rustix::fs::fchmod(&own, TENANT_MODE).map_err(failed)?;
        }
        let stat = rustix::fs::fstat(&own).map_err(failed)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & WRITTEN_BY_OTHERS != 0 {
            let message = format!("others could replace the mounts of tenant {tenant}");
            return Err(Failure::new(ErrorKind::Io, message)
                .hint("its directory takes an owner, the server's user, who alone can write to it"));
        }
        rustix::fs::mkdirat(&own, id.to_string(), Mode::RWXU).map_err(failed)?;
        // Counted after it was made, so that those who come together are no more than there may be.
        let counted = self.counted(tenant).map_err(failed);
        if counted.as_ref().is_ok_and(|(of_tenant, all)| *of_tenant <= MOST_OF_A_TENANT && *all <= MOST) {
            return Ok(self.directory.join(tenant.as_str()).join(id.to_string()));
        }
        self.remove(tenant, id);
        counted?;
        Err(Failure::new(ErrorKind::Unavailable, "the server has too many mounts")
            .hint("end one that nobody needs; `GET /v1/mounts` lists those there are"))
    }

    /// Removes the directory of a mount that has ended. One that is in use, or holds something, stays.
    pub(crate) fn remove(&self, tenant: &Tenant, id: RecordId) {
        let removed = self
            .of_tenant(tenant)
            .and_then(|own| rustix::fs::unlinkat(own, id.to_string(), AtFlags::REMOVEDIR));
        if let Err(errno) = removed {
            tracing::warn!("the directory of mount {id} stays: {errno}");
        }
    }

    fn of_tenant(&self, tenant: &Tenant) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.handle, tenant.as_str(), DIRECTORY, Mode::empty())
    }

    /// How many directories for mounts the tenant has, and how many there are in all.
    fn counted(&self, tenant: &Tenant) -> Result<(usize, usize), Errno> {
        let (mut of_tenant, mut all) = (0, 0);
        for name in names(&self.handle)? {
            let Ok(found) = name.parse::<Tenant>() else { continue };
            let Ok(own) = self.of_tenant(&found) else { continue };
            let count = names(&own)?.iter().filter(|name| is_taken(&own, name)).count();
            all += count;
            of_tenant += if found == *tenant { count } else { 0 };
        }
        Ok((of_tenant, all))
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

/// Whether somebody else can put another directory in the place of one that lies in this one. In one that
/// everybody can write to, as `/tmp`, the sticky bit keeps the entries of others in their place.
fn is_replaceable_below(parent: &fs::Metadata) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_of_others = parent.uid() != own && parent.uid() != 0;
    is_of_others || parent.mode() & WRITTEN_BY_OTHERS != 0 && parent.mode() & STICKY == 0
}

/// The names in a directory that are UTF-8: others are not the server's.
fn names(directory: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(names)
}

/// Whether it is the directory of a mount. One that was left by a mount that somebody else has ended is removed;
/// the kernel keeps those that are mounted on.
fn is_taken(own: &OwnedFd, name: &str) -> bool {
    let Ok(id) = name.parse::<RecordId>() else { return false };
    let is_old = id.unix_ms().saturating_add(LEFT_AFTER_MS) < clock::unix_ms();
    !(is_old && rustix::fs::unlinkat(own, name, AtFlags::REMOVEDIR).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn at(directory: &Path) -> Result<Mounts, Failure> {
        let launch = |_: &MountRequest| -> Launching { Box::pin(async { Err(Failure::internal("unused")) }) };
        Mounts::open(&MountsAt {
            directory: directory.to_owned(),
            for_others: false,
            launcher: Launcher(Arc::new(launch)),
        })
    }

    #[test]
    fn a_directory_that_others_could_replace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (own, link, open) = (root.join("own"), root.join("link"), root.join("open"));
        [&own, &open].iter().for_each(|path| fs::create_dir(path).unwrap());
        symlink(&own, &link).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(open.join("below")).unwrap();
        for wrong in [&link, &open, &open.join("below"), &root.join("nowhere"), &own.join("..").join("own")] {
            at(wrong).unwrap_err();
        }
        // As /tmp is.
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        at(&open.join("below")).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let mounts = at(&own).unwrap();
        let [acme, other]: [Tenant; 2] = ["acme", "other"].map(|name| name.parse().unwrap());
        let id = clock::new_record_id();
        let made = mounts.make(&acme, id).unwrap();
        let place = own.join("acme");
        assert_eq!((mounts.id_of(&acme, &made), made.parent()), (Some(id), Some(place.as_path())));
        assert_eq!(mounts.id_of(&other, &made), None);
        for other in [root.join(id.to_string()), place.join("x"), made.join("x"), place.clone()] {
            assert_eq!(mounts.id_of(&acme, &other), None, "{}", other.display());
        }
        // Nobody else finds out which mounts a tenant has, or puts another directory in the place of one.
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o711);
        symlink(&open, own.join("other")).unwrap();
        mounts.make(&other, clock::new_record_id()).unwrap_err();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        mounts.make(&acme, clock::new_record_id()).unwrap_err();
        // One that was put in its place is noticed.
        fs::rename(&own, root.join("moved")).unwrap();
        symlink(root.join("open"), &own).unwrap();
        mounts.make(&acme, clock::new_record_id()).unwrap_err();
        mounts.remove(&acme, id);
        assert!(!root.join("moved/acme").join(id.to_string()).exists());
    }

    #[test]
    fn a_tenant_has_so_many_mounts_and_what_was_left_behind_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = at(&folder.path().canonicalize().unwrap()).unwrap();
        let [acme, other]: [Tenant; 2] = ["acme", "other"].map(|name| name.parse().unwrap());
        let make = |tenant: &Tenant| {
            let id = clock::new_record_id();
            mounts.make(tenant, id).map(|path| (id, path))
        };
        let made: Vec<_> = (0..MOST_OF_A_TENANT).map(|_| make(&acme).unwrap()).collect();
        assert_eq!(make(&acme).unwrap_err().kind, ErrorKind::Unavailable);
        let place = made[0].1.parent().unwrap();
        assert_eq!(fs::read_dir(place).unwrap().count(), MOST_OF_A_TENANT, "what is refused leaves nothing");
        make(&other).unwrap();
        mounts.remove(&acme, made[0].0);
        make(&acme).unwrap();
        // Somebody has ended the mount of an old one without the server.
        mounts.remove(&acme, made[1].0);
        let old = place.join(RecordId::from_parts(1, [2; 10]).to_string());
        fs::create_dir(&old).unwrap();
        make(&acme).unwrap();
        assert!(!old.exists());
    }
}
