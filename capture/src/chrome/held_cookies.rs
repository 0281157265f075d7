//! `HeldCookies` asks a running browser through DevTools which cookies it has, and finds those that a capture beside it
//! lacks. It restores none: a capture that lacks some is made again, and the last attempt says what is missing.
//!
//! A site that replaces a cookie makes Chrome take the old one away and set the new one. If Chrome writes between the
//! two, its database has neither, and a capture of that moment logs somebody out whom the site knows. So the browser is
//! asked for its cookies before it writes them, and once more when the capture has its moment: one that it had both
//! times must be in the database. Values are encrypted there. That they are those that the browser had is known if the
//! database has a cookie that was set after the browser had told its cookies.
//!
//! Hosts and names are kept, until the capture is over; no value is, and nothing is printed.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::devtools::{DevtoolsError, Endpoint, Session};
use crate::{cookies::NOBODY, profile_dir::with_suffix};

/// How long the browser may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a capture is tried whose database lacks some.
const ATTEMPTS: u32 = 10;

/// The host and the name of each cookie.
pub(crate) type Names = BTreeSet<(String, String)>;

/// What a browser tells of its cookies.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Told {
    names: Names,
    state: CookieState,
    /// The names of the cookies that it has of [`NOBODY`].
    pub(super) nobodys: Vec<String>,
}

/// The cookies that a browser had when it was made to write them.
pub(super) struct Written {
    pub(super) told: Told,
    /// The names of cookies of [`NOBODY`]: a database that has one of them was written after that.
    pub(super) proofs: [String; 2],
}

/// Stands for all cookies of a browser, with their values, which it does not tell: two are alike if the cookies are. It
/// means something within this process alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieState(u64);

/// The cookies that a browser has, and the database in which they must be.
#[derive(Clone)]
pub struct HeldCookies {
    endpoint: Endpoint,
    /// Below the user-data-dir.
    pub(crate) database: PathBuf,
    written: Arc<Written>,
    attempt: Attempt,
}

/// What the browser has when a capture has its moment.
pub(crate) struct Present {
    /// The cookies that must be in the database.
    pub(crate) sought: Names,
    state: Option<CookieState>,
}

/// The cookies that a browser does not write: a capture has lacked them, however often it was tried.
#[derive(Clone, Default)]
pub struct Unwritten(Arc<Mutex<Names>>);

/// One of several attempts at a capture that has all cookies.
#[derive(Clone, Default)]
pub struct Attempt {
    number: u32,
    /// What all before this one lacked.
    before: Option<Names>,
    found: Arc<Mutex<Found>>,
    unwritten: Unwritten,
}

/// What an attempt has come to.
#[derive(Clone, Default)]
struct Found {
    lacking: Names,
    state: Option<CookieState>,
}

/// Stands among the cookies that a capture lacks for all changes that the browser may not have written.
fn newest() -> (String, String) {
    (NOBODY.to_owned(), String::new())
}

/// The cookies that the browser has.
pub(super) fn told(session: &mut Session<'_>) -> Result<Told, DevtoolsError> {
    let told = session.call("Storage.getCookies", &json!({}))?;
    let cookies = told["cookies"].as_array().into_iter().flatten();
    let (nobodys, cookies): (Vec<&Value>, Vec<&Value>) =
        cookies.partition(|cookie| cookie["domain"] == NOBODY);
    let text = |cookie: &Value, field: &str| cookie[field].as_str().map(str::to_owned);
    let names = cookies.iter().filter_map(|cookie| Some((text(cookie, "domain")?, text(cookie, "name")?)));
    // A name that is no text is told otherwise than it is written.
    let is_text = |name: &str| !name.contains(char::REPLACEMENT_CHARACTER);
    Ok(Told {
        names: names.filter(|(_, name)| is_text(name)).collect(),
        state: CookieState::of(&cookies),
        nobodys: nobodys.into_iter().filter_map(|cookie| text(cookie, "name")).collect(),
    })
}

/// The cookies that the browser has now.
pub(super) fn told_now(endpoint: &Endpoint) -> Result<Told, DevtoolsError> {
    told(&mut endpoint.session(PATIENCE)?)
}

impl Told {
    pub(super) fn state(&self) -> CookieState {
        self.state
    }
}

