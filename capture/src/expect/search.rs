//! `search` looks, within a cell, for the cookies and origins that are expected.
//!
//! It reports whether a cookie exists and when it lapses, never its value.

use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::{
    change::{
        cookie_sites::{MAX_COOKIES, lapses_at_ms},
        origins,
    },
    db_state::{DbState, Deadline, brief},
    profile_dir::ProfileDir,
    sqlite::{self, Means},
};

/// The finding about one cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoughtCookie {
    /// And has not lapsed.
    pub is_there: bool,
    /// Whether one is there that has.
    pub has_lapsed: bool,
    /// When the last that is there lapses; `None` if it goes with the browser's session.
    pub lapses_at_ms: Option<u64>,
}

/// The findings in one database of cookies, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoughtCookies {
    pub cookies: Vec<SoughtCookie>,
    /// Why it could not be read.
    pub problem: Option<String>,
}

/// Whether each origin keeps something in one Local Storage, in the order in which they were named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoughtOrigins {
    pub are_there: Vec<bool>,
    pub problem: Option<String>,
}

impl SoughtCookies {
    pub(crate) fn unread(count: usize, why: &str) -> Self {
        Self { cookies: vec![SoughtCookie::default(); count], problem: Some(brief(why)) }
    }

    /// The same as somebody tells it who is not trusted; `None` if it makes no sense.
    pub(crate) fn told(self, count: usize) -> Option<Self> {
        (self.cookies.len() == count).then(|| Self { problem: self.problem.as_deref().map(brief), ..self })
    }
}

impl SoughtOrigins {
    pub(crate) fn unread(count: usize, why: &str) -> Self {
        Self { are_there: vec![false; count], problem: Some(brief(why)) }
    }

    /// The same as somebody tells it who is not trusted; `None` if it makes no sense.
    pub(crate) fn told(self, count: usize) -> Option<Self> {
        (self.are_there.len() == count).then(|| Self { problem: self.problem.as_deref().map(brief), ..self })
    }
}

/// Looks for cookies by host and name; a cookie that has lapsed by `now_ms` is not there.
pub(crate) fn cookies(
    dir: &ProfileDir,
    path: &Path,
    (now_ms, names): (u64, &[(String, String)]),
    means: Means<'_>,
) -> SoughtCookies {
    let (checked, found) = sqlite::check(dir, path, means, |connection| find(connection, now_ms, names));
    match (found, checked.state) {
        (Some(cookies), _) => SoughtCookies { cookies, problem: None },
        (None, DbState::Ok) => SoughtCookies::unread(names.len(), "it has no cookies that could be read"),
        (None, DbState::Damaged(problems)) => SoughtCookies::unread(names.len(), &problems.join("; ")),
        (None, DbState::Unchecked(reason)) => SoughtCookies::unread(names.len(), &reason),
    }
}

fn find(connection: &Connection, now_ms: u64, names: &[(String, String)]) -> Option<Vec<SoughtCookie>> {
    let mut statement = connection.prepare("SELECT host_key, name, expires_utc FROM cookies").ok()?;
    let mut rows = statement.query([]).ok()?;
    let mut found = vec![SoughtCookie::default(); names.len()];
    let mut count = 0;
    while let Some(row) = rows.next().ok()? {
        count += 1;
        if count > MAX_COOKIES {
            return None;
        }
        let bytes = |at: usize| row.get_ref(at).ok()?.as_bytes().ok();
        let (host, name) = (undotted(bytes(0)?), bytes(1)?);
        let lapses = lapses_at_ms(row.get(2).ok()?);
        let sought = names.iter().zip(&mut found);
        let sought = sought.filter(|(of, _)| undotted(of.0.as_bytes()) == host && of.1.as_bytes() == name);
        sought.for_each(|(_, found)| note(found, lapses, now_ms));
    }
    Some(found)
}

fn note(found: &mut SoughtCookie, lapses: Option<i64>, now_ms: u64) {
    if lapses.is_some_and(|lapses| lapses <= now_ms as i64) {
        found.has_lapsed = true;
        return;
    }
    let lapses = lapses.map(|lapses| lapses as u64);
    found.lapses_at_ms = match found.is_there {
        true => found.lapses_at_ms.zip(lapses).map(|(one, other)| one.max(other)),
        false => lapses,
    };
    found.is_there = true;
}

