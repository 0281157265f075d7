//! `Storage` lists the origins that keep something in a profile's Local Storage.
//!
//! Chrome keeps it in one LevelDB, with the origin at the beginning of every key. The LevelDB is untrusted: a
//! [cell](crate::cell) reads it, and returns the origins and none of their data.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::cookie_sites::{AFTER, BEFORE};
use crate::{
    db_state::{Deadline, brief},
    leveldb::{self, KeyWrite},
    profile_dir::ProfileDir,
};

/// Where a profile has it.
pub const DIRECTORY: &str = "Local Storage/leveldb";

/// As many of each list as fit into an answer; the others are counted.
const MAX_ORIGINS: usize = 90;
/// Longer ones are counted, and not told.
const MAX_ORIGIN_BYTES: usize = 300;
/// More are not told apart.
const MAX_KEYS: usize = 500_000;
/// Before every key that a site has set; its origin and a zero byte follow.
const ENTRY: u8 = b'_';
/// In an origin that another site has embedded: that is no visit of the user's.
const EMBEDDED: &[u8] = b"/^";

/// The changes of the origins of one Local Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    pub added: Vec<String>,
    pub gone: Vec<String>,
    /// How many more there are.
    pub more: u64,
    /// Why one of the two could not be read.
    pub problem: Option<String>,
}

impl Storage {
    /// The same as somebody tells it who is not trusted; `None` if it makes no sense.
    pub(crate) fn told(self) -> Option<Self> {
        let all = || self.added.iter().chain(&self.gone);
        let fits =
            self.added.len().max(self.gone.len()) <= MAX_ORIGINS && all().all(|origin| is_plain(origin));
        fits.then(|| Self { problem: self.problem.as_deref().map(brief), ..self })
    }

    pub(crate) fn unread(why: &str) -> Self {
        Self { problem: Some(brief(why)), ..Self::default() }
    }
}

/// The Local Storage that this file belongs to.
pub fn directory_of(path: &Path) -> Option<PathBuf> {
    let directory = path.parent()?;
    directory.ends_with(DIRECTORY).then(|| directory.to_owned())
}

/// In the cell: the changes of the origins in the Local Storage at `path`.
pub(crate) fn check(dir: &ProfileDir, path: &Path, deadline: Deadline) -> Storage {
    let read = |side: &str| {
        let read = origins(dir, &Path::new(side).join(path), deadline, |_| true);
        read.map_err(|why| format!("the {side} one cannot be read: {why}"))
    };
    match (read(BEFORE), read(AFTER)) {
        (Ok(before), Ok(after)) => compared(&before, &after),
        (Err(why), _) | (_, Err(why)) => Storage::unread(&why),
    }
}

fn compared(before: &BTreeSet<Vec<u8>>, after: &BTreeSet<Vec<u8>>) -> Storage {
    let mut more = 0;
    let mut told = |origins: Vec<&Vec<u8>>| {
        let plain = origins.iter().filter_map(|origin| std::str::from_utf8(origin).ok());
        let told: Vec<String> =
            plain.filter(|origin| is_plain(origin)).take(MAX_ORIGINS).map(str::to_owned).collect();
        more += (origins.len() - told.len()) as u64;
        told
    };
    let added = told(after.difference(before).collect());
    let gone = told(before.difference(after).collect());
    Storage { added, gone, more, problem: None }
}

