//! `Sites` compares the cookies of each site between two snapshots.
//!
//! Databases are untrusted: a [cell](crate::cell) reads them, and says how many cookies of a site are new, are gone
//! or will lapse. Their names and values stay there.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, RandomState},
    path::Path,
    time::Duration,
};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::{
    cookies::{MS_FROM_1601_TO_1970, NOBODY},
    db_state::{DbState, brief},
    profile_dir::ProfileDir,
    sqlite::{self, Means},
};

/// The directories, below the one that is read, in which the two snapshots lie.
pub const BEFORE: &str = "before";
pub const AFTER: &str = "after";
/// A cookie that lapses so soon after the later snapshot is told.
pub const SOON: Duration = Duration::from_secs(7 * 86_400);

/// As many as fit into an answer; the others are counted.
const MAX_SITES: usize = 150;
/// The longest name that a host can have.
const MAX_SITE_BYTES: usize = 253;
pub(crate) const MAX_COOKIES: usize = 200_000;
pub(super) const MOST_TIME: Duration = Duration::from_secs(60);

/// How many cookies one site has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    pub site: String,
    pub before: u64,
    pub after: u64,
    pub added: u64,
    pub gone: u64,
    /// Of the later ones, those that lapse soon after that snapshot was captured.
    pub expiring: u64,
}

/// The changes of the cookies of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sites {
    /// Those of which there is something to tell, most changes first.
    pub sites: Vec<Site>,
    /// How many more there are.
    pub more: u64,
    /// Why one of the two could not be read.
    pub problem: Option<String>,
}

impl Sites {
    /// The same as somebody tells it who is not trusted; `None` if it makes no sense.
    pub(crate) fn told(self) -> Option<Self> {
        let is_plain = |site: &Site| site.site == plain(&site.site);
        let fits = self.sites.len() <= MAX_SITES && self.sites.iter().all(is_plain);
        fits.then(|| Self { problem: self.problem.as_deref().map(brief), ..self })
    }

    pub(crate) fn unread(why: &str) -> Self {
        Self { problem: Some(brief(why)), ..Self::default() }
    }
}

/// In the cell: the changes of the cookies at `path`.
pub(crate) fn check(dir: &ProfileDir, path: &Path, soon_ms: u64, means: Means<'_>) -> Sites {
    let hasher = RandomState::new();
    let read = |side: &str| {
        let path = Path::new(side).join(path);
        if matches!(dir.file(&path), Ok(None)) {
            return Ok(Cookies::new());
        }
        let (checked, cookies) = sqlite::check(dir, &path, means, |connection| cookies(connection, &hasher));
        cookies.ok_or_else(|| match checked.state {
            DbState::Ok => format!("the {side} one has no cookies that could be read"),
            DbState::Damaged(problems) => format!("the {side} one is damaged: {}", problems.join("; ")),
            DbState::Unchecked(reason) => format!("the {side} one cannot be read: {reason}"),
        })
    };
    match (read(BEFORE), read(AFTER)) {
        (Ok(before), Ok(after)) => compared(&before, &after, soon_ms),
        (Err(why), _) | (_, Err(why)) => Sites::unread(&why),
    }
}

/// Of each site, its cookies: a digest of the name and path of each, how many have it, and when the
/// first of them lapses, in milliseconds since 1970.
type Cookies = BTreeMap<String, HashMap<u64, (u64, Option<i64>)>>;

fn cookies(connection: &Connection, hasher: &RandomState) -> Option<Cookies> {
    let mut statement = connection.prepare("SELECT host_key, name, path, expires_utc FROM cookies").ok()?;
    let mut rows = statement.query([]).ok()?;
    let (mut cookies, mut count) = (Cookies::new(), 0);
    while let Some(row) = rows.next().ok()? {
        count += 1;
        if count > MAX_COOKIES {
            return None;
        }
        let bytes = |at: usize| row.get_ref(at).ok()?.as_bytes().ok().map(<[u8]>::to_vec);
        let (site, name, path) = (bytes(0)?, bytes(1)?, bytes(2)?);
        if site == NOBODY.as_bytes() {
            continue;
        }
        let expires: i64 = row.get(3).ok()?;
        let lapses = lapses_at_ms(expires);
        let site = cookies.entry(plain(&String::from_utf8_lossy(&site))).or_default();
        let (number, first) = site.entry(hasher.hash_one((name, path))).or_default();
        *number += 1;
        *first = [*first, lapses].into_iter().flatten().min();
    }
    Some(cookies)
}

/// When a cookie lapses, in milliseconds since 1970, if it does so by itself.
pub(crate) fn lapses_at_ms(expires_utc: i64) -> Option<i64> {
    (expires_utc > 0).then_some(expires_utc / 1000 - MS_FROM_1601_TO_1970)
}

/// A host's name without the dot before it. What is in no such name is left out of it.
fn plain(host: &str) -> String {
    let host = host.strip_prefix('.').unwrap_or(host);
    let letters =
        host.chars().map(|c| if c.is_ascii_graphic() && !matches!(c, '"' | '\\') { c } else { '?' });
    letters.take(MAX_SITE_BYTES).collect()
}

