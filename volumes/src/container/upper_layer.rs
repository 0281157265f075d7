//! `write_upper_layer` writes the changes of a container as a layer, from the folder in which the daemon keeps them.
//!
//! The daemon would make the same of that folder, but as an image of its own, which it would have to write and to send
//! first. The folder is the `upperdir` of an overlay file system: a character device 0:0 stands for something that was
//! deleted, and an attribute for a directory that hides the one below it. What this file does not know is told, so that
//! the daemon is asked instead. The content comes from anybody: no link is followed.

use std::{
    collections::HashMap,
    ffi::{CStr, OsStr},
    fs::File,
    io::{self, BufWriter},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use engine::failure::Failure;
use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, Stat, lgetxattr, llistxattr, major, minor, openat, readlinkat,
        statat,
    },
    io::Errno,
};
use store::{
    Error,
    archive::header::{Header, MemberKind},
};

use super::{
    layer_writer::{LayerMember, LayerWriter, WrittenLayer},
    top_layer::EXCLUDED,
};

/// Stands before the name of something that was deleted.
const WHITEOUT: &[u8] = b".wh.";
/// In a directory that hides what the layers below have there.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Attributes in which an overlay says what it needs to know.
const OVERLAY: &[u8] = b"trusted.overlay.";
/// Those that say nothing of the content.
const WITHOUT_MEANING: [&[u8]; 5] = [b"origin", b"impure", b"nlink", b"uuid", b"index"];
/// Attributes that lend rights, which a layer keeps, as the daemon does.
const CAPABILITY: &[u8] = b"security.capability";
const USER: &[u8] = b"user.";
/// How many bytes the attributes of an entry may take in a layer. Those who read layers take no more than a mebibyte.
const MAX_ATTRIBUTE_BYTES: usize = 512 << 10;
/// What a layer takes for an attribute besides its name and its value.
const AROUND_ATTRIBUTE: usize = 64;

/// How many directories may lie in one another: each is open while what lies in it is read.
const MAX_DEPTH: usize = 256;
/// The user namespace of the host. In another one, nobody sees attributes of `trusted.*`.
const HOST_USERS: &str = "user:[4026531837]";
/// The bit of the capability without which nobody sees them either.
const CAP_SYS_ADMIN: u32 = 21;

