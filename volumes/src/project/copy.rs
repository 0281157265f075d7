//! `copy` copies a folder of a volume, with all that a snapshot keeps of it.
//!
//! Whoever writes to the volume may swap a file for a link, or for a FIFO, while it is copied. So each entry is opened
//! beneath its opened folder, without following a link and without waiting, and what was opened is what is judged and
//! read. A link is copied as a link. Sockets, FIFOs and devices are left out, as they are in a snapshot. Where the file
//! system can share blocks between files, the kernel does.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, OsStr},
    fs::{self, File, FileTimes, Permissions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown, symlink},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fsetxattr, openat,
        readlinkat, statat,
    },
    io::Errno,
};
use store::{Error, error::IoContext};

/// How often an entry is looked at again because it had become something else before it was opened.
const ATTEMPTS: u32 = 5;

/// Copies folders, and remembers which files have several names.
#[derive(Debug, Default)]
pub struct Copier {
    linked: HashMap<(u64, u64), PathBuf>,
}

/// An entry of an opened folder.
struct Entry<'a> {
    folder: &'a File,
    name: CString,
    /// For messages, and for those who leave something out.
    path: PathBuf,
}

impl Copier {
    /// Copies `from`, a folder, to `to`, which must not exist. `leaves_out` says what is not copied.
    pub fn folder(
        &mut self,
        from: &Path,
        to: &Path,
        leaves_out: &dyn Fn(&Path) -> bool,
    ) -> Result<(), Error> {
        match openat(CWD, from, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(folder) => self.opened(&File::from(folder), from, to, leaves_out),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                Err(Error::InvalidInput { what: format!("{} is no folder", from.display()) })
            }
            Err(error) => Err(io::Error::from(error)).at("cannot read", from),
        }
    }

    fn opened(
        &mut self,
        folder: &File,
        from: &Path,
        to: &Path,
        leaves_out: &dyn Fn(&Path) -> bool,
    ) -> Result<(), Error> {
        fs::DirBuilder::new().mode(0o700).create(to).at("cannot make", to)?;
        for name in names(folder).at("cannot read", from)? {
            let os_name = OsStr::from_bytes(name.to_bytes());
            let (path, to) = (from.join(os_name), to.join(os_name));
            if !leaves_out(&path) {
                self.entry(&Entry { folder, name, path }, &to, leaves_out)?;
            }
        }
        let copy = File::open(to).at("cannot open", to)?;
        attributes(folder, &copy).at("cannot give its attributes to", to)
    }

    fn entry(
        &mut self,
        entry: &Entry<'_>,
        to: &Path,
        leaves_out: &dyn Fn(&Path) -> bool,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let found = match statat(entry.folder, &entry.name, AtFlags::SYMLINK_NOFOLLOW) {
                // It went while the folder was copied; a save that lets others write meets that.
                Err(Errno::NOENT) => return Ok(()),
                found => found.map_err(io::Error::from).at("cannot read", &entry.path)?,
            };
            let opened = match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink => match readlinkat(entry.folder, &entry.name, Vec::new()) {
                    Ok(target) => {
                        symlink(OsStr::from_bytes(target.to_bytes()), to).at("cannot make", to)?;
                        let given = owner(lchown(to, Some(found.st_uid), Some(found.st_gid)));
                        return given.at("cannot give away", to);
                    }
                    Err(Errno::INVAL | Errno::NOENT) => continue,
                    Err(error) => return Err(io::Error::from(error)).at("cannot read", &entry.path),
                },
                FileType::Directory => entry.open(OFlags::DIRECTORY)?,
                FileType::RegularFile => entry.open(OFlags::NONBLOCK)?,
                _ => return Ok(()),
            };
            let Some(opened) = opened.map(File::from) else { continue };
            let metadata = opened.metadata().at("cannot read", &entry.path)?;
            if metadata.is_dir() {
                return self.opened(&opened, &entry.path, to, leaves_out);
            }
            if metadata.is_file() {
                return self.file(opened, &metadata, entry, to);
            }
        }
        Err(Error::SourceChanged { path: entry.path.clone(), attempts: ATTEMPTS })
    }

    fn file(
        &mut self,
        mut from: File,
        metadata: &fs::Metadata,
        entry: &Entry<'_>,
        to: &Path,
    ) -> Result<(), Error> {
        let identity = (metadata.dev(), metadata.ino());
        if let Some(first) = self.linked.get(&identity) {
            return fs::hard_link(first, to).at("cannot link", to);
        }
        let mut copy = create(to)?;
        io::copy(&mut from, &mut copy).at("cannot copy", &entry.path)?;
        if metadata.nlink() > 1 {
            self.linked.insert(identity, to.to_owned());
        }
        attributes(&from, &copy).at("cannot give its attributes to", to)
    }
}

