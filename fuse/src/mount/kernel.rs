//! `Kernel` mounts and unmounts with the kernel's help, and explains its refusals.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, StatxFlags, makedev};
use store::{Error, Result};

use super::info::Info;
use crate::adapter::{self, Adapter, Options};

const FUSE: &str = "/dev/fuse";
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A file system that the kernel asks. Dropping it unmounts.
#[derive(Debug)]
pub struct Kernel {
    session: Option<fuser::BackgroundSession>,
    mountpoint: PathBuf,
    /// The number that the kernel has given to it.
    device: u64,
}

impl Kernel {
    /// Mounts, and returns when the mount answers. Blocks.
    pub fn mount(adapter: Adapter, options: &Options) -> Result<Self> {
        let session =
            adapter::mount(adapter, options).map_err(|error| refusal(&options.mountpoint, error))?;
        let mut kernel = Self { session: Some(session), mountpoint: options.mountpoint.clone(), device: 0 };
        let root =
            std::fs::metadata(&options.mountpoint).map_err(|error| refusal(&options.mountpoint, error))?;
        kernel.device = root.dev();
        if options.near && is_fuse(&options.mountpoint) {
            read_far_ahead(root.dev());
        }
        Ok(kernel)
    }

    /// Unmounts. Fails if somebody uses it, unless `anyway`: then it goes when they are done.
    pub fn unmount(&mut self, anyway: bool) -> Result<()> {
        if !anyway {
            detach(&self.mountpoint, false)?;
        } else if detach(&self.mountpoint, false).is_err() {
            detach(&self.mountpoint, true)?;
        }
        if let Some(session) = self.session.take() {
            drop(session.guard);
        }
        Ok(())
    }

    /// Whether whoever opens the mountpoint comes here. Somebody else may have unmounted it, and those
    /// who had it open may still be here. Asks nobody but the kernel.
    pub fn is_reached(&self) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let found = rustix::fs::statx(rustix::fs::CWD, &self.mountpoint, flags, StatxFlags::empty());
        found.is_ok_and(|found| makedev(found.stx_dev_major, found.stx_dev_minor) == self.device)
    }

    /// Whether it was unmounted by somebody else, and nobody is here any more.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }
}

/// What the kernel calls file systems such as ours.
pub(super) const MAGIC: u32 = 0x6573_5546;

/// Whether this is a file system such as ours: somebody may have unmounted it already, and the disk
/// below is not ours to tune.
fn is_fuse(mountpoint: &Path) -> bool {
    rustix::fs::statfs(mountpoint).is_ok_and(|found| found.f_type as u32 == MAGIC)
}

/// Lets the kernel read ahead as far as was agreed with it: left alone, it keeps to 128 KiB, and the
/// chunk at each border of its requests is decompressed twice. Only root may; others are slower.
///
/// Not for stores far away: a page of a mapped file that is missing is read with all around it.
fn read_far_ahead(device: u64) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&setting, (adapter::MAX_READAHEAD >> 10).to_string()) {
        tracing::debug!(%error, setting, "the kernel reads ahead as it does by itself");
    }
}

/// Fails if nothing can be mounted here, whatever it is, and says what is missing. What only
/// the kernel knows is not asked.
pub fn is_possible() -> Result<()> {
    match missing() {
        Some(what) => {
            Err(Error::Io { action: "cannot use", path: FUSE.into(), source: io::Error::other(what) })
        }
        None => Ok(()),
    }
}

/// Whether a mount is there that nobody answers for: its daemon is dead.
pub fn is_stale(mountpoint: &Path) -> bool {
    let gone = rustix::io::Errno::NOTCONN.raw_os_error();
    // Attributes the kernel may have kept; for the entries it has to ask.
    std::fs::read_dir(mountpoint).is_err_and(|error| error.raw_os_error() == Some(gone))
}

/// Takes a mount away that nobody answers for.
pub fn clean_up(mountpoint: &Path) -> Result<()> {
    detach(mountpoint, true)
}

