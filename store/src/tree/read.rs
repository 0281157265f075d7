//! Reads the content of files that were found by a walk.

use std::{
    fs::File,
    io::{Seek, SeekFrom},
};

use rustix::{
    fs::{FileType, Mode, OFlags, SeekFrom as HoleSeek, fstat, seek},
    io::Errno,
};

use super::{
    root_dir::RootDir,
    walk::{FileState, FoundFile},
    xattrs::{self, Xattrs},
};
use crate::{Error, Result, error::IoContext, format::tree::TreePath};

/// How often a file is read again that changes under the reader.
const ATTEMPTS: u32 = 3;

/// Takes a file's content in order.
pub(crate) trait ContentSink {
    /// The next bytes of `file`, at most `most`; says how many there were.
    fn data(&mut self, file: &mut File, most: u64) -> std::io::Result<Result<u64>>;
    fn hole(&mut self, len: u64) -> Result<()>;
    /// Forgets everything taken so far.
    fn restart(&mut self);
}

/// A file's state while its content was read: the same before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadState {
    pub state: FileState,
    pub xattrs: Xattrs,
}

/// Reads the file at `path`, which was found by a walk, whole and unchanged, or fails.
pub(crate) fn read(
    root: &RootDir,
    path: &TreePath,
    found: &FoundFile,
    sink: &mut dyn ContentSink,
) -> Result<ReadState> {
    let changed = || Error::SourceChanged { path: root.display(path), attempts: ATTEMPTS };
    let mut file = match root.open_at(path.as_bytes(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(changed()),
        Err(error) => return Err(Error::io("cannot open", root.display(path), error)),
    };
    for _ in 0..ATTEMPTS {
        let before = fstat(&file).at("cannot read the attributes of", root.display(path))?;
        let state = FileState::of(&before);
        if !FileType::from_raw_mode(before.st_mode).is_file() || !same_file(&state, &found.state) {
            break;
        }
        let is_whole =
            read_once(&mut file, found.sparse, state.size, sink).at("cannot read", root.display(path))??;
        let xattrs =
            xattrs::of_file(&file).at("cannot read the extended attributes of", root.display(path))?;
        let after = fstat(&file).at("cannot read the attributes of", root.display(path))?;
        if is_whole && FileState::of(&after) == state {
            return Ok(ReadState { state, xattrs });
        }
        sink.restart();
    }
    Err(changed())
}

/// Whether the file had all bytes that it should have.
fn read_once(
    file: &mut File,
    sparse: bool,
    size: u64,
    sink: &mut dyn ContentSink,
) -> std::io::Result<Result<bool>> {
    let mut at = 0;
    while at < size {
        let (data, end) = if sparse { next_data(file, at, size)? } else { (at, size) };
        if data > at
            && let Err(error) = sink.hole(data - at)
        {
            return Ok(Err(error));
        }
        if data < end {
            file.seek(SeekFrom::Start(data))?;
            match sink.data(file, end - data)? {
                Ok(got) if got == end - data => {}
                Ok(_) => return Ok(Ok(false)),
                Err(error) => return Ok(Err(error)),
            }
        }
        at = end;
    }
    Ok(Ok(true))
}

fn same_file(a: &FileState, b: &FileState) -> bool {
    (a.device, a.inode) == (b.device, b.inode)
}

/// The next run of data at or after `at`, as start and end; both `size` if only a hole is left.
fn next_data(file: &File, at: u64, size: u64) -> rustix::io::Result<(u64, u64)> {
    let start = match seek(file, HoleSeek::Data(at)) {
        Ok(start) => start.min(size),
        Err(Errno::NXIO) => return Ok((size, size)),
        // The file system does not tell; everything is data.
        Err(Errno::INVAL) => return Ok((at, size)),
        Err(error) => return Err(error),
    };
    let end = match seek(file, HoleSeek::Hole(start)) {
        Ok(end) => end.min(size),
        Err(Errno::NXIO) => size,
        Err(error) => return Err(error),
    };
    Ok((start, end))
}
