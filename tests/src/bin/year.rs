//! `year` plays a year of one busy tenant in minutes, and tells the costs of a snapshot, a commit, a mount, a
//! list and a collection in its first week and in its last.
//!
//! `year [PROFILES [SNAPSHOTS [DAYS]]]` runs the real code on a bucket in memory whose clock goes on
//! by an hour at a time. The profiles are captured in turn, every eighth time by the commit of a
//! mount and every tenth by a host that has never seen the store; the newest five snapshots are kept
//! after each, and garbage is collected every hour. Answers take a millisecond
//! in the weeks that are told about, so that requests which are made side by side count as one round trip.
//! Ends with 1 if what must hold does not.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use store::{
    bucket::{Bucket, DelayBucket, MemoryBucket, Recorder, RetryBucket, RetryPolicy},
    catalog::lock::Terms,
    content::ingest::{Cutter, Files},
    format::tree::Kind,
    ops::{
        gc::{Collector, Options},
        read::{open::Opened, resolve},
        retention::{self, Keep, Limits, Policy},
        write::commit::whole::{self as commit, Base, Tree},
    },
    progress::Silent,
};
use tests::{
    store_fixture::{StoreFixture, actor, commit_request},
    tree::noise,
};

const HOUR: Duration = Duration::from_secs(3600);
const ROUND_TRIP: Duration = Duration::from_millis(1);
const KEEP: u64 = 5;
/// Of a directory, besides the one that changes.
const FILES: u64 = 6;
/// Objects that a tenant may have beside three for each snapshot and pack: those that ended within a day.
const OBJECTS_BESIDE: u64 = 600;

/// The weeks that are told about, by their last day, in a year of 365. In a shorter one they come
/// sooner, and the second may be the first.
const WEEKS: [(&str, u64); 4] = [("week 1", 7), ("month 1", 30), ("month 6", 182), ("month 12", 365)];

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    times: u64,
    requests: u64,
    rounds: u64,
    bytes: u64,
}

struct Year {
    memory: Arc<MemoryBucket>,
    delay: Arc<DelayBucket>,
    recorder: Arc<Recorder>,
    bucket: Arc<dyn Bucket>,
    folder: tempfile::TempDir,
    costs: BTreeMap<(&'static str, &'static str), Cost>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let numbers: Vec<u64> = env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let number = |at: usize, otherwise| numbers.get(at).copied().unwrap_or(otherwise);
    let (profiles, snapshots, days) = (number(0, 20), number(1, 20_000), number(2, 365));
    assert!(days >= 14, "it takes two weeks to compare the last with the first");
    let started = Instant::now();
    let mut year = Year::begin();
    let home = year.host(Some("home")).await;
    let mut taken = 0;
    for hour in 0..days * 24 {
        year.memory.advance(HOUR);
        let week = WEEKS.iter().find(|(_, last)| {
            let last = last_day(*last, days);
            (last.saturating_sub(6) * 24..=last * 24).contains(&hour)
        });
        let in_week = week.map(|(name, _)| *name);
        while taken < (hour + 1) * snapshots / (days * 24) {
            let profile = format!("acme/p{}", taken % profiles);
            let fresh = taken % 10 == 9;
            let host = if fresh { year.host(None).await } else { home.clone() };
            year.write(in_week, &host.of(&profile), taken, profiles, fresh).await;
            taken += 1;
        }
        let before = year.note(in_week);
        Collector::new(home.store.clone(), Options::default()).run().await.expect("a collection");
        year.add(in_week, "gc", before);
    }
    year.tell(&home, profiles, taken, days).await;
    eprintln!("{:.0} s", started.elapsed().as_secs_f64());
    if year.holds(profiles) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// When a week ends, in a year of fewer days too.
fn last_day(of_365: u64, days: u64) -> u64 {
    (of_365 * days).div_ceil(365).max(7)
}

impl Year {
    fn begin() -> Self {
        let memory = Arc::new(MemoryBucket::with_page_size(1000));
        let delay = Arc::new(DelayBucket::new(memory.clone()));
        let recorder = Arc::new(Recorder::new(delay.clone()));
        let bucket = Arc::new(RetryBucket::new(recorder.clone(), RetryPolicy::default()));
        let folder = tempfile::tempdir().expect("a directory");
        Self { memory, delay, recorder, bucket, folder, costs: BTreeMap::new() }
    }

