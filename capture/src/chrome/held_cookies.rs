//! `HeldCookies` lists the cookies that a running browser has, so that a capture beside it is compared with them.
//!
//! A site that replaces a cookie makes Chrome take the old one away and set the new one. If Chrome writes between the
//! two, its database has neither, and a capture of that moment logs somebody out whom the site knows. So the browser is
//! asked for its cookies before it writes them, and once more when the capture has its moment: one that it had both
//! times must be in the database. Hosts and names are kept, until the capture is over; no value is, and nothing is
//! printed.

use std::{collections::BTreeSet, fmt, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::devtools::{DevtoolsError, Endpoint, Session};
use crate::{cookies::NOBODY, profile_dir::with_suffix};

/// How long the browser may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a capture is tried whose database lacks some.
const ATTEMPTS: u32 = 5;

/// The host and the name of each cookie.
pub(crate) type Names = BTreeSet<(String, String)>;

/// The cookies that a browser has, and the database in which they must be.
#[derive(Clone)]
pub struct HeldCookies {
    endpoint: Endpoint,
    /// Below the user-data-dir.
    pub(crate) database: PathBuf,
    names: Names,
    attempt: Attempt,
}

/// One of several attempts at a capture that has all cookies.
#[derive(Clone, Default)]
pub struct Attempt {
    number: u32,
    /// What the one before lacked.
    before: Names,
    lacking: Arc<Mutex<Names>>,
}

/// The cookies that the browser has.
pub(super) fn names(session: &mut Session<'_>) -> Result<Names, DevtoolsError> {
    let told = session.call("Storage.getCookies", &json!({}))?;
    let text = |cookie: &Value, field: &str| cookie[field].as_str().map(str::to_owned);
    let cookies = told["cookies"].as_array().into_iter().flatten();
    let names = cookies.filter_map(|cookie| Some((text(cookie, "domain")?, text(cookie, "name")?)));
    // A name that is no text is told otherwise than it is written.
    let is_text = |name: &str| !name.contains(char::REPLACEMENT_CHARACTER);
    Ok(names.filter(|(host, name)| host != NOBODY && is_text(name)).collect())
}

impl HeldCookies {
    pub(super) fn new(endpoint: Endpoint, database: PathBuf, names: Names, attempt: Attempt) -> Self {
        Self { endpoint, database, names, attempt }
    }

    /// Those that the browser still has; none if it cannot be asked any more.
    pub(crate) fn still(&self) -> Names {
        let mut still = Names::new();
        if !self.names.is_empty() {
            let now = self.endpoint.session(PATIENCE).and_then(|mut session| names(&mut session));
            match now {
                Ok(now) => still = self.names.intersection(&now).cloned().collect(),
                Err(error) => {
                    tracing::warn!(%error, "the cookies of a capture were not compared with the browser's")
                }
            }
        }
        still
    }

    /// The files that must be at hand to see whether they are there.
    pub(crate) fn files(&self) -> [PathBuf; 3] {
        let database = &self.database;
        [database.clone(), with_suffix(database, "-journal"), with_suffix(database, "-wal")]
    }

    /// Notes which of them the capture lacks, and says whether it is worth another attempt.
    pub(crate) fn note(&self, lacking: Names) -> bool {
        *self.attempt.lacking.lock() = lacking;
        self.attempt.is_worth_another()
    }
}

impl Attempt {
    /// What is lacking for a second time the browser does not write at all.
    fn is_worth_another(&self) -> bool {
        let lacking = self.lacking.lock();
        self.number + 1 < ATTEMPTS && !lacking.is_subset(&self.before)
    }

    /// The next attempt, if this one was given up for it.
    pub fn next(&self) -> Option<Self> {
        let before = self.lacking.lock().clone();
        self.is_worth_another().then(|| Self { number: self.number + 1, before, ..Self::default() })
    }

    /// What there is to say about the last one.
    pub fn remark(&self) -> Option<String> {
        let (cookies, are, them) = match self.lacking.lock().len() {
            0 => return None,
            1 => ("1 cookie".to_owned(), "is", "it"),
            more => (format!("{more} cookies"), "are", "them"),
        };
        Some(format!(
            "{cookies} of the browser {are} not in its database, though it was asked to write {them}: a site that knows \
             nobody without {them} is logged out in this snapshot; a commit later may have {them}"
        ))
    }
}

impl fmt::Debug for HeldCookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldCookies({} of {})", self.names.len(), self.endpoint)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attempt({}, {} lacking)", self.number, self.lacking.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Names {
        names.iter().map(|name| ("a.test".to_owned(), (*name).to_owned())).collect()
    }

    /// The attempt after `attempt`, if there is one after it has lacked these.
    fn lacked(attempt: &Attempt, lacking: &[&str]) -> Option<Attempt> {
        *attempt.lacking.lock() = names(lacking);
        attempt.next()
    }

    #[test]
    fn a_capture_that_has_all_needs_no_other_attempt() {
        let first = Attempt::default();
        assert!(lacked(&first, &[]).is_none());
        assert_eq!(first.remark(), None);
    }

    #[test]
    fn what_is_lacking_twice_is_told_and_not_tried_a_third_time() {
        let first = Attempt::default();
        let second = lacked(&first, &["sid", "other"]).unwrap();
        assert!(lacked(&second, &["sid"]).is_none());
        assert!(second.remark().unwrap().starts_with("1 cookie of the browser is not in its database"));
    }

    #[test]
    fn attempts_come_to_an_end_though_each_lacks_another_cookie() {
        let mut attempt = Attempt::default();
        let mut made = 1;
        while let Some(next) = lacked(&attempt, &[&format!("cookie-{made}")]) {
            (attempt, made) = (next, made + 1);
        }
        assert_eq!(made, ATTEMPTS);
        assert!(attempt.remark().is_some());
        assert!(!format!("{attempt:?}").contains("cookie-"), "no name is printed");
    }
}