/// A daemon that is killed while it reads from its own mount, as commits do, does not end: the
/// kernel lets it wait for an answer that only it could give. Then all who use the mount wait,
/// too. Takes the mount from such a daemon, waits until it has ended, and says whether it has.
pub fn release_if_stuck(info: &Info) -> bool {
    let is_stuck = || info.is_of_this_boot() && is_dead_in_part(info.pid);
    if !is_stuck() {
        return false;
    }
    tracing::warn!(pid = info.pid, "the daemon was killed and waits for itself; its mount is taken away");
    // It is in use, so it stays where it is; but nobody is waited for any more.
    if rustix::mount::unmount(&info.mountpoint, rustix::mount::UnmountFlags::FORCE).is_err() {
        let _ = abort(&info.mountpoint);
    }
    let began = Instant::now();
    while is_stuck() && began.elapsed() < RELEASE_PATIENCE {
        std::thread::sleep(LOOK_AGAIN);
    }
    !is_stuck()
}

/// Whether the process has ended but for threads that cannot.
fn is_dead_in_part(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_dead = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
    is_dead && std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 1)
}

/// What a user may do who may not unmount by force.
fn abort(mountpoint: &Path) -> io::Result<()> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let shown = mountpoint.to_string_lossy().replace(' ', "\\040");
    let line = table.lines().find(|line| line.split(' ').nth(4) == Some(&shown));
    let device = line.and_then(|line| line.split(' ').nth(2)?.split_once(':'));
    let (_, minor) = device.ok_or_else(|| io::Error::other("it is not mounted"))?;
    std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1")
}

/// With the kernel if we may, else with the helper that may.
fn detach(mountpoint: &Path, lazily: bool) -> Result<()> {
    use rustix::mount::{UnmountFlags, unmount};
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    let errno = match unmount(mountpoint, flags) {
        Ok(()) => return Ok(()),
        Err(errno) => errno,
    };
    match errno {
        rustix::io::Errno::BUSY => Err(Error::InUse {
            path: mountpoint.to_owned(),
            by: "a program that has a file or directory of it open".to_owned(),
        }),
        rustix::io::Errno::PERM => {
            let mut helper = Command::new("fusermount3");
            helper.arg("-u").args(lazily.then_some("-z")).arg("--").arg(mountpoint);
            match helper.output() {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) => {
                    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                    if said.contains("busy") {
                        return Err(Error::InUse { path: mountpoint.to_owned(), by: said });
                    }
                    Err(Error::io("cannot unmount", mountpoint, io::Error::other(said)))
                }
                Err(error) => Err(refusal(mountpoint, error)),
            }
        }
        errno => Err(Error::io("cannot unmount", mountpoint, errno)),
    }
}

/// What has to be there before the kernel is asked.
fn missing() -> Option<String> {
    let device = Path::new(FUSE);
    if !device.exists() {
        return Some("/dev/fuse does not exist: load the kernel's module with `modprobe fuse`, or give the container --device /dev/fuse".to_owned());
    }
    if std::fs::File::options().read(true).write(true).open(device).is_err() {
        let mode = device.metadata().map_or(0, |found| found.mode() & 0o777);
        return Some(format!(
            "/dev/fuse (mode {mode:03o}) cannot be opened by this user: `chmod 0666 /dev/fuse`, or run the container with --device /dev/fuse"
        ));
    }
    if !rustix::process::geteuid().is_root() && !has_helper() {
        return Some(
            "fusermount3 is not installed, which users other than root need: `apt install fuse3`".to_owned(),
        );
    }
    None
}

/// Says exactly what is missing.
fn refusal(mountpoint: &Path, error: io::Error) -> Error {
    let refused = || {
        if rustix::process::geteuid().is_root() && error.kind() == io::ErrorKind::PermissionDenied {
            Some("mounting is not permitted here: a container needs --cap-add SYS_ADMIN, and perhaps --security-opt apparmor=unconfined".to_owned())
        } else if error.to_string().contains("allow_other") {
            Some("--allow-other needs the line `user_allow_other` in /etc/fuse.conf".to_owned())
        } else {
            None
        }
    };
    match missing().or_else(refused) {
        Some(what) => {
            Error::Io { action: "cannot mount", path: mountpoint.to_owned(), source: io::Error::other(what) }
        }
        None => Error::io("cannot mount", mountpoint, error),
    }
}

fn has_helper() -> bool {
    ["fusermount3", "fusermount"].iter().any(|helper| Command::new(helper).arg("-V").output().is_ok())
}
