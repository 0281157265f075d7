//! Removes a directory with all that is in it, however deep that is.
//!
//! A directory that lies deep is moved to the top before it is emptied. So neither the stack nor
//! the number of open files grows with the depth of a tree that somebody else has made, and
//! nothing is reached through a symbolic link.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmodat, fchmod, fstat, openat,
        renameat_with, unlinkat,
    },
    io::Errno,
};

use crate::id;

/// The rights that a directory's owner needs to empty it.
const OPEN: Mode = Mode::RWXU;
/// So many directories are open at once; deeper ones are moved to the top.
const LEVELS: usize = 32;

/// Removes `path`, which may be a directory or anything else; a link is removed, not followed.
pub fn remove_all(path: &Path) -> io::Result<()> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        removed => return Ok(removed?),
    }
    let top = open(CWD, path)?;
    let mut removal = Removal { top: top.as_fd(), unique: u64::from_le_bytes(id::random()), moved: 0 };
    loop {
        let before = removal.moved;
        removal.empty(top.as_fd(), 1)?;
        if removal.moved == before {
            return Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?);
        }
    }
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    /// The number in the next name of a directory moved there.
    unique: u64,
    moved: u64,
}

impl Removal<'_> {
    /// Removes the entries of a directory, but for those that are too deep.
    fn empty(&mut self, dir: BorrowedFd<'_>, level: usize) -> rustix::io::Result<()> {
        // All names before anything is changed: a listing does not tell what becomes of the rest.
        let mut found = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_owned();
            if name.as_bytes() != b"." && name.as_bytes() != b".." {
                found.push((name, entry.file_type() == FileType::Directory));
            }
        }
        for (name, is_folder) in found {
            if !is_folder {
                match unlinkat(dir, &name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => continue,
                    // Some file systems do not tell what an entry is.
                    Err(Errno::ISDIR) => {}
                    Err(error) => return Err(error),
                }
            }
            // To be moved, too, a directory must be writable itself.
            let folder = open(dir, &name)?;
            if level == LEVELS {
                self.moved += 1;
                let to = format!(".removed-{:016x}-{}", self.unique, self.moved);
                renameat_with(dir, &name, self.top, to, RenameFlags::NOREPLACE)?;
            } else {
                self.empty(folder.as_fd(), level + 1)?;
                unlinkat(dir, &name, AtFlags::REMOVEDIR)?;
            }
        }
        Ok(())
    }
}

/// Opens a directory so that it can be emptied, in spite of its mode.
fn open<P: rustix::path::Arg + Copy>(dir: impl AsFd, path: P) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match openat(dir.as_fd(), path, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            chmodat(dir.as_fd(), path, OPEN, AtFlags::empty())?;
            openat(dir.as_fd(), path, flags, Mode::empty())?
        }
        opened => opened?,
    };
    if !Mode::from_raw_mode(fstat(&fd)?.st_mode).contains(OPEN) {
        fchmod(&fd, OPEN)?;
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn what_a_link_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (doomed, kept) = (dir.path().join("doomed"), dir.path().join("kept"));
        fs::create_dir_all(doomed.join("a/b/c")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        fs::write(doomed.join("a/b/file"), "x").unwrap();
        fs::set_permissions(doomed.join("a/b"), std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
        symlink(&kept, doomed.join("a/b/c/link")).unwrap();
        symlink(&kept, doomed.join("link")).unwrap();
        remove_all(&doomed).unwrap();
        assert!(!doomed.exists());
        symlink(&kept, &doomed).unwrap();
        remove_all(&doomed).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read(kept.join("file")).unwrap(), b"x");
        remove_all(&kept.join("file")).unwrap();
        assert_eq!(remove_all(&kept.join("file")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_tree_may_be_deeper_than_any_stack() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = openat(CWD, dir.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let doomed = dir.path().join("d");
        for _ in 0..5000 {
            mkdirat(&at, "d", Mode::from(0o700)).unwrap();
            at = openat(&at, "d", OFlags::RDONLY, Mode::empty()).unwrap();
        }
        drop(at);
        // In a thread of its own: an overflow of its stack would end the process.
        let small = std::thread::Builder::new().stack_size(128 << 10);
        small.spawn(move || remove_all(&doomed).unwrap()).unwrap().join().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