    /// A host with a cache of this name, or with none.
    async fn host(&self, cache: Option<&str>) -> StoreFixture {
        StoreFixture::open(Arc::clone(&self.bucket), cache.map(|name| self.folder.path().join(name))).await
    }

    /// Forgets the requests so far; from now on an answer takes its time.
    fn note(&self, week: Option<&str>) -> u64 {
        if week.is_some() {
            self.delay.set(ROUND_TRIP);
        }
        self.recorder.take();
        self.bucket.round_trips()
    }

    fn add(&mut self, week: Option<&'static str>, what: &'static str, before: u64) {
        let rounds = self.bucket.round_trips() - before;
        let calls = self.recorder.take();
        self.delay.set(Duration::ZERO);
        let Some(week) = week else { return };
        let cost = self.costs.entry((what, week)).or_default();
        cost.times += 1;
        cost.requests += calls.len() as u64;
        cost.rounds += rounds;
        cost.bytes += calls.iter().map(|call| call.bytes).sum::<u64>();
    }

    /// The next snapshot of a profile, and the retention after it.
    async fn write(
        &mut self,
        week: Option<&'static str>,
        host: &StoreFixture,
        number: u64,
        profiles: u64,
        fresh: bool,
    ) {
        let source = self.folder.path().join(host.lineage.name.profile.as_str());
        let is_first = number < profiles;
        if is_first {
            fill(&source, number);
        }
        if !is_first && (number / profiles) % 8 == 7 {
            let before = self.note(week);
            let opened = resolve::snapshot(&host.store, &host.lineage, None).await.expect("a snapshot");
            let opened = Opened::load(&host.store, opened).await.expect("its tree");
            self.add(week, "mount", before);
            let before = self.note(week);
            self.commit(host, opened, number).await;
            self.add(week, if fresh { "commit, new host" } else { "commit" }, before);
        } else {
            fs::write(source.join("changed"), noise(30_000, number)).expect("a file");
            let before = self.note(week);
            host.snapshot(&source).await.expect("a snapshot");
            keep_newest(host).await;
            self.add(week, if fresh { "snapshot, new host" } else { "snapshot" }, before);
        }
        if number.is_multiple_of(7) {
            let before = self.note(week);
            resolve::list(&host.store, &host.lineage).await.expect("a list");
            self.add(week, "list", before);
        }
    }

    /// As a mount commits that has the lock.
    async fn commit(&self, host: &StoreFixture, opened: Opened, number: u64) {
        let terms = Terms { ttl: HOUR, with_process: false };
        let hold = host.handle("mount").acquire(terms, Duration::ZERO).await.expect("the lock");
        let is_changed = |entry: &store::format::tree::Entry| entry.path.as_bytes() == b"changed";
        let at = opened.entries.iter().position(is_changed).expect("the file that changes");
        let mut entries = opened.entries.clone();
        let bytes = noise(30_000, number);
        if let Kind::File { size, .. } = &mut entries[at].kind {
            *size = bytes.len() as u64;
        }
        let tree =
            Tree { entries, changed: vec![at], skipped: Default::default(), bytes: bytes.len() as u64 };
        let base = Base { record: opened.record, metadata: Arc::new(opened.metadata) };
        let request = commit_request(&host.lineage, Path::new("/mnt"));
        let files = Arc::new(One(bytes));
        let committed = commit::commit(
            &host.store,
            request,
            (tree, files),
            Some(base),
            Some(&hold),
            async |_| Ok(()),
            Arc::new(Silent),
        );
        committed.await.expect("a commit");
        keep_newest(host).await;
        hold.release().await.expect("the lock is given back");
    }

