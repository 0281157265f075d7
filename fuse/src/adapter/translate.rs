//! `translate` turns the kernel's types into ours, and back.

use std::time::SystemTime;

use fuser::{FileAttr, FileType, INodeNo, ReplyXattr, TimeOrNow};
use rustix::fs::FileType as Type;
use store::format::tree::Time;

use crate::{
    Errno, Result,
    attributes::{Attributes, FileKind, now, system_time, time_of},
    overlay::change::NewKind,
};

pub fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

pub fn time(time: TimeOrNow) -> Time {
    match time {
        TimeOrNow::SpecificTime(time) => given(time),
        TimeOrNow::Now => now(),
    }
}

/// A time that `fuser` read: before 1970 it takes the nanoseconds off, which the kernel adds.
pub fn given(time: SystemTime) -> Time {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => time_of(time),
        Err(before) => {
            let before = before.duration();
            Time { seconds: -(before.as_secs() as i64), nanos: before.subsec_nanos() }
        }
    }
}

pub fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub fn file_attr(found: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(found.ino.0),
        size: found.size,
        blocks: found.blocks,
        atime: system_time(found.atime),
        mtime: system_time(found.mtime),
        ctime: system_time(found.ctime),
        crtime: SystemTime::UNIX_EPOCH,
        kind: file_type(found.kind),
        perm: found.mode as u16,
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: found.device as u32,
        blksize: 4096,
        flags: 0,
    }
}

/// An answer that the kernel takes for "there is no such name".
pub fn absent() -> FileAttr {
    let zero = Time::default();
    file_attr(&Attributes {
        ino: crate::overlay::node::Ino(0),
        kind: FileKind::File,
        size: 0,
        blocks: 0,
        mode: 0,
        uid: 0,
        gid: 0,
        links: 0,
        device: 0,
        atime: zero,
        mtime: zero,
        ctime: zero,
    })
}

/// What `mknod` is to make.
pub fn new_kind(mode: u32, device: u32) -> Option<NewKind> {
    let device = u64::from(device);
    Some(match Type::from_raw_mode(mode) {
        Type::RegularFile => NewKind::File,
        Type::Fifo => NewKind::Fifo,
        Type::Socket => NewKind::Socket,
        Type::CharacterDevice => NewKind::CharDevice { device },
        Type::BlockDevice => NewKind::BlockDevice { device },
        _ => return None,
    })
}

/// An attribute, or how long it is if `room` is 0.
pub fn answer_xattr(reply: ReplyXattr, room: u32, found: Result<Vec<u8>>) {
    match found {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(errno(Errno::RANGE)),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}
