//! `write_out` has the kernel hand over the bytes that it has kept: dirty pages of shared mappings, and writes of a
//! mount with writeback. A commit beside a running browser needs them, and so does a session that is put aside.
//!
//! The kernel writes them back when somebody who could write closes the file, and waits until the mount has taken them.
//! A file with a mapping is open in the mount's eyes, so these are the ones to open and to close once more. That is
//! done by a process of its own, this program started once more: a thread of the daemon that waits for its own answers
//! would keep the connection to the kernel open if the daemon were killed, and everybody would wait for ever.
//!
//! The process may have more rights than whoever uses the mount. So it goes by names that it follows below the mount
//! alone, through no symbolic link, and opens nothing but regular files.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FileType, MemfdFlags, Mode, OFlags, fdatasync, fstat, fstatfs, memfd_create, open},
    io::Errno,
};
use store::{Error, Result, format::tree::TreePath, tree::root_dir::RootDir};

use super::{Mount, kernel::MAGIC};
use crate::overlay::node::Ino;

/// The one argument with which the program serves as such a process.
pub const VERB: &str = "write-out-mappings";
/// The code with which it ends if it had to leave files out.
pub const LEFT_OUT: u8 = 3;
/// The code with which it ends if files were not where they should be, and it has left no other out.
pub const MOVED: u8 = 4;
/// How long it may take. A commit goes on without what is not written out by then.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is tried with files that have got other names meanwhile.
const ROUNDS: usize = 3;
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Whether the kernel has handed over what it had kept when it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenOut {
    /// All of it.
    All,
    /// Not of files that had other names by then. Whoever knows the new ones may ask again.
    Moved,
    /// Not of some files, or not yet.
    Some,
}

impl Mount {
    /// Whether what is taken now may lack something that a program has written before.
    pub(super) fn may_lack_writes(&self, written_out: WrittenOut) -> bool {
        // Without writeback, the kernel keeps pages of mappings alone, which nobody has written.
        written_out == WrittenOut::Some && self.writeback.load(Ordering::Acquire)
    }

    /// Has every file that is open for writing written out. Blocks; changes must not be held up.
    pub fn write_out(&self) -> Result<WrittenOut> {
        for _ in 0..ROUNDS {
            let files = self.fs.open_for_writing();
            let done = if files.is_empty() { WrittenOut::All } else { self.write_out_at(&files)? };
            if done != WrittenOut::Moved {
                return Ok(done);
            }
        }
        tracing::warn!("open files that get other names all the time were not written out");
        Ok(WrittenOut::Some)
    }

    /// Has the files with these names written out.
    fn write_out_at(&self, files: &[(Ino, TreePath)]) -> Result<WrittenOut> {
        let mountpoint = &self.info.mountpoint;
        let failed = |error| Error::io("cannot have mapped files written out on", mountpoint, error);
        let ended = order(mountpoint, files)
            .and_then(|order| {
                let mut command = Command::new("/proc/self/exe");
                command.arg0("pstore").arg(VERB).env_clear().current_dir("/");
                // What a terminal sends to this one is none of its business.
                command.process_group(0).stdin(order).stdout(Stdio::null()).spawn()
            })
            .and_then(|mut child| ended(&mut child, PATIENCE))
            .map_err(failed)?;
        match ended {
            Some(ended) if ended.success() => Ok(WrittenOut::All),
            Some(ended) if ended.code() == Some(LEFT_OUT.into()) => Ok(WrittenOut::Some),
            Some(ended) if ended.code() == Some(MOVED.into()) => Ok(WrittenOut::Moved),
            Some(ended) => Err(failed(io::Error::other(format!("the process for it ended with {ended}")))),
            None => {
                tracing::warn!("open files were not written out within {} s", PATIENCE.as_secs());
                Ok(WrittenOut::Some)
            }
        }
    }
}

