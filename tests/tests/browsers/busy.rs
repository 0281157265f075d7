//! `Busy` is a page that writes to every place a site can, without pause, and `Reader` finds what of it a snapshot has.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rusqlite::Connection;
use serde_json::Value;
use tests::{
    binary::Host,
    chromium::{Chromium, Devtools, Page, Site, TURNS},
    mount_fixture::{ALICE, MountFixture},
};

const PATIENCE: Duration = Duration::from_secs(30);
const WORDS: &str = include_str!("busy_words.js");
/// Writes to every place a site can, without pause.
const BUSY: &str = include_str!("busy.js");
/// Finds the newest number in each of them.
const FOUND: &str = include_str!("busy_found.js");

/// How long Chromium takes at most to write what it has acknowledged, in seconds.
const LOCAL_STORAGE_LAGS: f64 = 60.0;
const CACHE_STORAGE_LAGS: f64 = 30.0;
/// Every so many numbers the page visits another address.
const VISITS: u64 = 16;

/// Which number was stored, and when the page was told so, in seconds. Those that nothing asks for any more are forgotten.
#[derive(Default)]
struct Acknowledged(Vec<(f64, u64)>);

impl Acknowledged {
    fn add(&mut self, log: &Value) {
        let told = |entry: &Value| (entry[0].as_f64().unwrap() / 1000.0, entry[1].as_u64().unwrap());
        self.0.extend(log.as_array().unwrap().iter().map(told));
        let oldest = self.last() - 2.0 * LOCAL_STORAGE_LAGS;
        let kept = self.0.partition_point(|(at, _)| *at < oldest).saturating_sub(1);
        self.0.drain(..kept);
    }

    /// When the last one was acknowledged.
    fn last(&self) -> f64 {
        self.0.last().map_or(0.0, |(at, _)| *at)
    }

    /// The newest that was acknowledged by then.
    fn newest(&self, by: f64) -> u64 {
        self.0.iter().rfind(|(at, _)| *at <= by).map_or(0, |(_, number)| *number)
    }
}

/// What a snapshot must have that is taken now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Due {
    /// All that was acknowledged.
    pub rows: u64,
    cookies: u64,
    /// Those before this one another browser has set, which may have been killed.
    first_cookie: u64,
    /// Whether whoever loads it lets session cookies last.
    keeps_session_cookies: bool,
    local_storage: u64,
    cache_storage: u64,
    /// The newest visit that the browser has written, whenever that was.
    visited: u64,
}

impl Due {
    /// The same with more rows.
    pub fn with_rows(self, rows: u64) -> Self {
        Self { rows, ..self }
    }
}

/// The page, in a browser on a mount.
pub struct Busy<'a> {
    page: Page<'a>,
    /// Where its browser runs.
    profile: PathBuf,
    all: Acknowledged,
    cached: Acknowledged,
    /// The first number that was acknowledged.
    first: Option<u64>,
    /// When each row was begun, in seconds, and how many milliseconds it took.
    pub rows: Vec<(f64, f64)>,
    /// How many seconds the history was behind at most.
    pub history_was_behind: f64,
}

impl<'a> Busy<'a> {
    /// Opens the page in the browser of a profile.
    pub fn start(devtools: &'a mut Devtools, site: &Site, profile: &Path) -> Self {
        let mut page = devtools.open(&site.url());
        page.listen();
        page.evaluate(WORDS);
        assert_eq!(page.evaluate(BUSY), "busy");
        let (all, cached) = (Acknowledged::default(), Acknowledged::default());
        let (profile, rows) = (profile.to_owned(), Vec::new());
        Self { page, profile, all, cached, first: None, rows, history_was_behind: 0.0 }
    }

    /// What the page was told by now. It has noticed nothing else.
    #[track_caller]
    pub fn due(&mut self) -> Due {
        let noted = self.page.evaluate("noted()");
        assert_eq!(noted["failures"], Value::Array(Vec::new()), "the page has noticed");
        assert_eq!(self.page.complaints(), Vec::<Value>::new(), "its console tells");
        self.all.add(&noted["log"]);
        self.first = self.first.or_else(|| self.all.0.first().map(|(_, number)| *number));
        self.cached.add(&noted["cache_log"]);
        let row = |row: &Value| (row[0].as_f64().unwrap() / 1000.0, row[1].as_f64().unwrap());
        self.rows.extend(noted["row_times"].as_array().unwrap().iter().map(row));
        // How late Chromium writes its history depends on the machine: what it has written is due.
        let visited = written(&self.profile);
        let unwritten = self.all.0.iter().find(|(_, number)| *number >= visited + VISITS);
        let behind = unwritten.map_or(0.0, |(at, _)| self.all.last() - at);
        self.history_was_behind = self.history_was_behind.max(behind);
        let by = |lag: f64| self.all.last() - lag;
        Due {
            rows: self.all.newest(by(0.0)),
            cookies: self.all.newest(by(0.0)),
            first_cookie: self.first.unwrap_or(1),
            keeps_session_cookies: false,
            local_storage: self.all.newest(by(LOCAL_STORAGE_LAGS)),
            cache_storage: self.cached.newest(by(CACHE_STORAGE_LAGS)),
            visited,
        }
    }

    /// What is due once the page has written some more than `before`.
    #[track_caller]
    pub fn goes_on(&mut self, before: Due) -> Due {
        loop {
            let due = self.due();
            if due.rows > before.rows + 8 {
                return due;
            }
        }
    }
}

/// Now, in seconds, as pages count them.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Hosts that have nothing of a profile, and load a snapshot of it in a browser of their own.
pub struct Reader<'a> {
    fixture: &'a MountFixture,
    store: PathBuf,
    site: &'a Site,
}

