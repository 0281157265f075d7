//! `attributes` computes what `stat` shows of a node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use store::format::tree::Time;

use crate::overlay::node::{Ino, Node, NodeKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub ino: Ino,
    pub kind: FileKind,
    pub size: u64,
    /// Of 512 bytes, holes not counted.
    pub blocks: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub device: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

impl Attributes {
    pub fn of(ino: Ino, node: &Node) -> Self {
        let mut device = 0;
        let (kind, size, blocks) = match &node.kind {
            NodeKind::File(file) => {
                let holes: u64 = file.holes().iter().map(|hole| hole.end - hole.start).sum();
                (FileKind::File, file.size, (file.size - holes).div_ceil(512))
            }
            NodeKind::Directory(_) => (FileKind::Directory, 4096, 8),
            NodeKind::Symlink { target } => (FileKind::Symlink, target.len() as u64, 0),
            NodeKind::Fifo => (FileKind::Fifo, 0, 0),
            NodeKind::Socket => (FileKind::Socket, 0, 0),
            NodeKind::CharDevice { device: number } => {
                device = *number;
                (FileKind::CharDevice, 0, 0)
            }
            NodeKind::BlockDevice { device: number } => {
                device = *number;
                (FileKind::BlockDevice, 0, 0)
            }
        };
        let links = match kind {
            // How many directories are in it is not known without reading all its names.
            FileKind::Directory => node.names.min(1),
            _ => node.names,
        };
        Self {
            ino,
            kind,
            size,
            blocks,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            links,
            device,
            atime: node.atime,
            mtime: node.mtime,
            ctime: node.ctime,
        }
    }
}

pub fn kind_of(node: &Node) -> FileKind {
    match node.kind {
        NodeKind::File(_) => FileKind::File,
        NodeKind::Directory(_) => FileKind::Directory,
        NodeKind::Symlink { .. } => FileKind::Symlink,
        NodeKind::Fifo => FileKind::Fifo,
        NodeKind::Socket => FileKind::Socket,
        NodeKind::CharDevice { .. } => FileKind::CharDevice,
        NodeKind::BlockDevice { .. } => FileKind::BlockDevice,
    }
}

pub fn now() -> Time {
    time_of(SystemTime::now())
}

pub fn time_of(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let (seconds, nanos) = (before.as_secs() as i64, before.subsec_nanos());
            if nanos == 0 {
                Time { seconds: -seconds, nanos: 0 }
            } else {
                Time { seconds: -seconds - 1, nanos: 1_000_000_000 - nanos }
            }
        }
    }
}

pub fn system_time(time: Time) -> SystemTime {
    let nanos = Duration::from_nanos(time.nanos.into());
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let seconds =
        if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    seconds.and_then(|seconds| seconds.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_kernel_and_back() {
        for (seconds, nanos) in [(0, 0), (1, 999_999_999), (-1, 1), (-5, 0), (1_700_000_000, 7)] {
            let time = Time { seconds, nanos };
            assert_eq!(time_of(system_time(time)), time);
        }
    }
}
