//! `filesystem` answers each request of the kernel with what [`crate::fs::Fs`] says.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc, time::SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use super::{
    Adapter, MAX_READAHEAD,
    answers::{FOREVER, GENERATION, answer_empty, answer_entry, caller, ino, owned},
    killed::killed,
    translate::{self, errno, time},
};
use crate::{
    Errno, Result,
    fs::{Allocation, Must, Replace, Seek, SetAttributes},
    overlay::change::NewKind,
};

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for wanted in [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ] {
            // What the kernel does not know only makes it slower.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_readahead(MAX_READAHEAD).or_else(|most| config.set_max_readahead(most));
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.fs.lookup(ino(parent), name.as_bytes()) {
            Ok(found) => reply.entry(&FOREVER, &self.view.attr(&found), GENERATION),
            // That something is not there may be kept, too: number 0 says so.
            Err(Errno::NOENT) => reply.entry(&FOREVER, &translate::absent(), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.fs.forget(ino(number), times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.fs.attributes(ino(number)) {
            Ok(found) => reply.attr(&FOREVER, &self.view.attr(&found)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let view = self.view;
        let (uid, gid) = (view.owner(uid), view.owner(gid));
        let set = SetAttributes { mode, uid, gid, size, atime: atime.map(time), mtime: mtime.map(time) };
        self.change(
            move |fs, pass| fs.set_attributes(pass, ino(number), set),
            move |set| match set {
                Ok(found) => reply.attr(&FOREVER, &view.attr(&found)),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.fs.read_link(ino(number)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name, view) = (caller(request), owned(name), self.view);
        let Some(kind) = translate::new_kind(mode, device) else { return reply.error(errno(Errno::INVAL)) };
        self.change(
            move |fs, pass| {
                let maker = view.maker(fs, caller, ino(parent))?;
                fs.make(pass, maker, ino(parent), &name, kind, mode)
            },
            answer_entry(reply, view),
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name, view) = (caller(request), owned(name), self.view);
        self.change(
            move |fs, pass| {
                let maker = view.maker(fs, caller, ino(parent))?;
                fs.make(pass, maker, ino(parent), &name, NewKind::Directory, mode)
            },
            answer_entry(reply, view),
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.change(move |fs, pass| fs.unlink(pass, ino(parent), &name), answer_empty(reply));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.change(move |fs, pass| fs.remove_directory(pass, ino(parent), &name), answer_empty(reply));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (caller, name, view) = (caller(request), owned(name), self.view);
        let kind = NewKind::Symlink { target: owned(target.as_os_str()) };
        self.change(
            move |fs, pass| {
                let maker = view.maker(fs, caller, ino(parent))?;
                fs.make(pass, maker, ino(parent), &name, kind, 0o777)
            },
            answer_entry(reply, view),
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replace = match flags {
            _ if flags.is_empty() => Replace::Yes,
            RenameFlags::RENAME_NOREPLACE => Replace::No,
            RenameFlags::RENAME_EXCHANGE => Replace::Exchange,
            _ => return reply.error(errno(Errno::INVAL)),
        };
        let (name, new_name) = (owned(name), owned(new_name));
        self.change(
            move |fs, pass| fs.rename(pass, ino(parent), &name, ino(new_parent), &new_name, replace),
            answer_empty(reply),
        );
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = owned(name);
        self.change(
            move |fs, pass| fs.link(pass, ino(number), ino(parent), &name),
            answer_entry(reply, self.view),
        );
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open_file(number, flags, reply);
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let plan = match self.fs.plan(ino(number), Some(handle.0), offset, size) {
            Ok(plan) => plan,
            Err(error) => return reply.error(errno(error)),
        };
        match self.fs.read_now(&plan) {
            Some(Ok(bytes)) => reply.data(&bytes),
            Some(Err(error)) => reply.error(errno(error)),
            None => {
                let (fs, reader) = (Arc::clone(&self.fs), request.pid());
                self.runtime.spawn(async move {
                    let read = tokio::select! {
                        read = fs.read_later(plan) => read,
                        () = killed(reader) => Err(Errno::INTR),
                    };
                    match read {
                        Ok(bytes) => reply.data(&bytes),
                        Err(error) => reply.error(errno(error)),
                    }
                });
            }
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
        let answer = move |written: Result<usize>| match written {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(errno(error)),
        };
        // The bytes are the kernel's; they are copied only if they must wait.
        if let Some(pass) = self.fs.try_enter() {
            let written = self.fs.write(&pass, ino(number), offset, data);
            drop(pass);
            return answer(written);
        }
        let data = data.to_vec();
        self.change(move |fs, pass| fs.write(pass, ino(number), offset, &data), answer);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Every write is in the session already. The kernel, told that this is unknown here, does
        // not ask again, and still writes back what was mapped.
        reply.error(errno(Errno::NOSYS));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.fs.close(handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // A disk takes milliseconds; others need not wait for that.
        self.aside(move |fs| {
            let pass = fs.enter();
            let synced = fs.sync(&pass, ino(number));
            drop(pass);
            answer_empty(reply)(synced);
        });
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.fs.open_directory(ino(number)) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.list(handle, offset, reply);
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list_with_attributes(handle, offset, reply);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.fs.close(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.aside(move |fs| {
            let pass = fs.enter();
            let synced = fs.sync_names(&pass);
            drop(pass);
            answer_empty(reply)(synced);
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.fs.room() {
            Ok(room) => reply.statfs(
                room.blocks,
                room.free,
                room.available,
                room.files,
                room.free_files,
                room.block_size,
                255,
                room.block_size,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let must = match flags {
            1 => Must::BeNew,
            2 => Must::Exist,
            _ => Must::Either,
        };
        let (name, value) = (owned(name), value.to_vec());
        self.change(
            move |fs, pass| fs.set_xattr(pass, ino(number), &name, &value, must),
            answer_empty(reply),
        );
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        translate::answer_xattr(reply, size, self.fs.xattr(ino(number), name.as_bytes()));
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        translate::answer_xattr(reply, size, self.fs.xattr_names(ino(number)));
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.change(move |fs, pass| fs.remove_xattr(pass, ino(number), &name), answer_empty(reply));
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        // The kernel checks; it was told to.
        reply.ok();
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.create_file(caller(request), (parent, name), mode, OpenFlags(flags), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let what = match mode {
            0 => Allocation::Reserve { keep_size: false },
            1 => Allocation::Reserve { keep_size: true },
            3 => Allocation::Punch,
            16 => Allocation::Zero { keep_size: false },
            17 => Allocation::Zero { keep_size: true },
            _ => return reply.error(errno(Errno::OPNOTSUPP)),
        };
        let end = offset.saturating_add(length);
        self.change(move |fs, pass| fs.allocate(pass, ino(number), offset..end, what), answer_empty(reply));
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let what = match whence {
            3 => Seek::Data,
            4 => Seek::Hole,
            _ => return reply.error(errno(Errno::INVAL)),
        };
        let found = u64::try_from(offset).map_err(|_| Errno::NXIO);
        match found.and_then(|offset| self.fs.seek(ino(number), offset, what)) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(errno(error)),
        }
    }
}
