//! `served` answers the kernel for that disk.

use std::{
    ffi::OsStr,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::{
    Shared,
    image::{Image, Node},
};

/// Nothing is kept by the kernel.
const NOT_AT_ALL: Duration = Duration::ZERO;
const GENERATION: Generation = Generation(0);
const HANDLE: FileHandle = FileHandle(0);

#[derive(Debug)]
pub(super) struct Served(pub(super) Arc<Shared>);

type Result<T> = std::result::Result<T, Errno>;

impl Served {
    /// Makes a change or a flush.
    fn change<T>(&self, change: impl FnOnce(&mut Image) -> Option<T>) -> Result<T> {
        let mut state = self.0.request().map_err(Errno::from_i32)?;
        change(&mut state.now).ok_or(Errno::ENOENT)
    }

    fn look<T>(&self, look: impl FnOnce(&Image) -> Option<T>) -> Result<T> {
        look(&self.0.lock().now).ok_or(Errno::ENOENT)
    }

    fn make(&self, parent: INodeNo, name: &OsStr, node: Node) -> Result<FileAttr> {
        self.change(|image| {
            let number = image.add(node);
            image.names_mut(parent.0)?.insert(word(name)?, number);
            attributes(image, number)
        })
    }

    fn remove(&self, parent: INodeNo, name: &OsStr) -> Result<()> {
        self.change(|image| image.names_mut(parent.0)?.remove(&word(name)?).map(drop))
    }

    fn flush(&self, number: INodeNo) -> Result<()> {
        let flush_time = self.0.lock().flush_time;
        thread::sleep(flush_time);
        self.change(|image| image.nodes.get_mut(&number.0).map(Node::flush))
    }

    /// Waits if writes to this file are held.
    fn wait(&self, number: INodeNo) {
        let mut state = self.0.lock();
        let named = |image: &Image, name: &str| {
            image.nodes.values().any(|node| match node {
                Node::Folder { names, .. } => names.get(name) == Some(&number.0),
                Node::File { .. } => false,
            })
        };
        if !state.held.as_ref().is_some_and(|name| named(&state.now, name)) {
            return;
        }
        state.waiting += 1;
        self.0.changed.notify_all();
        while state.held.is_some() {
            self.0.changed.wait(&mut state);
        }
        state.waiting -= 1;
    }
}

fn word(name: &OsStr) -> Option<String> {
    name.to_str().map(ToOwned::to_owned)
}

fn attributes(image: &Image, number: u64) -> Option<FileAttr> {
    let (kind, size) = match image.nodes.get(&number)? {
        Node::File { bytes, .. } => (FileType::RegularFile, bytes.len() as u64),
        Node::Folder { .. } => (FileType::Directory, 0),
    };
    let time = SystemTime::UNIX_EPOCH;
    Some(FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: 0o700,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

fn answer_entry(reply: ReplyEntry, found: Result<FileAttr>) {
    match found {
        Ok(found) => reply.entry(&NOT_AT_ALL, &found, GENERATION),
        Err(errno) => reply.error(errno),
    }
}

fn answer_empty(reply: ReplyEmpty, done: Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.look(|image| {
            let number = *image.names(parent.0)?.get(&word(name)?)?;
            attributes(image, number)
        });
        answer_entry(reply, found);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(|image| attributes(image, number.0)) {
            Ok(found) => reply.attr(&NOT_AT_ALL, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = match size {
            Some(size) => self.change(|image| {
                image.bytes_mut(number.0)?.resize(size as usize, 0);
                attributes(image, number.0)
            }),
            None => self.look(|image| attributes(image, number.0)),
        };
        match set {
            Ok(found) => reply.attr(&NOT_AT_ALL, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        answer_entry(reply, self.make(parent, name, Node::folder()));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.remove(parent, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.remove(parent, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.change(|image| {
            let number = image.names_mut(parent.0)?.remove(&word(name)?)?;
            image.names_mut(new_parent.0)?.insert(word(new_name)?, number);
            Some(())
        });
        answer_empty(reply, renamed);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(HANDLE, FopenFlags::FOPEN_DIRECT_IO);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.make(parent, name, Node::file()) {
            Ok(made) => reply.created(&NOT_AT_ALL, &made, GENERATION, HANDLE, FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.look(|image| match image.nodes.get(&number.0)? {
            Node::File { bytes, .. } => {
                let start = bytes.len().min(offset as usize);
                Some(bytes[start..bytes.len().min(start + size as usize)].to_vec())
            }
            Node::Folder { .. } => None,
        });
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.wait(number);
        let (start, end) = (offset as usize, offset as usize + data.len());
        let written = self.change(|image| {
            let bytes = image.bytes_mut(number.0)?;
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(data);
            Some(data.len() as u32)
        });
        match written {
            Ok(written) => reply.written(written),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.flush(number));
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.flush(number));
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.look(|image| {
            let names = image.names(number.0)?.iter();
            let kind = |number| attributes(image, number).map(|found| found.kind);
            names
                .map(|(name, number)| Some((name.clone(), *number, kind(*number)?)))
                .collect::<Option<Vec<_>>>()
        });
        match listed {
            Ok(listed) => {
                for (at, (name, number, kind)) in listed.into_iter().enumerate().skip(offset as usize) {
                    if reply.add(INodeNo(number), at as u64 + 1, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }
}
