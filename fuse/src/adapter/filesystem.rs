//! `filesystem` answers each request of the kernel with what [`crate::fs::Fs`] says.

use std::{ffi::OsStr, path::Path, sync::Arc, time::SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, FileHandle, Filesystem, FopenFlags, INodeNo, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use super::{
    Adapter,
    answers::{FOREVER, GENERATION, answer_empty, answer_entry, caller, ino, may_give_rights, owned},
    killed::killed,
    settled,
    translate::{self, errno, given, time},
};
use crate::{
    Errno, Result,
    fs::{
        Allocation, Must, Replace, Seek, SetAttributes,
        read::{Plan, Reading},
    },
    overlay::change::NewKind,
};

const CACHED_DIRECTORY: FopenFlags = FopenFlags::FOPEN_CACHE_DIR.union(FopenFlags::FOPEN_KEEP_CACHE);

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.agree(config);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (name, view) = (owned(name), self.view);
        self.ask(
            request.pid(),
            move |fs| fs.lookup(ino(parent), &name),
            move |found| match found {
                Ok(found) => reply.entry(&FOREVER, &view.attr(&found), GENERATION),
                // That something is not there may be kept, too: number 0 says so.
                Err(Errno::NOENT) => reply.entry(&FOREVER, &translate::absent(), GENERATION),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.fs.forget(ino(number), times);
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let view = self.view;
        self.ask(
            request.pid(),
            move |fs| fs.attributes(ino(number)),
            move |found| match found {
                Ok(found) => reply.attr(&FOREVER, &view.attr(&found)),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let view = self.view;
        let (uid, gid) = (view.owner(uid), view.owner(gid));
        let (atime, mtime) = (atime.map(time), mtime.map(time));
        let (ctime, keeps_rights) = (ctime.map(given), may_give_rights(request));
        let set = SetAttributes { mode, uid, gid, size, atime, mtime, ctime, keeps_rights };
        self.change(
            request.pid(),
            move |fs, pass| fs.set_attributes(pass, ino(number), set),
            move |set| match set {
                Ok(found) => reply.attr(&FOREVER, &view.attr(&found)),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        self.ask(
            request.pid(),
            move |fs| fs.read_link(ino(number)),
            move |target| match target {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(errno(error)),
            },
        );
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
            request.pid(),
            move |fs, pass| {
                let maker = view.maker(fs, caller, ino(parent))?;
                fs.make(pass, maker, ino(parent), &name, kind.clone(), mode)
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
            request.pid(),
            move |fs, pass| {
                let maker = view.maker(fs, caller, ino(parent))?;
                fs.make(pass, maker, ino(parent), &name, NewKind::Directory, mode)
            },
            answer_entry(reply, view),
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.change(request.pid(), move |fs, pass| fs.unlink(pass, ino(parent), &name), answer_empty(reply));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.change(
            request.pid(),
            move |fs, pass| fs.remove_directory(pass, ino(parent), &name),
            answer_empty(reply),
        );
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (caller, name, view) = (caller(request), owned(name), self.view);
        let kind = NewKind::Symlink { target: owned(target.as_os_str()) };
        self.change(
            request.pid(),
            move |fs, pass| {
                let maker = view.maker(fs, caller, ino(parent))?;
                fs.make(pass, maker, ino(parent), &name, kind.clone(), 0o777)
            },
            answer_entry(reply, view),
        );
    }

    fn rename(
        &self,
        request: &Request,
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
            request.pid(),
            move |fs, pass| fs.rename(pass, ino(parent), &name, ino(new_parent), &new_name, replace),
            answer_empty(reply),
        );
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = owned(name);
        self.change(
            request.pid(),
            move |fs, pass| fs.link(pass, ino(number), ino(parent), &name),
            answer_entry(reply, self.view),
        );
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open_file(request.pid(), number, flags, reply);
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
        let (fs, reader, runtime) = (Arc::clone(&self.fs), request.pid(), self.runtime.clone());
        let answer = move |plan: Result<Plan>| {
            let plan = match plan {
                Ok(plan) => plan,
                Err(error) => return reply.error(errno(error)),
            };
            match fs.read_now(&plan) {
                Reading::Done(Ok(bytes)) => reply.data(&bytes),
                Reading::Done(Err(error)) => reply.error(errno(error)),
                Reading::Waiting(found) => {
                    runtime.spawn(async move {
                        let read = tokio::select! {
                            read = fs.read_later(plan, found) => read,
                            () = killed(reader) => Err(Errno::INTR),
                        };
                        match read {
                            Ok(bytes) => reply.data(&bytes),
                            Err(error) => reply.error(errno(error)),
                        }
                    });
                }
            }
        };
        self.ask(reader, move |fs| fs.plan(ino(number), Some(handle.0), offset, size), answer);
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.write_file(request.pid(), number, offset, data, flags, reply);
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

    fn fsync(&self, request: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let (asker, runtime) = (request.pid(), self.runtime.clone());
        // A disk takes milliseconds; others need not wait for that.
        self.aside(move |fs| {
            let sync = || fs.sync(&fs.enter_to_sync(), ino(number));
            answer_empty(reply)(settled(&runtime, asker, None, sync));
        });
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.ask(
            request.pid(),
            move |fs| fs.open_directory(ino(number)),
            move |opened| match opened {
                // Nobody but the kernel changes a directory, so what it has read of one stays right.
                Ok(handle) => reply.opened(FileHandle(handle), CACHED_DIRECTORY),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn readdir(&self, request: &Request, _: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.list(request.pid(), handle, offset, reply);
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list_with_attributes(request.pid(), handle, offset, reply);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.fs.close(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.aside(move |fs| {
            let pass = fs.enter_to_sync();
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
        request: &Request,
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
            request.pid(),
            move |fs, pass| fs.set_xattr(pass, ino(number), &name, &value, must),
            answer_empty(reply),
        );
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = owned(name);
        let answer = move |value| translate::answer_xattr(reply, size, value);
        self.ask(request.pid(), move |fs| fs.xattr(ino(number), &name), answer);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let answer = move |names| translate::answer_xattr(reply, size, names);
        self.ask(request.pid(), move |fs| fs.xattr_names(ino(number)), answer);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.change(
            request.pid(),
            move |fs, pass| fs.remove_xattr(pass, ino(number), &name),
            answer_empty(reply),
        );
    }

    fn access(&self, request: &Request, number: INodeNo, wanted: AccessFlags, reply: ReplyEmpty) {
        // The kernel asks only where root is alone.
        self.ask(
            request.pid(),
            move |fs| fs.check_access_of_root(ino(number), wanted.contains(AccessFlags::X_OK)),
            answer_empty(reply),
        );
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
        self.create_file((request.pid(), caller(request)), (parent, name), mode, OpenFlags(flags), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
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
        let keeps_rights = may_give_rights(request);
        self.change(
            request.pid(),
            move |fs, pass| {
                if !keeps_rights {
                    fs.take_rights(pass, ino(number))?;
                }
                fs.allocate(pass, ino(number), offset..end, what)
            },
            answer_empty(reply),
        );
    }

    fn lseek(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        if self.writeback {
            // Of bytes that the kernel has kept nothing is known here. It then takes all of the file for data.
            return reply.error(errno(Errno::NOSYS));
        }
        let what = match whence {
            3 => Seek::Data,
            4 => Seek::Hole,
            _ => return reply.error(errno(Errno::INVAL)),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(errno(Errno::NXIO)) };
        self.ask(
            request.pid(),
            move |fs| fs.seek(ino(number), offset, what),
            move |found| match found {
                Ok(found) => reply.offset(found as i64),
                Err(error) => reply.error(errno(error)),
            },
        );
    }
}