impl Entry<'_> {
    /// Opens it; `None` if it has become something that cannot be opened so.
    fn open(&self, flags: OFlags) -> Result<Option<OwnedFd>, Error> {
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(self.folder, &self.name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => Ok(None),
            opened => Ok(Some(opened.map_err(io::Error::from).at("cannot open", &self.path)?)),
        }
    }
}

/// Copies one file, with its owner, attributes, mode and time.
pub fn file(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).at("cannot open", from)?;
    let mut copy = create(to)?;
    io::copy(&mut source, &mut copy).at("cannot copy", from)?;
    attributes(&source, &copy).at("cannot give its attributes to", to)
}

/// A new file that nobody else may read yet.
fn create(to: &Path) -> Result<File, Error> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create_new(true).mode(0o600).open(to).at("cannot make", to)
}

/// The names in an opened folder, in order.
fn names(folder: &File) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Gives a copy the owner, the attributes, the mode and the time of what it was made from. Owner before mode: a change
/// of the owner takes set-user-id bits away.
pub fn attributes(from: &File, to: &File) -> io::Result<()> {
    let metadata = from.metadata()?;
    owner(std::os::unix::fs::fchown(to, Some(metadata.uid()), Some(metadata.gid())))?;
    for name in attribute_names(from)? {
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

fn attribute_names(file: &impl AsFd) -> io::Result<Vec<CString>> {
    let mut buffer = vec![0; 64 << 10];
    let len = match flistxattr(file, &mut buffer[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let names = buffer[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

fn value(file: &impl AsFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 64 << 10];
    let len = fgetxattr(file, name, &mut buffer[..])?;
    buffer.truncate(len);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    };

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

    /// Somebody who writes to the volume wants a file of another to be copied, or the copy to wait for ever.
    #[test]
    fn what_is_swapped_while_it_is_copied_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, volume) = (folder.path().join("secret"), folder.path().join("volume"));
        fs::create_dir_all(secret.join("key")).unwrap();
        fs::write(secret.join("file"), "secret").unwrap();
        fs::create_dir(&volume).unwrap();
        let is_over = AtomicBool::new(false);
        let swap = |name: &str, make: &dyn Fn(&Path)| {
            let beside = volume.join(format!("{name}.beside"));
            make(&beside);
            let moved = fs::rename(&beside, volume.join(name));
            if moved.is_err() {
                // A directory gives way to nothing else.
                let _ = fs::rename(volume.join(name), folder.path().join(tests_name()));
                let _ = fs::rename(&beside, volume.join(name));
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    swap("file", &|at| fs::write(at, "own").unwrap());
                    swap("file", &|at| symlink(secret.join("file"), at).unwrap());
                    swap("file", &|at| {
                        rustix::fs::mknodat(CWD, at, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
                    });
                    swap("folder", &|at| fs::create_dir(at).unwrap());
                    swap("folder", &|at| symlink(&secret, at).unwrap());
                }
            });
            let _over = Over(&is_over);
            for round in 0..3000 {
                let to = folder.path().join(format!("copy-{round}"));
                let beside = |path: &Path| path.extension().is_some_and(|it| it == "beside");
                match Copier::default().folder(&volume, &to, &beside) {
                    Ok(()) | Err(Error::SourceChanged { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                let is_plain = |path: &str| !to.join(path).is_symlink() && to.join(path).exists();
                if is_plain("file") {
                    assert_eq!(fs::read_to_string(to.join("file")).unwrap(), "own");
                }
                assert!(!is_plain("folder") || fs::read_dir(to.join("folder")).unwrap().count() == 0);
                fs::remove_dir_all(&to).unwrap();
            }
        });
    }

    /// A name that nothing has.
    fn tests_name() -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("away-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends what goes on beside, however the test ends.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