fn compared(before: &Cookies, after: &Cookies, soon_ms: u64) -> Sites {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let none = HashMap::new();
    let mut sites: Vec<Site> = names
        .into_iter()
        .map(|name| {
            let (old, new) = (before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none));
            let sum =
                |cookies: &HashMap<u64, (u64, Option<i64>)>| cookies.values().map(|(number, _)| number).sum();
            let missing = |from: &HashMap<u64, (u64, Option<i64>)>, digest: &u64, number: u64| {
                number.saturating_sub(from.get(digest).map_or(0, |(number, _)| *number))
            };
            let is_soon = |first: &Option<i64>| first.is_some_and(|first| first <= soon_ms as i64);
            Site {
                site: name.clone(),
                before: sum(old),
                after: sum(new),
                added: new.iter().map(|(digest, (number, _))| missing(old, digest, *number)).sum(),
                gone: old.iter().map(|(digest, (number, _))| missing(new, digest, *number)).sum(),
                expiring: new.values().filter(|(_, first)| is_soon(first)).map(|(number, _)| number).sum(),
            }
        })
        .filter(|site| site.added + site.gone + site.expiring > 0)
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.added + site.gone));
    let more = sites.len().saturating_sub(MAX_SITES) as u64;
    sites.truncate(MAX_SITES);
    Sites { sites, more, problem: None }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{db_state::Deadline, sqlite::Depth};

    const DAY_US: i64 = 86_400_000_000;
    const EPOCH_US: i64 = MS_FROM_1601_TO_1970 * 1000;

    fn database(path: &Path, rows: &[(&str, &str, i64)]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let connection = Connection::open(path).unwrap();
        connection
            .execute_batch("CREATE TABLE cookies (host_key TEXT, name TEXT, value TEXT, encrypted_value BLOB, path TEXT, expires_utc INTEGER)")
            .unwrap();
        for (host, name, expires) in rows {
            let values = rusqlite::params![host, name, "secret", "/", expires];
            connection.execute("INSERT INTO cookies VALUES (?1, ?2, ?3, x'', ?4, ?5)", values).unwrap();
        }
    }

    fn checked(before: &[(&str, &str, i64)], after: &[(&str, &str, i64)]) -> Sites {
        let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        database(&root.path().join("before/Default/Cookies"), before);
        database(&root.path().join("after/Default/Cookies"), after);
        let means = Means { depth: Depth::Quick, deadline: Deadline::NEVER, scratch: scratch.path() };
        check(&ProfileDir::open(root.path()).unwrap(), Path::new("Default/Cookies"), 7 * 86_400_000, means)
    }

    fn site(site: &str, before: u64, after: u64, added: u64, gone: u64, expiring: u64) -> Site {
        Site { site: site.to_owned(), before, after, added, gone, expiring }
    }

    #[test]
    fn cookies_come_go_and_lapse_by_site() {
        let far = EPOCH_US + 90 * DAY_US;
        let before =
            [(".a.test", "sid", far), ("a.test", "old", far), ("b.test", "x", 0), ("c.test", "same", far)];
        let after = [
            (".a.test", "sid", far),
            ("a.test", "new", far),
            ("a.test", "newer", far),
            ("c.test", "same", far),
            ("d.test", "soon", EPOCH_US + DAY_US),
            (NOBODY, "written", EPOCH_US + DAY_US),
        ];
        let sites = checked(&before, &after);
        let expected =
            [site("a.test", 2, 3, 2, 1, 0), site("b.test", 1, 0, 0, 1, 0), site("d.test", 0, 1, 1, 0, 1)];
        assert_eq!(sites, Sites { sites: expected.to_vec(), more: 0, problem: None });
        assert!(!serde_json::to_string(&sites).unwrap().contains("sid"));
    }

    #[test]
    fn what_is_no_host_is_made_harmless_and_the_answer_stays_short() {
        let long = "x".repeat(1000);
        let hosts: Vec<String> = (0..1000).map(|at| format!("{at}\u{1b}[31m\"{long}")).collect();
        let rows: Vec<(&str, &str, i64)> = hosts.iter().map(|host| (host.as_str(), "n", 0)).collect();
        let sites = checked(&[], &rows);
        assert_eq!((sites.sites.len(), sites.more), (MAX_SITES, 1000 - MAX_SITES as u64));
        assert!(
            sites
                .sites
                .iter()
                .all(|site| site.site.starts_with(|c: char| c.is_ascii_digit())
                    && !site.site.contains('\u{1b}'))
        );
        assert!(serde_json::to_vec(&sites).unwrap().len() < 60 << 10);
        assert_eq!(sites.clone().told(), Some(sites.clone()));
        let lie = Sites { sites: vec![site("a\u{1b}b", 0, 0, 0, 0, 0)], ..sites };
        assert_eq!(lie.told(), None);
    }

    #[test]
    fn one_that_is_not_there_has_no_cookies_and_one_that_is_damaged_says_so() {
        let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        database(&root.path().join("after/Cookies"), &[("a.test", "n", 0)]);
        fs::create_dir(root.path().join("before")).unwrap();
        let means = Means { depth: Depth::Quick, deadline: Deadline::NEVER, scratch: scratch.path() };
        let dir = ProfileDir::open(root.path()).unwrap();
        let sites = check(&dir, Path::new("Cookies"), 0, means);
        assert_eq!(sites.sites, [site("a.test", 0, 1, 1, 0, 0)]);
        fs::write(root.path().join("before/Cookies"), vec![7; 5000]).unwrap();
        let sites = check(&dir, Path::new("Cookies"), 0, means);
        assert!(sites.sites.is_empty() && sites.problem.unwrap().contains("before"));
    }
}
