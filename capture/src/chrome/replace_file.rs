//! `replace` puts another file in the place of one of a profile, at once.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::BorrowedFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, openat, renameat, statat, unlinkat};
use store::format::tree::PLAIN_MODE_BITS;

/// Puts `content` in the place of the file `name`, with the same owner and mode.
pub(crate) fn replace(folder: BorrowedFd<'_>, name: &Path, content: &mut impl Read) -> io::Result<()> {
    let aside = format!(".pstore-{:016x}", u64::from_le_bytes(store::id::random()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(folder, &aside, flags, Mode::from(0o600))?);
    let replaced =
        write_like(folder, name, file, content).and_then(|()| Ok(renameat(folder, &aside, folder, name)?));
    if replaced.is_err() {
        let _ = unlinkat(folder, &aside, AtFlags::empty());
    }
    replaced
}

fn write_like(
    folder: BorrowedFd<'_>,
    name: &Path,
    mut file: File,
    content: &mut impl Read,
) -> io::Result<()> {
    let like = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    io::copy(content, &mut file)?;
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != (like.st_uid, like.st_gid) {
        fchown(&file, Some(Uid::from_raw(like.st_uid)), Some(Gid::from_raw(like.st_gid)))?;
    }
    // After the owner, since a change of that takes bits away.
    fchmod(&file, Mode::from(like.st_mode & PLAIN_MODE_BITS))?;
    file.sync_all()
}