impl<'a> Reader<'a> {
    pub fn new(fixture: &'a MountFixture, site: &'a Site) -> Self {
        Self { fixture, store: fixture.path("store"), site }
    }

    /// They load from another store than the fixture's.
    pub fn from(self, store: &Path) -> Self {
        Self { store: store.to_owned(), ..self }
    }

    /// Fails unless the snapshot has all that is due.
    #[track_caller]
    pub fn assert_has(&self, snapshot: &str, due: Due) {
        let home = self.fixture.path(&format!("reader-{}", tests::unique_name()));
        let host = Host::local(&home, &self.store)
            .with("PSTORE_SESSION_DIR", home.join("sessions").to_str().unwrap())
            .with("PSTORE_MODES", "cold,hot")
            .with("PSTORE_SESSION_COOKIES", "keep");
        let place = home.join("mounted");
        fs::create_dir(&place).unwrap();
        let mounted = place.to_str().unwrap();
        let told = host.succeed(["mount", "--fork", &format!("{ALICE}@{snapshot}"), mounted]);
        // In the middle of a transaction they are left as they are, and Chromium drops them.
        let keeps_session_cookies = !told["warnings"].to_string().contains("are not kept");
        assert_in(&place, &home, self.site, Due { keeps_session_cookies, ..due });
        discard(&host, &place);
        fs::remove_dir_all(&home).unwrap();
    }
}

/// Unmounts what a browser was killed on. Some of its processes outlive it for a moment.
#[track_caller]
pub fn discard(host: &Host, place: &Path) {
    let began = Instant::now();
    loop {
        let ended = host.run(["unmount", place.to_str().unwrap(), "--discard"]);
        if ended.code != Some(32) || began.elapsed() > PATIENCE {
            assert_eq!(ended.code, Some(0), "{ended:#?}");
            return;
        }
    }
}

/// Fails unless all that is due is in the profile.
#[track_caller]
pub fn assert_in(profile: &Path, scratch: &Path, site: &Site, due: Due) {
    let visited = newest_visit(profile, scratch).unwrap();
    assert!(visited >= due.visited, "{} was in the history; {visited} is the newest there now", due.visited);
    let chromium = Chromium::start(profile);
    let mut devtools = chromium.devtools();
    let names = if due.keeps_session_cookies { &["counted", "fleeting"][..] } else { &["counted"] };
    let cookies = devtools.cookies();
    // Of each name the last that was acknowledged, or a later one.
    let oldest = (due.cookies + 1).saturating_sub(TURNS);
    for number in oldest.max(due.first_cookie).max(1)..=due.cookies {
        for name in names.iter().map(|name| format!("{name}-{}", number % TURNS)) {
            let found = cookies.get(&name).map(|value| value.parse::<u64>().unwrap());
            assert!(found >= Some(number), "{name}: {number} was acknowledged; {found:?} is there");
        }
    }
    let mut page = devtools.open(&site.url());
    page.evaluate(WORDS);
    let found = page.evaluate(FOUND);
    let number = |place: &str| found[place].as_i64().unwrap_or(-1);
    assert!(number("rows") >= due.rows as i64, "{due:?}: {found:#}");
    assert!(number("local_storage") >= due.local_storage as i64, "{due:?}: {found:#}");
    assert!(number("cache_storage") >= due.cache_storage as i64, "{due:?}: {found:#}");
    assert_eq!(found["service_worker"], true, "{found:#}");
    chromium.close();
}

/// The newest number that the page has visited, as the history says that a browser would find.
fn newest_visit(profile: &Path, scratch: &Path) -> rusqlite::Result<u64> {
    let copy: PathBuf = scratch.join("History");
    for (name, may_lack) in [("History", false), ("History-journal", true)] {
        let to = scratch.join(name);
        let _ = fs::remove_file(&to);
        let copied = fs::copy(profile.join("Default").join(name), to);
        assert!(may_lack || copied.is_ok(), "{copied:?}");
    }
    let query = "SELECT max(CAST(substr(url, instr(url, '?visited=') + 9) AS INTEGER)) FROM urls \
                 WHERE instr(url, '?visited=') > 0";
    let found = Connection::open(copy)?.query_row(query, [], |row| row.get::<_, Option<i64>>(0))?;
    Ok(found.unwrap_or(0) as u64)
}

/// The newest number that the history has of a browser that runs.
fn written(profile: &Path) -> u64 {
    let files = ["History", "History-journal"].map(|name| profile.join("Default").join(name));
    let stamps = || {
        files
            .each_ref()
            .map(|file| fs::metadata(file).ok().map(|found| (found.modified().unwrap(), found.len())))
    };
    let scratch = tempfile::tempdir().unwrap();
    loop {
        let before = stamps();
        if before[0].is_none() {
            return 0;
        }
        let found = newest_visit(profile, scratch.path());
        // Else the copies are of different moments.
        if before == stamps() {
            return found.unwrap_or(0); // It has no tables yet.
        }
    }
}

/// How many commits are made beside a page that never pauses.
pub fn commits(unless_told: u64) -> u64 {
    env::var("PSTORE_HOT_COMMITS").map_or(unless_told, |text| text.parse().unwrap())
}

/// The host of a fixture, which mounts Alice's profile of the browser that is installed.
#[track_caller]
pub fn mount(fixture: &MountFixture, host: &Host) -> Value {
    let place = fixture.mountpoint.to_str().unwrap();
    host.succeed(["mount", ALICE, place, "--chrome-major", &Chromium::major()])
}