/// How a process ends; `None` if it does not in time, and is killed.
fn ended(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(ended) = child.try_wait()? {
            return Ok(Some(ended));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The mountpoint, and the numbers and names of files below it, all there from the beginning, so that nobody waits for them
/// to be read.
fn order(mountpoint: &Path, files: &[(Ino, TreePath)]) -> io::Result<File> {
    let mut order = File::from(memfd_create("files", MemfdFlags::CLOEXEC)?);
    order.write_all(mountpoint.as_os_str().as_bytes())?;
    for (ino, name) in files {
        write!(order, "\0{}/", ino.0)?;
        order.write_all(name.as_bytes())?;
    }
    order.rewind()?;
    Ok(order)
}

/// Serves as the process that writes out files. It reads the name of the mountpoint, and the files below it, each with a zero
/// byte before it: its number, a slash, and its name. What it cannot open is told on stderr and left out.
pub fn serve(mut names: impl Read) -> io::Result<WrittenOut> {
    let mut read = Vec::new();
    names.read_to_end(&mut read)?;
    let mut names = read.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut done = WrittenOut::All;
    let Some(mountpoint) = names.next() else { return Ok(done) };
    let root = RootDir::open(Path::new(std::ffi::OsStr::from_bytes(mountpoint))).map_err(io::Error::other)?;
    if fstatfs(root.fd())?.f_type as u32 != MAGIC {
        return Err(io::Error::other("something else is mounted there by now"));
    }
    for file in names {
        let mut parts = file.splitn(2, |byte| *byte == b'/');
        let number = parts.next().and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let (Some(number), Some(name)) = (number, parts.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match write_out(&root, number, name) {
            Ok(true) => {}
            Ok(false) if done == WrittenOut::All => done = WrittenOut::Moved,
            Ok(false) => {}
            Err(error) => {
                let name = String::from_utf8_lossy(name);
                eprintln!("pstore: cannot have {name:?} written out: {error}");
                done = WrittenOut::Some;
            }
        }
    }
    Ok(done)
}

/// Says whether the file was there.
fn write_out(root: &RootDir, number: u64, name: &[u8]) -> io::Result<bool> {
    let found = match root.open_at(name, OFlags::PATH, Mode::empty()) {
        Err(error) if is_gone(&error) => return Ok(false),
        found => found?,
    };
    let stat = fstat(&found)?;
    if stat.st_ino != number || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(false);
    }
    // The file that was looked at, whatever its name leads to by now.
    let same = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    let opened = |access| open(&same, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    match opened(OFlags::WRONLY) {
        // Closing it does the work.
        Ok(file) => drop(file),
        // Its mode forbids to open it so again.
        Err(Errno::ACCESS) => fdatasync(opened(OFlags::RDONLY)?)?,
        Err(errno) => return Err(errno.into()),
    }
    Ok(true)
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV, Errno::STALE];
    error.raw_os_error().is_some_and(|code| gone.contains(&Errno::from_raw_os_error(code)))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, symlink},
    };

    use super::*;

    #[test]
    fn no_name_leads_out_of_the_mount_or_to_something_else_than_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("folder")).unwrap();
        fs::create_dir(&outside).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, outside.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::write(root.join("folder/file"), "text").unwrap();
        let beneath = RootDir::open(&root).unwrap();
        // To open one of the pipes for writing, without a reader, would be an error.
        let written = |name: &str| {
            let number = fs::metadata(root.join(name)).map_or(0, |found| found.ino());
            write_out(&beneath, number, name.as_bytes()).unwrap()
        };
        for name in ["link/fifo", "fifo", "folder", "folder/gone", "fifo/below", "../outside/fifo"] {
            assert!(!written(name), "{name}");
        }
        assert!(written("folder/file"));
    }

    #[test]
    fn a_directory_that_is_no_mount_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "text").unwrap();
        let names = [folder.path().as_os_str().as_bytes(), b"\x002/file"].concat();
        serve(&names[..]).unwrap_err();
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        assert!(ended(&mut child, Duration::from_millis(50)).unwrap().is_none());
        child.wait().unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        assert!(ended(&mut child, Duration::from_secs(20)).unwrap().unwrap().success());
    }
}