impl CookieState {
    fn of(cookies: &[&Value]) -> Self {
        // Nobody can choose cookies of which two sets are told as the same one.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let mut cookies: Vec<String> = cookies.iter().map(ToString::to_string).collect();
        cookies.sort_unstable();
        Self(KEYS.hash_one(cookies))
    }
}

impl HeldCookies {
    pub(super) fn new(endpoint: Endpoint, database: PathBuf, written: Written, attempt: Attempt) -> Self {
        Self { endpoint, database, written: Arc::new(written), attempt }
    }

    /// Asks the browser once more. If it cannot be asked any more, no cookie of it must be there.
    pub(crate) fn present(&self) -> Present {
        let Written { told, proofs } = &*self.written;
        let mut sought: Names = proofs.iter().map(|name| (NOBODY.to_owned(), name.clone())).collect();
        let mut state = None;
        match told_now(&self.endpoint) {
            Ok(now) => {
                state = Some(now.state).filter(|state| *state == told.state);
                sought.extend(told.names.intersection(&now.names).cloned());
            }
            Err(error) => {
                tracing::warn!(%error, "the cookies of a capture were not compared with the browser's")
            }
        }
        Present { sought, state }
    }

    /// The files that must be at hand to see whether they are there.
    pub(crate) fn files(&self) -> [PathBuf; 3] {
        files(&self.database)
    }

    /// Notes which of the cookies the capture lacks, if that could be seen, and says whether it is worth another attempt.
    pub(crate) fn note(&self, present: &Present, lacking: Option<Names>) -> bool {
        let mut found = Found::default();
        if let Some(all) = lacking {
            let (proofs, mut lacking): (Names, Names) = all.into_iter().partition(|(host, _)| host == NOBODY);
            if proofs.len() == self.written.proofs.len() {
                lacking.insert(newest());
            }
            found = Found { state: present.state.filter(|_| lacking.is_empty()), lacking };
            self.attempt.learn(&found.lacking);
        }
        *self.attempt.found.lock() = found;
        self.attempt.is_worth_another()
    }
}

/// A database of cookies, and what belongs to it.
pub(super) fn files(database: &Path) -> [PathBuf; 3] {
    [database.to_owned(), with_suffix(database, "-journal"), with_suffix(database, "-wal")]
}

impl Attempt {
    /// The first one, at a capture of a browser that is known not to write some cookies.
    pub fn first(unwritten: &Unwritten) -> Self {
        Self { unwritten: unwritten.clone(), ..Self::default() }
    }

    /// What the last attempt lacks, and all before it, the browser does not write. What this one has, it does.
    fn learn(&self, lacking: &Names) {
        let mut unwritten = self.unwritten.0.lock();
        unwritten.retain(|cookie| lacking.contains(cookie));
        if self.number + 1 == ATTEMPTS {
            unwritten.extend(self.lacked_by_all(lacking));
        }
    }

    /// What this one lacks, and all before it.
    fn lacked_by_all(&self, lacking: &Names) -> Names {
        let is_lacked =
            |cookie: &&(String, String)| self.before.as_ref().is_none_or(|before| before.contains(*cookie));
        lacking.iter().filter(is_lacked).cloned().collect()
    }

    fn is_worth_another(&self) -> bool {
        self.number + 1 < ATTEMPTS && !self.found.lock().lacking.is_subset(&self.unwritten.0.lock())
    }

    /// The next attempt, if this one was given up for it.
    pub fn next(&self) -> Option<Self> {
        let before = Some(self.lacked_by_all(&self.found.lock().lacking));
        let (number, unwritten) = (self.number + 1, self.unwritten.clone());
        self.is_worth_another().then(|| Self { number, before, unwritten, ..Self::default() })
    }

    /// The cookies of the capture, if they are the same as those of the browser.
    pub fn state(&self) -> Option<CookieState> {
        self.found.lock().state
    }

