//! Reads the content of files that were found by a walk.

use std::{
    fs::File,
    io::{Seek, SeekFrom},
};

use parking_lot::Mutex;

use rustix::{
    fs::{FileType, Mode, OFlags, SeekFrom as HoleSeek, fstat, seek},
    io::Errno,
};

use super::{
    root_dir::RootDir,
    walk::{FileState, FoundFile},
};
use crate::{
    Error, Result,
    error::IoContext,
    format::tree::{Entry, TreePath},
};

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

/// The files of a walk whose content must be read.
#[derive(Debug)]
pub struct Content<'a> {
    root: &'a RootDir,
    entries: &'a [Entry],
    files: Vec<FoundFile>,
    /// What each file was when its content was read: the same before and after.
    seen: Vec<Mutex<Option<FileState>>>,
}

impl<'a> Content<'a> {
    pub fn new(root: &'a RootDir, entries: &'a [Entry], files: Vec<FoundFile>) -> Self {
        let seen = files.iter().map(|_| Mutex::default()).collect();
        Self { root, entries, files, seen }
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// What file `at` is called, and how long it was when it was found.
    pub fn file(&self, at: usize) -> (&TreePath, u64) {
        let found = &self.files[at];
        (&self.entries[found.entry].path, found.state.size)
    }

    /// Reads file `at` whole and unchanged, or fails.
    pub fn read(&self, at: usize, sink: &mut dyn ContentSink) -> Result<()> {
        let found = &self.files[at];
        let path = &self.entries[found.entry].path;
        let opened = self.root.open_at(path.as_bytes(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        let mut file = match opened {
            Ok(fd) => File::from(fd),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(self.changed(path)),
            Err(error) => return Err(Error::io("cannot open", self.root.display(path), error)),
        };
        for _ in 0..ATTEMPTS {
            let before = fstat(&file).at("cannot read the attributes of", self.root.display(path))?;
            let state = FileState::of(&before);
            if !FileType::from_raw_mode(before.st_mode).is_file() || !same_file(&state, &found.state) {
                break;
            }
            let whole = self.read_once(path, &mut file, found.sparse, state.size, sink)?;
            let after = fstat(&file).at("cannot read the attributes of", self.root.display(path))?;
            if whole && FileState::of(&after) == state {
                *self.seen[at].lock() = Some(state);
                return Ok(());
            }
            sink.restart();
        }
        Err(self.changed(path))
    }

    fn changed(&self, path: &TreePath) -> Error {
        Error::SourceChanged { path: self.root.display(path), attempts: ATTEMPTS }
    }

    /// The files with what they were when they were read.
    pub fn finish(self) -> Vec<(FoundFile, Option<FileState>)> {
        let seen = self.seen.into_iter().map(|seen| seen.into_inner());
        self.files.into_iter().zip(seen).collect()
    }

    fn read_once(
        &self,
        path: &TreePath,
        file: &mut File,
        sparse: bool,
        size: u64,
        sink: &mut dyn ContentSink,
    ) -> Result<bool> {
        let shown = || self.root.display(path);
        let mut at = 0;
        while at < size {
            let (data, end) =
                if sparse { next_data(file, at, size).at("cannot read", shown())? } else { (at, size) };
            if data > at {
                sink.hole(data - at)?;
            }
            if data < end {
                file.seek(SeekFrom::Start(data)).at("cannot read", shown())?;
                let got = sink.data(file, end - data).at("cannot read", shown())??;
                if got != end - data {
                    return Ok(false);
                }
            }
            at = end;
        }
        if !sparse && size == 0 {
            return Ok(true);
        }
        Ok(at == size)
    }
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