    async fn tell(&self, home: &StoreFixture, profiles: u64, taken: u64, days: u64) {
        println!("| | | each: requests | round trips | kB |\n|---|---|---|---|---|");
        for what in ["snapshot", "snapshot, new host", "commit", "commit, new host", "mount", "list", "gc"] {
            for (week, last) in WEEKS {
                let day = last_day(last, days);
                let Some(cost) = self.costs.get(&(what, week)) else { continue };
                let each = |sum: u64| sum as f64 / cost.times as f64;
                let (requests, rounds) = (each(cost.requests), each(cost.rounds));
                let kilobytes = each(cost.bytes) / 1e3;
                println!("| {what} | {week}, to day {day} | {requests:.1} | {rounds:.1} | {kilobytes:.1} |");
            }
        }
        let (objects, allowed) = self.objects(profiles);
        println!(
            "\n{taken} snapshots of {profiles} profiles: {objects} objects are left, {allowed} are allowed"
        );
        for (kind, count) in self.kinds() {
            println!("- {count} {kind}");
        }
        home.assert_clean().await;
    }

    fn kinds(&self) -> BTreeMap<&'static str, u64> {
        let mut kinds = BTreeMap::new();
        for key in self.memory.keys() {
            let is = |part: &str| key.contains(part);
            let kind = match () {
                () if is("/packs/") => "packs",
                () if is("/index/") => "indexes",
                () if is("/condemned/") => "documents of condemned packs",
                () if is("/events/") => "events",
                () if is("/snap-") => "records",
                () => "others",
            };
            *kinds.entry(kind).or_default() += 1;
        }
        kinds
    }

    /// How many there are, and how many there may be.
    fn objects(&self, profiles: u64) -> (u64, u64) {
        let kinds = self.kinds();
        let packs = kinds.get("packs").copied().unwrap_or_default();
        (kinds.values().sum(), 3 * (profiles * KEEP + packs) + OBJECTS_BESIDE)
    }

    fn holds(&self, profiles: u64) -> bool {
        let (objects, allowed) = self.objects(profiles);
        let mut all = objects <= allowed;
        for what in ["snapshot", "commit"] {
            let of = |week| self.costs.get(&(what, week)).copied().unwrap_or_default();
            let (first, last) = (of(WEEKS[0].0), of(WEEKS[3].0));
            let each = |cost: Cost, sum: u64| sum as f64 / cost.times.max(1) as f64;
            let rounds = each(last, last.rounds) / each(first, first.rounds);
            let requests = each(last, last.requests) / each(first, first.requests);
            println!(
                "{what}, month 12 to week 1: {rounds:.2} times the round trips (at most 1.10), {requests:.2} times the requests (at most 1.20)"
            );
            all &= rounds <= 1.1 && requests <= 1.2;
        }
        all
    }
}

fn fill(source: &Path, number: u64) {
    fs::create_dir_all(source).expect("a directory");
    for file in 0..FILES {
        // One of them is the same in every profile.
        let seed = if file == 0 { 1 } else { 1_000_000 + number * FILES + file };
        fs::write(source.join(format!("file-{file}")), noise(20_000, seed)).expect("a file");
    }
}

/// The retention that follows a snapshot.
async fn keep_newest(host: &StoreFixture) {
    let policy = Policy { keep: Some(Keep::Newest(KEEP)), ..Policy::default() };
    let survey = retention::lineage(&host.store, &host.lineage).await.expect("a survey");
    let decisions = retention::plan(survey, |_| policy.clone(), Limits::default());
    retention::apply(&host.store, &actor("retention"), &decisions).await.expect("retention");
}

/// The one file that was changed.
struct One(Vec<u8>);

impl Files for One {
    fn len(&self) -> usize {
        1
    }

    fn read(&self, _: usize, cutter: &mut Cutter<'_>) -> store::Result<()> {
        let mut rest = &self.0[..];
        while !rest.is_empty() {
            let most = rest.len() as u64;
            cutter.read_from(&mut rest, most).map_err(|fault| fault.at("cannot read", "memory"))?;
        }
        Ok(())
    }
}