/// A cookie of one host and one of its domain are told apart by a dot, which nobody thinks of.
fn undotted(host: &[u8]) -> &[u8] {
    host.strip_prefix(b".").unwrap_or(host)
}

/// Looks for origins that keep something in the Local Storage at `path`.
pub(crate) fn origins(dir: &ProfileDir, path: &Path, names: &[String], deadline: Deadline) -> SoughtOrigins {
    let wanted = |origin: &[u8]| names.iter().any(|name| name.as_bytes() == origin);
    match origins::origins(dir, path, deadline, wanted) {
        Ok(found) => SoughtOrigins {
            are_there: names.iter().map(|name| found.contains(name.as_bytes())).collect(),
            problem: None,
        },
        Err(why) => SoughtOrigins::unread(names.len(), &why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{leveldb::writer, sqlite::Depth};

    const NOW_MS: u64 = 1_000_000_000_000;
    const DAY_MS: u64 = 86_400_000;

    /// As Chrome counts: microseconds since 1601.
    fn chrome(ms: u64) -> i64 {
        (ms as i64 + 11_644_473_600_000) * 1000
    }

    #[test]
    fn a_cookie_is_there_until_it_lapses() {
        let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let connection = Connection::open(root.path().join("Cookies")).unwrap();
        let table =
            "CREATE TABLE cookies (host_key TEXT, name TEXT, value TEXT, path TEXT, expires_utc INTEGER)";
        connection.execute_batch(table).unwrap();
        let (soon, late) = (NOW_MS + DAY_MS, NOW_MS + 30 * DAY_MS);
        for (host, name, path, expires) in [
            (".a.test", "sid", "/", chrome(soon)),
            ("a.test", "sid", "/app", chrome(late)),
            ("b.test", "session", "/", 0),
            ("b.test", "lapsed", "/", chrome(NOW_MS)),
        ] {
            let values = rusqlite::params![host, name, "secret", path, expires];
            connection.execute("INSERT INTO cookies VALUES (?1, ?2, ?3, ?4, ?5)", values).unwrap();
        }
        drop(connection);
        let names = [("a.test", "sid"), (".b.test", "session"), ("b.test", "lapsed"), ("a.test", "other")];
        let names: Vec<(String, String)> =
            names.iter().map(|(host, name)| ((*host).to_owned(), (*name).to_owned())).collect();
        let means = Means { depth: Depth::Quick, deadline: Deadline::NEVER, scratch: scratch.path() };
        let dir = ProfileDir::open(root.path()).unwrap();
        let found = cookies(&dir, Path::new("Cookies"), (NOW_MS, &names), means);
        let there = |lapses_at_ms| SoughtCookie { is_there: true, has_lapsed: false, lapses_at_ms };
        let lapsed = SoughtCookie { has_lapsed: true, ..SoughtCookie::default() };
        assert_eq!(found.cookies, [there(Some(late)), there(None), lapsed, SoughtCookie::default()]);
        assert!(!serde_json::to_string(&found).unwrap().contains("secret"));
        assert_eq!(found.clone().told(4), Some(found.clone()));
        assert_eq!(found.told(3), None);
        let none = cookies(&dir, Path::new("gone"), (NOW_MS, &names), means);
        assert!(none.problem.is_some() && none.cookies.iter().all(|cookie| !cookie.is_there), "{none:?}");
    }

    #[test]
    fn an_origin_is_there_while_it_keeps_something() {
        let root = tempfile::tempdir().unwrap();
        let keys = [("_https://a.test\0k", 1, true), ("_https://b.test\0k", 2, true)];
        writer::keyed(root.path(), true, &keys, &[("_https://b.test\0k", 3, false)]);
        let names = ["https://a.test", "https://b.test", "https://a.test:8443"].map(str::to_owned);
        let dir = ProfileDir::open(root.path()).unwrap();
        let found = origins(&dir, Path::new(""), &names, Deadline::NEVER);
        assert_eq!((found.are_there, found.problem), (vec![true, false, false], None));
        assert_eq!(origins(&dir, Path::new("gone"), &names, Deadline::NEVER).are_there, [false; 3]);
    }
}
