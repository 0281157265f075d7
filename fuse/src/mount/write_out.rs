//! `write_out` has the kernel hand over the dirty pages of shared mappings, so that a commit beside a running browser
//! has them.
//!
//! The kernel writes them back when somebody who could write closes the file, and waits until the mount has taken them.
//! A file with a mapping is open in the mount's eyes, so these are the ones to open and to close once more. That is
//! done by a process of its own, this program started once more: a thread of the daemon that waits for its own answers
//! would keep the connection to the kernel open if the daemon were killed, and everybody would wait for ever.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::{
    fs::{MemfdFlags, Mode, OFlags, fdatasync, memfd_create, open},
    io::Errno,
};
use store::{Error, Result};

use super::Mount;
use crate::freeze::frozen_files::to_path;

/// The one argument with which the program serves as such a process.
pub const VERB: &str = "write-out-mappings";

impl Mount {
    /// Has every file that is open for writing written out. Blocks; changes must not be held up.
    pub(super) fn write_out(&self) -> Result<()> {
        let files: Vec<PathBuf> =
            self.fs.open_for_writing().iter().map(|path| self.info.mountpoint.join(to_path(path))).collect();
        if files.is_empty() {
            return Ok(());
        }
        let failed =
            |error| Error::io("cannot have mapped files written out on", &self.info.mountpoint, error);
        let ended = order(&files)
            .and_then(|order| {
                Command::new("/proc/self/exe")
                    .arg0("pstore")
                    .arg(VERB)
                    .env_clear()
                    .current_dir("/")
                    // What a terminal sends to this one is none of its business.
                    .process_group(0)
                    .stdin(order)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
            })
            .map_err(failed)?;
        if ended.success() {
            Ok(())
        } else {
            Err(failed(io::Error::other(format!("the process for it ended with {ended}"))))
        }
    }
}

/// The names, all there from the beginning, so that nobody waits for them to be read.
fn order(files: &[PathBuf]) -> io::Result<File> {
    let mut order = File::from(memfd_create("files", MemfdFlags::CLOEXEC)?);
    for file in files {
        order.write_all(file.as_os_str().as_bytes())?;
        order.write_all(&[0])?;
    }
    order.rewind()?;
    Ok(order)
}

/// Serves as the process that writes out the files it is given the names of, each with a zero byte behind it.
pub fn serve(mut names: impl Read) -> io::Result<()> {
    let mut read = Vec::new();
    names.read_to_end(&mut read)?;
    for name in read.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        write_out(&PathBuf::from(std::ffi::OsString::from_vec(name.to_vec())))?;
    }
    Ok(())
}

fn write_out(file: &Path) -> io::Result<()> {
    let opened =
        |access| open(file, access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    match opened(OFlags::WRONLY) {
        // Closing it does the work.
        Ok(file) => drop(file),
        // Its mode forbids to open it so again.
        Err(Errno::ACCESS) => fdatasync(opened(OFlags::RDONLY)?)?,
        // It is gone, or another by now.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(())
}