/// Why a folder was not written.
enum Unwritten {
    /// It says something that only the daemon understands.
    Unknown(String),
    Failed(io::Error),
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for Unwritten {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

/// Whether this process sees all that an overlay says in attributes. One that does not would take a directory that hides another
/// for one that does not.
pub(super) fn sees_attributes_of_overlays() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/user");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    namespace.is_ok_and(|is| is.as_os_str() == HOST_USERS)
        && effective.is_some_and(|bits| bits >> CAP_SYS_ADMIN & 1 == 1)
}

/// Writes the changes in `upper` to the new file `to`, but for what is in the excluded directories. `None` if only the daemon
/// can say what the changes are.
pub(super) fn write_upper_layer(upper: &Path, to: &Path, most: u64) -> Result<Option<WrittenLayer>, Failure> {
    let file = File::create_new(to).map_err(|error| Error::io("cannot write", to, error))?;
    let out = LayerWriter::new(BufWriter::with_capacity(1 << 20, file), most);
    let mut upper_layer = UpperLayer { out, linked: HashMap::new() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let written = openat(rustix::fs::CWD, upper, flags, Mode::empty())
        .map_err(Unwritten::from)
        .and_then(|root| upper_layer.below(root.as_fd(), &[]))
        .and_then(|()| Ok(upper_layer.out.finish()?));
    match written {
        Ok(layer) => Ok(Some(layer)),
        Err(Unwritten::Unknown(what)) => {
            tracing::info!(what, "the daemon is asked for the changes of the container");
            std::fs::remove_file(to).map_err(|error| Error::io("cannot remove", to, error))?;
            Ok(None)
        }
        Err(Unwritten::Failed(error)) => {
            Err(Error::io("cannot copy the changes of the container from", upper, error).into())
        }
    }
}

struct UpperLayer {
    out: LayerWriter<BufWriter<File>>,
    /// The first path of each file that has several.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

impl UpperLayer {
    fn below(&mut self, folder: BorrowedFd<'_>, path: &[u8]) -> Result<(), Unwritten> {
        if path.split(|byte| *byte == b'/').count() > MAX_DEPTH {
            return Err(Unwritten::Unknown(format!(
                "it has more than {MAX_DEPTH} directories in one another"
            )));
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(folder)? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort_unstable();
        for name in names {
            let path = match path {
                [] => name.to_bytes().to_vec(),
                above => [above, b"/", name.to_bytes()].concat(),
            };
            self.entry(folder, &name, &path)?;
        }
        Ok(())
    }

    fn entry(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: &[u8]) -> Result<(), Unwritten> {
        if name.to_bytes().starts_with(WHITEOUT) {
            // In a layer it would stand for something else.
            return Err(Unwritten::Unknown(format!("{} is called as a marker", path.escape_ascii())));
        }
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => MemberKind::Directory,
            FileType::RegularFile => MemberKind::File,
            FileType::Symlink => MemberKind::Symlink,
            FileType::Fifo => MemberKind::Fifo,
            FileType::BlockDevice => MemberKind::BlockDevice,
            FileType::CharacterDevice if stat.st_rdev == 0 => return self.marker(&whiteout(path), &stat),
            FileType::CharacterDevice => MemberKind::CharDevice,
            // A socket is nothing without the process that listens.
            _ => return Ok(()),
        };
        let (xattrs, is_opaque) = attributes(folder, name, path)?;
        let mut member = LayerMember {
            header: Header {
                mode: stat.st_mode & 0o7777,
                uid: stat.st_uid.into(),
                gid: stat.st_gid.into(),
                mtime: stat.st_mtime,
                ..Header::new(path, kind)
            },
            nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            xattrs,
        };
        if kind != MemberKind::Directory && stat.st_nlink > 1 {
            let identity = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.linked.get(&identity) {
                member.header = Header { kind: MemberKind::HardLink, link: first.clone(), ..member.header };
                member.xattrs.clear();
                return Ok(self.out.member(&member, &mut io::empty())?);
            }
            self.linked.insert(identity, path.to_vec());
        }
        match kind {
            MemberKind::Directory => {
                member.header.path.push(b'/');
                self.out.member(&member, &mut io::empty())?;
                if is_opaque {
                    self.marker(&[path, b"/", OPAQUE].concat(), &stat)?;
                }
                if EXCLUDED.iter().any(|excluded| excluded.as_bytes() == path) {
                    return Ok(());
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let inner = openat(folder, name, flags, Mode::empty())?;
                return self.below(inner.as_fd(), path);
            }
            MemberKind::File => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                let mut file = File::from(openat(folder, name, flags, Mode::empty())?);
                member.header.size = u64::try_from(stat.st_size).unwrap_or(0);
                return Ok(self.out.member(&member, &mut file)?);
            }
            MemberKind::Symlink => member.header.link = readlinkat(folder, name, Vec::new())?.into_bytes(),
            MemberKind::CharDevice | MemberKind::BlockDevice => {
                member.header.device_major = major(stat.st_rdev).into();
                member.header.device_minor = minor(stat.st_rdev).into();
            }
            _ => {}
        }
        Ok(self.out.member(&member, &mut io::empty())?)
    }

    /// An empty file whose name says something of the layers below.
    fn marker(&mut self, path: &[u8], stat: &Stat) -> Result<(), Unwritten> {
        let header = Header { mode: 0o600, mtime: stat.st_mtime, ..Header::new(path, MemberKind::File) };
        Ok(self.out.member(&LayerMember { header, nanos: 0, xattrs: Vec::new() }, &mut io::empty())?)
    }
}

fn whiteout(path: &[u8]) -> Vec<u8> {
    let at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    [&path[..at], WHITEOUT, &path[at..]].concat()
}

type Attributes = (Vec<(Vec<u8>, Vec<u8>)>, bool);

/// The attributes that a layer keeps, and whether a directory hides what is below it.
fn attributes(folder: BorrowedFd<'_>, name: &CStr, path: &[u8]) -> Result<Attributes, Unwritten> {
    // The last name is not followed, and the folder is the one that is open.
    let place = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(OsStr::from_bytes(name.to_bytes()));
    let mut buffer = vec![0; 64 << 10];
    let len = match llistxattr(&place, &mut buffer[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let (mut kept, mut is_opaque) = (Vec::new(), false);
    for key in buffer[..len].split(|byte| *byte == 0).filter(|key| !key.is_empty()) {
        let value = || -> Result<Vec<u8>, Unwritten> {
            let mut value = vec![0; 64 << 10];
            let len = lgetxattr(&place, key, &mut value[..])?;
            value.truncate(len);
            Ok(value)
        };
        // An overlay of a user without rights says the same in attributes of `user.*`; no daemon that is asked has one.
        match key.strip_prefix(OVERLAY) {
            Some(b"opaque") if value()? == b"y" => is_opaque = true,
            Some(meaning) if WITHOUT_MEANING.contains(&meaning) => {}
            Some(_) => {
                let told = format!("{} has {}", path.escape_ascii(), key.escape_ascii());
                return Err(Unwritten::Unknown(told));
            }
            None if key == CAPABILITY || key.starts_with(USER) => kept.push((key.to_vec(), value()?)),
            None => {}
        }
    }
    kept.sort();
    if !can_be_written(&kept) {
        let told = format!("{} has attributes that no layer can have", path.escape_ascii());
        return Err(Unwritten::Unknown(told));
    }
    Ok((kept, is_opaque))
}

/// Whether a layer can have these attributes: the sign between name and value is in no name, and all of them are short enough.
fn can_be_written(attributes: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let bytes: usize =
        attributes.iter().map(|(name, value)| name.len() + value.len() + AROUND_ATTRIBUTE).sum();
    bytes <= MAX_ATTRIBUTE_BYTES && attributes.iter().all(|(name, _)| !name.contains(&b'='))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use rustix::fs::{XattrFlags, lsetxattr};
    use store::archive::reader::{Limits, Reader, What};

    use super::*;

    fn written(upper: &Path, to: &Path) -> Vec<(String, What)> {
        write_upper_layer(upper, to, u64::MAX).unwrap().unwrap();
        let mut reader = Reader::new(File::open(to).unwrap(), Limits::of(u64::MAX));
        let mut found = Vec::new();
        while let Some(member) = reader.next_member().unwrap() {
            found.push((member.path.to_string(), member.what));
        }
        found
    }

    #[test]
    fn links_are_kept_and_never_followed_and_what_is_excluded_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let upper = folder.path().join("upper");
        fs::create_dir_all(upper.join("tmp/below")).unwrap();
        fs::create_dir_all(upper.join("etc")).unwrap();
        fs::write(upper.join("etc/a"), "a").unwrap();
        fs::set_permissions(upper.join("etc/a"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::hard_link(upper.join("etc/a"), upper.join("etc/b")).unwrap();
        symlink("/", upper.join("etc/root")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(upper.join("etc/socket")).unwrap();
        let found = written(&upper, &folder.path().join("layer.tar"));
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["etc", "etc/a", "etc/b", "etc/root", "tmp"]);
        assert!(matches!(&found[2].1, What::HardLink { target } if target.to_string() == "etc/a"));
        assert!(matches!(&found[3].1, What::Symlink { target } if target == b"/"));
        assert!(write_upper_layer(&upper, &folder.path().join("short.tar"), 600).is_err());
        let again = write_upper_layer(&upper, &folder.path().join("again.tar"), u64::MAX).unwrap();
        let bytes = fs::read(folder.path().join("again.tar")).unwrap();
        assert_eq!(
            bytes,
            fs::read(folder.path().join("layer.tar")).unwrap(),
            "the same changes, the same bytes"
        );
        assert_eq!(again.unwrap().len, bytes.len() as u64);
    }

    #[test]
    fn what_would_be_something_else_in_a_layer_is_left_to_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let left =
            |upper: &Path| write_upper_layer(upper, &folder.path().join("layer.tar"), u64::MAX).unwrap();
        let named = folder.path().join("named");
        fs::create_dir_all(named.join("etc/.wh...")).unwrap();
        assert_eq!(left(&named), None);
        let deep = folder.path().join("deep");
        fs::create_dir_all(deep.join("d/".repeat(MAX_DEPTH))).unwrap();
        assert!(left(&deep).is_some());
        fs::remove_file(folder.path().join("layer.tar")).unwrap();
        fs::create_dir_all(deep.join("d/".repeat(MAX_DEPTH + 1))).unwrap();
        assert_eq!(left(&deep), None);
    }

    #[test]
    fn attributes_that_no_layer_can_have_are_left_to_the_daemon() {
        let attribute = |name: &str, len: usize| (name.as_bytes().to_vec(), vec![0; len]);
        assert!(can_be_written(&[]));
        assert!(can_be_written(&[attribute("user.overlay.opaque", 1), attribute("user.large", 500 << 10)]));
        assert!(!can_be_written(&[attribute("user.a=b", 1)]));
        assert!(!can_be_written(&[attribute("user.large", MAX_ATTRIBUTE_BYTES)]));
        assert!(!can_be_written(&vec![attribute("user.a", 0); MAX_ATTRIBUTE_BYTES / AROUND_ATTRIBUTE]));
    }

    #[test]
    fn an_attribute_that_a_user_calls_as_an_overlay_of_users_does_is_an_attribute() {
        let folder = tempfile::tempdir().unwrap();
        let upper = folder.path().join("upper");
        fs::create_dir_all(upper.join("etc")).unwrap();
        let key = "user.overlay.redirect";
        lsetxattr(upper.join("etc"), key, b"/elsewhere", XattrFlags::empty()).unwrap();
        let layer = folder.path().join("layer.tar");
        assert!(write_upper_layer(&upper, &layer, u64::MAX).unwrap().is_some());
        let bytes = fs::read(&layer).unwrap();
        assert!(bytes.windows(key.len()).any(|part| part == key.as_bytes()));
    }

    #[test]
    fn a_whiteout_stands_beside_what_it_hides() {
        assert_eq!(whiteout(b"etc/passwd"), b"etc/.wh.passwd");
        assert_eq!(whiteout(b"passwd"), b".wh.passwd");
    }
}
