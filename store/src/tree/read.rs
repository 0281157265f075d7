//! Reads the content of files that were found by a walk.

use std::{
    fs::File,
    io::{Seek, SeekFrom},
};

use rustix::{
    fs::{FileType, Mode, OFlags, SeekFrom as HoleSeek, fstat, ioctl_ficlone, seek},
    io::Errno,
};

use super::{
    root_dir::RootDir,
    walk::{FileState, FoundFile},
    xattrs::{self, Xattrs},
};
use crate::{
    Error, Result,
    error::{IoContext, ReadFault},
    format::tree::{Time, TreePath},
};

/// How often a file is read again that changes under the reader.
const ATTEMPTS: u32 = 3;

/// What becomes of a file that somebody writes to whenever it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// It cannot be read.
    #[default]
    Refuse,
    /// It is taken as it was read. Where the file system can, that is as it was at one moment.
    TakeAsRead,
}

/// Takes a file's content in order.
pub(crate) trait ContentSink {
    /// The next bytes of `file`, at most `most`; says how many there were.
    fn data(&mut self, file: &mut File, most: u64) -> Result<u64, ReadFault>;
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

impl ReadState {
    /// Of a file that went away between being found and being read, where files are taken as they are read.
    const GONE: Self = {
        let never = Time { seconds: 0, nanos: 0 };
        Self {
            state: FileState { device: 0, inode: 0, size: 0, mtime: never, ctime: never },
            xattrs: Vec::new(),
        }
    };
}

/// Whether this is the state of a file that went away before it was read.
pub(crate) fn is_gone(state: &FileState) -> bool {
    *state == ReadState::GONE.state
}

/// Reads the file at `path`, which was found by a walk, whole and unchanged, or does with it what `on_change` says.
pub(crate) fn read(
    root: &RootDir,
    path: &TreePath,
    found: &FoundFile,
    on_change: OnChange,
    sink: &mut dyn ContentSink,
) -> Result<ReadState> {
    let changed = || Error::SourceChanged { path: root.display(path), attempts: ATTEMPTS };
    let mut file = match root.open_at(path.as_bytes(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(error) if is_no_file(&error) => {
            return if on_change == OnChange::TakeAsRead { Ok(ReadState::GONE) } else { Err(changed()) };
        }
        Err(error) => return Err(Error::io("cannot open", root.display(path), error)),
    };
    for _ in 0..ATTEMPTS {
        let before = fstat(&file).at("cannot read the attributes of", root.display(path))?;
        let state = FileState::of(&before);
        if !FileType::from_raw_mode(before.st_mode).is_file() || !same_file(&state, &found.state) {
            break;
        }
        let is_whole = read_once(&mut file, found.sparse, state.size, sink)
            .map_err(|fault| fault.at("cannot read", root.display(path)))?;
        let xattrs =
            xattrs::of_file(&file).at("cannot read the extended attributes of", root.display(path))?;
        let after = fstat(&file).at("cannot read the attributes of", root.display(path))?;
        if is_whole && FileState::of(&after) == state {
            return Ok(ReadState { state, xattrs });
        }
        sink.restart();
    }
    match on_change {
        OnChange::Refuse => Err(changed()),
        OnChange::TakeAsRead => take_as_read(root, path, &file, sink),
    }
}

/// Whether no file is at a path any more: nothing, or something else.
fn is_no_file(error: &std::io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];
    error.raw_os_error().is_some_and(|code| gone.contains(&Errno::from_raw_os_error(code)))
}

/// Reads a file that somebody writes to. It has the times that it had before.
fn take_as_read(
    root: &RootDir,
    path: &TreePath,
    file: &File,
    sink: &mut dyn ContentSink,
) -> Result<ReadState> {
    let shown = || root.display(path);
    let before = fstat(file).at("cannot read the attributes of", shown())?;
    if !FileType::from_raw_mode(before.st_mode).is_file() {
        return Ok(ReadState::GONE);
    }
    let xattrs = xattrs::of_file(file).at("cannot read the extended attributes of", shown())?;
    let cloned = cloned(root, file).ok();
    let mut source = match cloned {
        Some(cloned) => cloned,
        None => file.try_clone().at("cannot read", shown())?,
    };
    let size = fstat(&source).at("cannot read the attributes of", shown())?.st_size as u64;
    source.seek(SeekFrom::Start(0)).at("cannot read", shown())?;
    // It may be shorter by now.
    let size = sink.data(&mut source, size).map_err(|fault| fault.at("cannot read", shown()))?;
    Ok(ReadState { state: FileState { size, ..FileState::of(&before) }, xattrs })
}

/// A file without a name that has what another has at one moment, and shares its blocks. Only some file systems can.
pub(crate) fn cloned(root: &RootDir, file: &File) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let clone = root.open_at(b"", flags, Mode::RUSR | Mode::WUSR)?;
    ioctl_ficlone(&clone, file)?;
    Ok(File::from(clone))
}

/// Whether the file system of a directory can clone files.
pub fn can_clone(root: &RootDir) -> bool {
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let file = root.open_at(b"", flags, Mode::RUSR | Mode::WUSR).map(File::from);
    file.and_then(|file| cloned(root, &file)).is_ok()
}

/// Whether the file had all bytes that it should have.
fn read_once(
    file: &mut File,
    sparse: bool,
    size: u64,
    sink: &mut dyn ContentSink,
) -> Result<bool, ReadFault> {
    let mut at = 0;
    while at < size {
        let (data, end) = if sparse { next_data(file, at, size)? } else { (at, size) };
        if data > at {
            sink.hole(data - at)?;
        }
        if data < end {
            file.seek(SeekFrom::Start(data))?;
            if sink.data(file, end - data)? != end - data {
                return Ok(false);
            }
        }
        at = end;
    }
    Ok(true)
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
