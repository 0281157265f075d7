//! `RootDir` opens entries below one directory, and nothing else.
//!
//! The kernel resolves every path beneath the directory and refuses symbolic links, so
//! neither a hostile tree nor a race with the directory's owner leads outside. Where it cannot, every
//! name is opened in the directory before it, which leads nowhere else either.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::{Errno, retry_on_intr},
};

use crate::{Result, error::IoContext, format::tree::TreePath};

/// The kernel takes no longer path at once; longer ones are walked in pieces.
const MAX_PIECE: usize = 3072;

/// A directory whose content is reached through it alone.
#[derive(Debug)]
pub struct RootDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl RootDir {
    /// `path` itself may be reached through links: it is the caller's choice.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).at("cannot open the directory", path)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// A person's name for the entry at `path`.
    pub fn display(&self, path: &TreePath) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        if path.is_root() {
            return self.path.clone();
        }
        self.path.join(std::ffi::OsStr::from_bytes(path.as_bytes()))
    }

    /// The directory itself.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where the directory was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the entry at `path`; its last name is not followed either.
    pub fn open_at(&self, path: &[u8], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if path.is_empty() {
            return Ok(open_piece(self.fd(), b".", flags, mode)?);
        }
        let mut rest = path;
        let mut dir: Option<OwnedFd> = None;
        while rest.len() > MAX_PIECE {
            // A name is at most 255 bytes, so there is a slash to split at.
            let Some(at) = rest[..MAX_PIECE].iter().rposition(|b| *b == b'/') else { break };
            let at_dir = dir.as_ref().map_or(self.fd(), |dir| dir.as_fd());
            dir = Some(open_piece(
                at_dir,
                &rest[..at],
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?);
            rest = &rest[at + 1..];
        }
        Ok(open_piece(dir.as_ref().map_or(self.fd(), |dir| dir.as_fd()), rest, flags, mode)?)
    }

    /// The directory at `path`, to reach its entries by name.
    pub fn dir(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
    }
}

fn open_piece(dir: BorrowedFd<'_>, piece: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(dir, piece, flags, mode, resolve) {
            // The kernel could not prove that a concurrent rename leads nowhere else.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Kernels before 5.6 do not have it. Filters of system calls refuse what they do not know, or cannot look into.
            Err(Errno::NOSYS | Errno::PERM) => return open_name_by_name(dir, piece, flags, mode),
            result => return result,
        }
    }
}

/// Does what `openat2` does, with a system call for each name: no link is followed, and no name leads upwards.
fn open_name_by_name(
    dir: BorrowedFd<'_>,
    piece: &[u8],
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let mut names = piece.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).peekable();
    if piece.starts_with(b"/") || names.clone().any(|name| name == b"..") {
        return Err(Errno::XDEV);
    }
    let open = |dir: BorrowedFd<'_>, name: &[u8], flags: OFlags, mode: Mode| {
        retry_on_intr(|| openat(dir, name, flags | OFlags::NOFOLLOW, mode))
    };
    let mut held: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let dir = held.as_ref().map_or(dir, AsFd::as_fd);
        if names.peek().is_none() {
            return open(dir, name, flags, mode);
        }
        let through = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        held = Some(open(dir, name, through, Mode::empty())?);
    }
    open(dir, b".", flags, mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_outside() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join("secret"), "x").unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        std::os::unix::fs::symlink("/", root.join("a/slash")).unwrap();
        std::os::unix::fs::symlink("a", root.join("inside")).unwrap();
        let beneath = RootDir::open(&root).unwrap();
        beneath.dir(b"a/b").unwrap();
        beneath.dir(b"").unwrap();
        for bad in [&b"up/secret"[..], b"a/slash/etc", b"inside/b", b"../secret", b"/etc", b"up"] {
            beneath.open_at(bad, OFlags::RDONLY, Mode::empty()).unwrap_err();
        }
    }

    #[test]
    fn names_one_by_one_lead_where_the_kernel_leads() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join("secret"), "x").unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "y").unwrap();
        for (target, link) in [("..", "up"), ("/", "a/slash"), ("a", "inside"), ("b/file", "a/link")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let beneath = RootDir::open(&root).unwrap();
        let inode = |fd: OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        let paths = [
            ".",
            "a",
            "a/b",
            "a//b",
            "./a/./b",
            "a/b/file",
            "a/none",
            "none/b",
            "a/b/file/x",
            "up",
            "up/secret",
            "a/slash",
            "a/slash/etc",
            "inside",
            "inside/b",
            "../secret",
            "a/../../secret",
            "a/..",
            "/etc",
            "a/link",
        ];
        let mut opened = 0;
        for path in paths {
            for flags in [OFlags::RDONLY, OFlags::PATH, OFlags::PATH | OFlags::DIRECTORY] {
                let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
                let kernel = openat2(beneath.fd(), path, flags, Mode::empty(), resolve).map(inode).ok();
                let own =
                    open_name_by_name(beneath.fd(), path.as_bytes(), flags, Mode::empty()).map(inode).ok();
                // Only this way refuses to go up within the directory.
                let is_up = path == "a/..";
                assert!(own == kernel || is_up && own.is_none(), "{path} {flags:?}: {own:?}, and {kernel:?}");
                opened += usize::from(own.is_some());
            }
        }
        assert!(opened > 15, "only {opened}");
    }

    #[test]
    fn paths_may_be_longer_than_the_kernel_takes() {
        let root = tempfile::tempdir().unwrap();
        let beneath = RootDir::open(root.path()).unwrap();
        let mut path = Vec::new();
        for _ in 0..40 {
            let dir = beneath.dir(&path).unwrap();
            rustix::fs::mkdirat(&dir, "d".repeat(200), Mode::from(0o755)).unwrap();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice("d".repeat(200).as_bytes());
        }
        assert!(path.len() > 8000);
        beneath.dir(&path).unwrap();
    }
}