    /// What there is to say about the last one.
    pub fn remark(&self) -> Option<String> {
        let lacking = &self.found.lock().lacking;
        let (cookies, are, them) = match lacking.iter().filter(|cookie| **cookie != newest()).count() {
            0 if lacking.is_empty() => return None,
            0 => {
                return Some(
                    "cookies that were changed in the last half minute may have the values before, since the browser had \
                     not written them yet, though it was asked to; a commit later may have them"
                        .to_owned(),
                );
            }
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
        write!(f, "HeldCookies({} of {})", self.written.told.names.len(), self.endpoint)
    }
}

impl fmt::Debug for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unwritten({})", self.0.lock().len())
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attempt({}, {} lacking)", self.number, self.found.lock().lacking.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Names {
        names.iter().map(|name| ("a.test".to_owned(), (*name).to_owned())).collect()
    }

    /// A capture of a browser that had one cookie and was made to write.
    fn held(attempt: &Attempt) -> HeldCookies {
        let told = Told { names: names(&["sid"]), state: CookieState::of(&[]), nobodys: Vec::new() };
        let written = Written { told, proofs: ["one", "two"].map(str::to_owned) };
        HeldCookies::new(Endpoint::nobodys(), "Default/Cookies".into(), written, attempt.clone())
    }

    /// The attempt after `attempt`, if there is one after it has lacked these.
    fn after(attempt: &Attempt, lacking: Option<Names>) -> Option<Attempt> {
        let present = Present { sought: Names::new(), state: Some(CookieState::of(&[])) };
        let is_worth_another = held(attempt).note(&present, lacking);
        let next = attempt.next();
        assert_eq!(next.is_some(), is_worth_another);
        next
    }

    fn lacked(attempt: &Attempt, lacking: &[&str]) -> Option<Attempt> {
        after(attempt, Some(names(lacking)))
    }

    #[test]
    fn a_capture_that_has_all_needs_no_other_attempt() {
        let first = Attempt::default();
        assert!(lacked(&first, &[]).is_none());
        assert_eq!((first.remark(), first.state()), (None, Some(CookieState::of(&[]))));
    }

    #[test]
    fn what_every_attempt_lacks_is_told_and_no_reason_to_try_again_in_later_captures() {
        let unwritten = Unwritten::default();
        let (mut attempt, mut made) = (Attempt::first(&unwritten), 1);
        // One of them is there in between.
        while let Some(next) = lacked(&attempt, if made == 3 { &["sid"] } else { &["sid", "other"] }) {
            (attempt, made) = (next, made + 1);
        }
        assert_eq!(made, ATTEMPTS);
        assert!(attempt.remark().unwrap().starts_with("2 cookies of the browser are not in its database"));
        let later = Attempt::first(&unwritten);
        assert!(lacked(&later, &["sid"]).is_none());
        assert!(later.remark().is_some());
        let later = Attempt::first(&unwritten);
        assert!(lacked(&later, &["sid", "other"]).is_some(), "the browser writes the other");
        // It was there after all.
        assert!(lacked(&Attempt::first(&unwritten), &[]).is_none());
        assert!(lacked(&Attempt::first(&unwritten), &["sid"]).is_some());
        for printed in [format!("{attempt:?}"), format!("{unwritten:?}"), format!("{:?}", held(&attempt))] {
            assert!(!printed.contains("sid"), "no name is printed");
        }
    }

    #[test]
    fn changes_that_the_browser_may_not_have_written_are_worth_another_attempt() {
        let proofs = |names: &[&str]| -> Option<Names> {
            Some(names.iter().map(|name| (NOBODY.to_owned(), (*name).to_owned())).collect())
        };
        let mut attempt = Attempt::default();
        while let Some(next) = after(&attempt, proofs(&["one", "two"])) {
            attempt = next;
        }
        assert_eq!((attempt.number, attempt.state()), (ATTEMPTS - 1, None));
        assert!(attempt.remark().unwrap().contains("may have the values before"));
        // Chrome may write while it replaces one of the two.
        let attempt = Attempt::default();
        assert!(after(&attempt, proofs(&["one"])).is_none());
        assert_eq!((attempt.state(), attempt.remark()), (Some(CookieState::of(&[])), None));
        // A database that cannot be read is told by others.
        assert!(after(&attempt, None).is_none());
        assert_eq!((attempt.state(), attempt.remark()), (None, None));
    }

    #[test]
    fn two_sets_of_cookies_are_alike_whatever_their_order() {
        let [one, other] = ["one", "other"].map(|value| json!({ "name": "sid", "value": value }));
        assert_eq!(CookieState::of(&[&one, &other]), CookieState::of(&[&other, &one]));
        assert_ne!(CookieState::of(&[&one]), CookieState::of(&[&other]));
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
