//! `FileName` parses the name of a file in a LevelDB directory.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// The file that says which MANIFEST holds.
pub(crate) const CURRENT: &str = "CURRENT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileName {
    Current,
    Lock,
    Manifest(u64),
    Log(u64),
    Table(u64),
}

impl FileName {
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        let name = std::str::from_utf8(name.as_bytes()).ok()?;
        match name {
            CURRENT => return Some(Self::Current),
            "LOCK" => return Some(Self::Lock),
            _ => {}
        }
        if let Some(number) = name.strip_prefix("MANIFEST-") {
            return number_of(number).map(Self::Manifest);
        }
        let (number, suffix) = name.split_once('.')?;
        let number = number_of(number)?;
        match suffix {
            "log" => Some(Self::Log(number)),
            // Tables had the second name before 2013 and are still read under it.
            "ldb" | "sst" => Some(Self::Table(number)),
            _ => None,
        }
    }
}

fn number_of(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Whether a file of this name may belong to a LevelDB and matter to it.
pub(crate) fn is_file_name(name: &OsStr) -> bool {
    FileName::parse(name).is_some()
}

/// Whether a file of this name is a sequence of records that grows at its end.
pub(crate) fn is_log_name(name: &OsStr) -> bool {
    matches!(FileName::parse(name), Some(FileName::Log(_) | FileName::Manifest(_)))
}

/// Whether a directory with these entries is a LevelDB, be it a broken one.
///
/// A file with such a name may lie anywhere; two of different kinds hardly do.
pub(crate) fn is_leveldb<'a>(names: impl Iterator<Item = &'a OsStr>) -> bool {
    let (mut current, mut manifest, mut lock, mut data) = (false, false, false, false);
    for name in names.filter_map(FileName::parse) {
        match name {
            FileName::Current => current = true,
            FileName::Manifest(_) => manifest = true,
            FileName::Lock => lock = true,
            FileName::Log(_) | FileName::Table(_) => data = true,
        }
    }
    manifest || [current, lock, data].into_iter().filter(|seen| *seen).count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&'static str]) -> bool {
        is_leveldb(names.iter().map(OsStr::new))
    }

    #[test]
    fn a_leveldb_is_known_by_its_files() {
        assert!(names(&["CURRENT", "LOCK", "LOG", "MANIFEST-000001", "000003.log"]));
        assert!(names(&["LOCK", "000003.log"]), "CURRENT and MANIFEST are lost");
        assert!(names(&["CURRENT", "000005.ldb"]));
        assert!(!names(&["CURRENT"]));
        assert!(!names(&["LOCK", "LOG"]), "nothing was ever written");
        assert!(!names(&["000001.log", "000002.log"]));
        assert!(!names(&["MANIFEST-x", "x.ldb", ".ldb", "MANIFEST-", "1.2.ldb"]));
        assert_eq!(FileName::parse(OsStr::new("99999999999999999999999.ldb")), None);
        assert_eq!(FileName::parse(OsStr::from_bytes(b"\xff.ldb")), None);
    }
}