fn is_plain(origin: &str) -> bool {
    origin.len() <= MAX_ORIGIN_BYTES
        && origin.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

/// In the cell: those of the `wanted` origins that keep something in the Local Storage at `path`; none if
/// there is no such directory.
pub(crate) fn origins(
    dir: &ProfileDir,
    path: &Path,
    deadline: Deadline,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<BTreeSet<Vec<u8>>, String> {
    match dir.entries(path) {
        Ok(None) => return Ok(BTreeSet::new()),
        Ok(Some(_)) => {}
        Err(error) => return Err(format!("it cannot be read: {error}")),
    }
    let hasher = RandomState::new();
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut numbers: HashMap<Vec<u8>, usize> = HashMap::new();
    // Of each key, by its digest: what was written last, and whose it is.
    let mut last: HashMap<u64, (u64, bool, usize)> = HashMap::new();
    let mut too_many = false;
    leveldb::keys(dir, path, deadline, |KeyWrite { key, sequence, is_value }| {
        let Some(origin) = origin_of(key).filter(|origin| wanted(origin)) else { return };
        let digest = hasher.hash_one(key);
        if last.len() == MAX_KEYS && !last.contains_key(&digest) {
            too_many = true;
            return;
        }
        let number = match numbers.get(origin) {
            Some(number) => *number,
            None => {
                names.push(origin.to_vec());
                numbers.insert(origin.to_vec(), names.len() - 1);
                names.len() - 1
            }
        };
        let before = last.entry(digest).or_insert((sequence, is_value, number));
        if sequence >= before.0 {
            *before = (sequence, is_value, number);
        }
    })?;
    if too_many {
        return Err(format!("it has more than {MAX_KEYS} keys"));
    }
    let held = last.into_values().filter(|(_, is_value, _)| *is_value);
    Ok(held.map(|(.., number)| names[number].clone()).collect())
}

/// The origin of a key, if it was set by a site that was visited itself.
fn origin_of(key: &[u8]) -> Option<&[u8]> {
    let (first, rest) = key.split_first()?;
    let origin = &rest[..rest.iter().position(|byte| *byte == 0)?];
    let is_embedded = origin.windows(EMBEDDED.len()).any(|part| part == EMBEDDED);
    (*first == ENTRY && origin.len() <= MAX_ORIGIN_BYTES && !is_embedded).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leveldb::writer;

    fn check_of(root: &Path) -> Storage {
        check(&ProfileDir::open(root).unwrap(), Path::new(DIRECTORY), Deadline::NEVER)
    }

    #[test]
    fn origins_come_and_go_with_what_they_keep() {
        let root = tempfile::tempdir().unwrap();
        let side = |side: &str| root.path().join(side).join(DIRECTORY);
        writer::keyed(
            &side(BEFORE),
            true,
            &[
                ("META:https://stays.test", 1, true),
                ("VERSION", 2, true),
                ("_https://stays.test\0\u{1}a", 3, true),
            ],
            &[("_https://left.test\0\u{1}a", 4, true)],
        );
        writer::keyed(
            &side(AFTER),
            false,
            &[("_https://left.test\0\u{1}a", 4, true), ("_https://stays.test\0\u{1}a", 3, true)],
            &[
                ("_https://stays.test\0\u{1}b", 5, true),
                ("_https://stays.test\0\u{1}a", 6, false),
                ("_https://left.test\0\u{1}a", 7, false),
                ("_http://came.test:8080\0\u{1}a", 8, true),
                ("_https://frame.test/^0https://top.test\0\u{1}a", 9, true),
            ],
        );
        let found = check_of(root.path());
        assert_eq!(found.added, ["http://came.test:8080"]);
        assert_eq!(found.gone, ["https://left.test"]);
        assert_eq!((found.more, found.problem.clone()), (0, None));
        assert_eq!(found.clone().told(), Some(found));
    }

    #[test]
    fn one_that_is_not_there_keeps_nothing_and_one_that_is_damaged_is_said() {
        let root = tempfile::tempdir().unwrap();
        let after = root.path().join(AFTER).join(DIRECTORY);
        writer::keyed(&after, false, &[("_https://new.test\0a", 1, true)], &[]);
        assert_eq!(check_of(root.path()).added, ["https://new.test"]);
        std::fs::remove_file(after.join("000004.ldb")).unwrap();
        let problem = check_of(root.path()).problem.unwrap();
        assert!(problem.contains("after one cannot be read") && problem.contains("000004.ldb"), "{problem}");
    }

    #[test]
    fn what_a_cell_tells_is_plain_and_bounded() {
        let told = |added: Vec<String>| Storage { added, ..Storage::default() }.told();
        assert_eq!(told(vec!["https://a\u{1b}[2J".to_owned()]), None);
        assert_eq!(told(vec!["https://a.test".to_owned(); MAX_ORIGINS + 1]), None);
        let many: BTreeSet<Vec<u8>> = (0..200).map(|at| format!("https://{at}.test").into_bytes()).collect();
        let found = compared(&BTreeSet::new(), &many);
        assert_eq!((found.added.len(), found.more), (MAX_ORIGINS, 110));
    }
}
