//! `copy` copies a folder of a volume, with all that a snapshot keeps of it.
//!
//! A link is copied as a link and never followed, so nothing outside the folder is read. Sockets, FIFOs and devices
//! are left out, as they are in a snapshot. Where the file system can share blocks between files, the kernel does.

use std::{
    collections::HashMap,
    fs::{self, File, FileTimes, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown, symlink},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{XattrFlags, fsetxattr, lgetxattr, llistxattr},
    io::Errno,
};
use store::{Error, error::IoContext};

/// Copies folders, and remembers which files have several names.
#[derive(Debug, Default)]
pub struct Copier {
    linked: HashMap<(u64, u64), PathBuf>,
}

impl Copier {
    /// Copies `from`, a folder, to `to`, which must not exist. `leaves_out` says what is not copied.
    pub fn folder(
        &mut self,
        from: &Path,
        to: &Path,
        leaves_out: &dyn Fn(&Path) -> bool,
    ) -> Result<(), Error> {
        let metadata = fs::symlink_metadata(from).at("cannot read", from)?;
        if !metadata.is_dir() {
            let what = format!("{} is no folder", from.display());
            return Err(Error::InvalidInput { what });
        }
        fs::DirBuilder::new().mode(0o700).create(to).at("cannot make", to)?;
        let mut entries = fs::read_dir(from)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
            })
            .at("cannot read", from)?;
        entries.sort_unstable();
        for name in entries {
            let (from, to) = (from.join(&name), to.join(&name));
            if !leaves_out(&from) {
                self.entry(&from, &to, leaves_out)?;
            }
        }
        let opened = File::open(to).at("cannot open", to)?;
        attributes(from, &metadata, &opened).at("cannot give its attributes to", to)
    }

    fn entry(&mut self, from: &Path, to: &Path, leaves_out: &dyn Fn(&Path) -> bool) -> Result<(), Error> {
        let metadata = match fs::symlink_metadata(from) {
            // It went while the folder was copied; whoever lets others write meets that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.at("cannot read", from)?,
        };
        if metadata.is_dir() {
            return self.folder(from, to, leaves_out);
        }
        if metadata.is_symlink() {
            let target = fs::read_link(from).at("cannot read", from)?;
            symlink(target, to).at("cannot make", to)?;
            return owner(lchown(to, Some(metadata.uid()), Some(metadata.gid()))).at("cannot give away", to);
        }
        if !metadata.is_file() {
            return Ok(());
        }
        let identity = (metadata.dev(), metadata.ino());
        if let Some(first) = self.linked.get(&identity) {
            return fs::hard_link(first, to).at("cannot link", to);
        }
        match fs::copy(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !from.exists() => return Ok(()),
            copied => copied.at("cannot copy", from)?,
        };
        if metadata.nlink() > 1 {
            self.linked.insert(identity, to.to_owned());
        }
        let opened =
            File::options().append(true).open(to).or_else(|_| File::open(to)).at("cannot open", to)?;
        attributes(from, &metadata, &opened).at("cannot give its attributes to", to)
    }
}

/// Owner before mode: a change of the owner takes set-user-id bits away.
fn attributes(from: &Path, metadata: &fs::Metadata, to: &File) -> io::Result<()> {
    owner(std::os::unix::fs::fchown(to, Some(metadata.uid()), Some(metadata.gid())))?;
    for name in names(from)? {
        let value = match value(from, &name) {
            Ok(value) => value,
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error.into()),
        };
        match fsetxattr(to, &*name, &value, XattrFlags::empty()) {
            // What only root may give, or what this file system does not keep.
            Err(Errno::PERM | Errno::OPNOTSUPP) => {}
            set => set?,
        }
    }
    to.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))?;
    to.set_times(FileTimes::new().set_modified(metadata.modified()?))
}

/// Only root gives files away.
fn owner(changed: io::Result<()>) -> io::Result<()> {
    match changed {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        changed => changed,
    }
}

fn names(path: &Path) -> io::Result<Vec<std::ffi::CString>> {
    let mut buffer = vec![0; 64 << 10];
    let len = match llistxattr(path, &mut buffer[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let names = buffer[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| std::ffi::CString::new(name).ok()).collect())
}

fn value(path: &Path, name: &std::ffi::CStr) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 64 << 10];
    let len = lgetxattr(path, name, &mut buffer[..])?;
    buffer.truncate(len);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_links_modes_and_times_and_leaves_out_what_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/a"), "a").unwrap();
        fs::set_permissions(from.join("sub/a"), Permissions::from_mode(0o640)).unwrap();
        fs::hard_link(from.join("sub/a"), from.join("b")).unwrap();
        symlink("/etc/passwd", from.join("out")).unwrap();
        fs::write(from.join("left"), "out").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        fs::set_permissions(from.join("sub"), Permissions::from_mode(0o555)).unwrap();
        Copier::default().folder(&from, &to, &|path| path.ends_with("left")).unwrap();
        let read = |path: &str| fs::symlink_metadata(to.join(path)).unwrap();
        assert_eq!(read("sub/a").ino(), read("b").ino());
        assert_eq!(read("sub/a").mode() & 0o7777, 0o640);
        assert_eq!(read("sub").mode() & 0o7777, 0o555);
        assert_eq!(
            read("sub/a").modified().unwrap(),
            fs::metadata(from.join("sub/a")).unwrap().modified().unwrap()
        );
        assert_eq!(fs::read_link(to.join("out")).unwrap(), Path::new("/etc/passwd"));
        for absent in ["left", "socket"] {
            assert!(fs::symlink_metadata(to.join(absent)).is_err(), "{absent}");
        }
        fs::set_permissions(from.join("sub"), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(to.join("sub"), Permissions::from_mode(0o755)).unwrap();
    }
}
