//! The kernel's side of a mount, and what to say when it refuses.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use store::{Error, Result};

use crate::adapter::{self, Adapter, Options};

/// A file system that the kernel asks. Dropping it unmounts.
#[derive(Debug)]
pub struct Kernel {
    session: Option<fuser::BackgroundSession>,
    mountpoint: PathBuf,
}

impl Kernel {
    /// Mounts, and returns when the mount answers. Blocks.
    pub fn mount(adapter: Adapter, options: &Options) -> Result<Self> {
        let session =
            adapter::mount(adapter, options).map_err(|error| refusal(&options.mountpoint, error))?;
        let kernel = Self { session: Some(session), mountpoint: options.mountpoint.clone() };
        // The root's number is ours alone; a directory of another file system hardly has it.
        std::fs::metadata(&options.mountpoint).map_err(|error| refusal(&options.mountpoint, error))?;
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

    /// Whether it was unmounted by somebody else.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
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

/// Says exactly what is missing.
fn refusal(mountpoint: &Path, error: io::Error) -> Error {
    let device = Path::new("/dev/fuse");
    let root = rustix::process::geteuid().is_root();
    let what = if !device.exists() {
        Some("/dev/fuse does not exist: load the kernel's module with `modprobe fuse`, or give the container --device /dev/fuse".to_owned())
    } else if std::fs::File::options().read(true).write(true).open(device).is_err() {
        let mode = device.metadata().map_or(0, |found| found.mode() & 0o777);
        Some(format!(
            "/dev/fuse (mode {mode:03o}) cannot be opened by this user: `chmod 0666 /dev/fuse`, or run the container with --device /dev/fuse"
        ))
    } else if !root && !has_helper() {
        Some("fusermount3 is not installed, which users other than root need: `apt install fuse3`".to_owned())
    } else if root && error.kind() == io::ErrorKind::PermissionDenied {
        Some("mounting is not permitted here: a container needs --cap-add SYS_ADMIN, and perhaps --security-opt apparmor=unconfined".to_owned())
    } else if error.to_string().contains("allow_other") {
        Some("--allow-other needs the line `user_allow_other` in /etc/fuse.conf".to_owned())
    } else {
        None
    };
    match what {
        Some(what) => {
            Error::Io { action: "cannot mount", path: mountpoint.to_owned(), source: io::Error::other(what) }
        }
        None => Error::io("cannot mount", mountpoint, error),
    }
}

fn has_helper() -> bool {
    ["fusermount3", "fusermount"].iter().any(|helper| Command::new(helper).arg("-V").output().is_ok())
}
