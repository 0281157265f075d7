//! `mounted` refuses places that cannot be moved, because something is mounted there.
//!
//! A restore in place puts a new folder where the old one was, by two renames. The kernel renames no mount point, whether
//! another device is mounted there or a folder of the same one.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use engine::failure::Failure;
use store::{ErrorKind, error::IoContext};

/// What is mounted in the namespace of this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Refuses a place of the project if it is a mount point, or has one below it: what is mounted could be neither moved nor
/// removed.
pub fn require_movable(what: &str, place: &Path) -> Result<(), Failure> {
    let Some((found, place)) = at(place)? else { return Ok(()) };
    let mounted = match fs::read(MOUNTS) {
        Ok(text) => mount_points(&text).into_iter().find(|mounted| mounted.starts_with(&place)),
        // Without it, another device than above tells of most mounts.
        Err(_) => {
            let above = place.parent().unwrap_or(Path::new("/"));
            let above = fs::metadata(above).at("cannot read", above)?;
            (above.dev() != found.dev()).then(|| place.clone())
        }
    };
    let Some(mounted) = mounted else { return Ok(()) };
    let message = format!(
        "{what} cannot be replaced: {} is a mount point, which can neither be moved nor removed",
        mounted.display()
    );
    Err(Failure::new(ErrorKind::InUse, message).hint(format!(
        "`pstore project restore FILE --to DIR` writes the state to another folder, from which you can copy to {}; \
         or keep the volume in a folder below the mount point",
        place.display()
    )))
}

/// What is in a place, and the path without links above it. A link in the place itself is what is moved.
fn at(place: &Path) -> Result<Option<(fs::Metadata, PathBuf)>, Failure> {
    let found = match fs::symlink_metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.at("cannot read", place)?,
    };
    let path = match (place.parent(), place.file_name()) {
        (Some(above), Some(name)) if found.is_symlink() => {
            fs::canonicalize(above).at("cannot find", above)?.join(name)
        }
        _ => fs::canonicalize(place).at("cannot find", place)?,
    };
    Ok(Some((found, path)))
}

/// The mount points of a table of mounts, as proc(5) describes it.
fn mount_points(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.map(|point| PathBuf::from(OsString::from_vec(unescaped(point)))).collect()
}

/// Blanks, line breaks and backslashes stand there as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped =
            digits.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &others[3..] } else { others };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_refused_and_so_is_what_lies_above_one() {
        let refused = require_movable("volume \"all\"", Path::new("/proc")).unwrap_err();
        assert!(refused.message.contains("volume \"all\" cannot be replaced: /proc"), "{}", refused.message);
        assert!(refused.hint.unwrap().contains("--to DIR"));
        require_movable("all", Path::new("/")).unwrap_err();
    }

    #[test]
    fn a_folder_a_link_to_a_mount_point_and_nothing_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc", folder.path().join("link")).unwrap();
        for name in ["", "link", "absent"] {
            require_movable("it", &folder.path().join(name)).unwrap();
        }
    }

    #[test]
    fn the_table_of_mounts_is_read_with_odd_names() {
        let text = b"36 35 98:0 / /srv/with\\040blank rw,noatime - ext4 /dev/sdb1 rw\n\
            37 35 8:1 /srv/a /srv/bound rw shared:1 - ext4 /dev/sda1 rw\n\n";
        assert_eq!(mount_points(text), [Path::new("/srv/with blank"), Path::new("/srv/bound")]);
        assert_eq!(unescaped(b"a\\134b\\0"), b"a\\b\\0");
    }
}
