//! `Metrics` counts what one process observes, for answers to scrapes and for the files it leaves behind.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use store::{
    bucket::{MeteredRequest, RequestMeter},
    catalog::clock,
    format::{metrics::MetricsTotals, record::Mode},
    id::ReportId,
    name::ProfileName,
    observer::LockEvent,
    progress::Progress,
};
use tokio::sync::Notify;

use super::{
    counts::{Bounds, Counts},
    family::{
        ARCHIVE_SIZE, ARCHIVE_SIZES, CACHED_BYTES, CAPTURE_SECONDS, COLLECTIONS, COMMITS, DEAD_HOLDERS,
        DOWNLOAD_SECONDS, EXTRACT_SECONDS, FETCHED_BYTES, FIRST_LOADS, FLIP_SECONDS, FREED_BYTES,
        HELD_BACK_SNAPSHOTS, LAST_COLLECTION, LAST_GOOD_SNAPSHOT, LAST_LOAD, LOAD_FAILURES, LOADS,
        LOCK_ACQUIRES, LOCK_EVICTIONS, LOCK_WAITS, LOGIN_LAPSE, MOUNT_SECONDS, MOUNTS, RECEIVED_BYTES,
        REQUEST_SECONDS, REQUESTS, SENT_BYTES, SNAPSHOTS, UNCOMPRESSED_SIZES, UPLOAD_SECONDS,
    },
    words,
};
use crate::{
    observer::{
        CaptureResult, CaptureSource, Captured, Collected, LoadWay, Loaded, Mounted, Observation, Observer,
    },
    outcome::LoadResult,
};

/// Where a process leaves what it has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlets {
    /// In a textfile.
    pub textfile: bool,
    /// In reports.
    pub reports: bool,
}

/// Counts what a process observes.
#[derive(Debug)]
pub struct Metrics {
    host: String,
    /// So many profiles have series of their own.
    profiles: usize,
    outlets: Outlets,
    state: Mutex<State>,
    /// Something was observed that is worth leaving soon.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Since the process began.
    all: Counts,
    /// What is not in the textfile yet.
    textfile: Counts,
    /// What is in no report yet.
    report: Counts,
    /// Reports that are not known to be part of the totals.
    sent: Vec<(ReportId, Counts)>,
    /// Whether this process tells what all have reported.
    serves_totals: bool,
    /// What all processes have reported, as this one knows it.
    totals: Option<Counts>,
}

impl Metrics {
    /// Counts for the host of this name, with so many profiles by name.
    pub fn new(host: &str, profiles: usize, outlets: Outlets) -> Self {
        Self { host: host.to_owned(), profiles, outlets, state: Mutex::default(), changed: Notify::new() }
    }

    /// The name of this host, as labels have it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where it leaves what it has counted.
    pub fn outlets(&self) -> Outlets {
        self.outlets
    }

    /// The bounds of what it counts, now.
    pub fn bounds(&self) -> Bounds {
        Bounds { profiles: self.profiles, now_ms: clock::unix_ms() }
    }

    /// Returns when something was observed that is worth leaving soon.
    #[crate::boxed]
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Changes what is counted here and what is still to be left.
    fn record(&self, change: impl Fn(&mut Counts)) {
        let mut state = self.state.lock();
        change(&mut state.all);
        if self.outlets.textfile {
            change(&mut state.textfile);
        }
        if self.outlets.reports {
            change(&mut state.report);
        }
    }

    /// What is not in the textfile yet. It is the caller's to put it there, or to give it back.
    pub fn take_for_textfile(&self) -> Counts {
        std::mem::take(&mut self.state.lock().textfile)
    }

    /// What could not be put into the textfile.
    pub fn give_back_for_textfile(&self, counts: &Counts) {
        self.state.lock().textfile.add(counts, &self.bounds());
    }

    /// What is in no report yet.
    pub fn take_for_report(&self) -> Counts {
        std::mem::take(&mut self.state.lock().report)
    }

    /// What could not be reported.
    pub fn give_back_for_report(&self, counts: &Counts) {
        self.state.lock().report.add(counts, &self.bounds());
    }

    /// Keeps what was reported until it is known to be part of the totals.
    pub fn reported(&self, id: ReportId, counts: Counts) {
        self.state.lock().sent.push((id, counts));
    }

    /// From now on this process tells what all have reported: its own counts are among them.
    pub fn serve_totals(&self) {
        self.state.lock().serves_totals = true;
    }

    /// This process ends: what it cannot report is no longer told by it.
    pub fn end_serving(&self) {
        self.state.lock().serves_totals = false;
    }

    /// Whether this process tells what all have reported.
    pub fn serves_totals(&self) -> bool {
        self.state.lock().serves_totals
    }

    /// Takes over what all processes have reported.
    pub fn know_totals(&self, totals: &MetricsTotals) {
        let mut state = self.state.lock();
        state.sent.retain(|(id, _)| !totals.has(*id));
        state.totals = Some(Counts::of_series(totals.series.clone()));
    }

    /// What this process has counted, and all that others have reported if it tells of that: with every known
    /// series, at zero if need be. Nothing before the totals are known: if they came after smaller numbers, they
    /// would look like an increase.
    pub fn told(&self) -> Counts {
        let (mut told, bounds) = (Counts::zeros(&self.host), self.bounds());
        let state = self.state.lock();
        match &state.totals {
            None if state.serves_totals => return Counts::default(),
            None => told.add(&state.all, &bounds),
            Some(totals) => {
                told.add(totals, &bounds);
                state.sent.iter().for_each(|(_, counts)| told.add(counts, &bounds));
                told.add(&state.report, &bounds);
            }
        }
        told
    }

    fn captured(&self, captured: &Captured<'_>) {
        let outcome = captured.outcome.as_str();
        let (at_ms, profile) = (clock::unix_ms(), names(captured.profile));
        let stored_bytes = captured.archive_bytes.unwrap_or(captured.stored_bytes);
        self.record(|counts| {
            counts.count(&SNAPSHOTS, &[outcome, &self.host], 1);
            if captured.source == CaptureSource::Mount {
                counts.count(&COMMITS, &[outcome], 1);
            }
            if let Some(phases) = &captured.phases {
                counts.observe(&CAPTURE_SECONDS, &[mode(&captured.mode)], micros(phases.capture));
                counts.observe(&UPLOAD_SECONDS, &[], micros(phases.upload));
                counts.observe(&FLIP_SECONDS, &[], micros(phases.pointer_flip));
            }
            if captured.outcome == CaptureResult::Success {
                counts.observe(&ARCHIVE_SIZES, &[], stored_bytes);
                counts.observe(&UNCOMPRESSED_SIZES, &[], captured.uncompressed_bytes.unwrap_or_default());
                self.of_profile(counts, |counts| counts.set(&ARCHIVE_SIZE, &profile, stored_bytes, at_ms));
            }
            if let Some(word) = captured.held_back {
                counts.count(&HELD_BACK_SNAPSHOTS, &[words::held_back(word)], 1);
            } else if captured.outcome != CaptureResult::Failed {
                let lapse = captured.login_lapses_at_ms.unwrap_or_default() / 1000;
                self.of_profile(counts, |counts| {
                    counts.set(&LAST_GOOD_SNAPSHOT, &profile, at_ms / 1000, at_ms);
                    counts.set(&LOGIN_LAPSE, &profile, lapse, at_ms);
                });
            }
        });
    }

    fn loaded(&self, loaded: &Loaded<'_>) {
        let (at_ms, profile) = (clock::unix_ms(), names(loaded.profile));
        self.record(|counts| {
            match loaded.outcome {
                Some(outcome) => counts.count(&LOADS, &[words::load(outcome), &self.host], 1),
                None => counts.count(&LOAD_FAILURES, &[], 1),
            }
            if loaded.outcome == Some(LoadResult::NoPriorState) {
                counts.count(&FIRST_LOADS, &[], 1);
            }
            if let Some(LoadWay::Copy { download, extract, .. }) = loaded.way {
                counts.observe(&DOWNLOAD_SECONDS, &[], micros(download));
                counts.observe(&EXTRACT_SECONDS, &[], micros(extract));
            }
            self.of_profile(counts, |counts| counts.set(&LAST_LOAD, &profile, at_ms / 1000, at_ms));
        });
    }

    fn lock(&self, event: LockEvent) {
        self.record(|counts| match event {
            LockEvent::Acquired => counts.count(&LOCK_ACQUIRES, &["acquired"], 1),
            LockEvent::ForcedExpired => counts.count(&LOCK_ACQUIRES, &["forced_expired"], 1),
            LockEvent::Conflict => counts.count(&LOCK_ACQUIRES, &["conflict_409"], 1),
            LockEvent::Waited(waited) => counts.observe(&LOCK_WAITS, &[], micros(waited)),
            LockEvent::Evicted(reason) => match words::eviction(reason) {
                Some(word) => counts.count(&LOCK_EVICTIONS, &[word], 1),
                None => counts.count(&DEAD_HOLDERS, &[], 1),
            },
        });
    }

    fn mounted(&self, mounted: &Mounted) {
        self.record(|counts| {
            counts.count(&MOUNTS, &[mounted.outcome.as_str()], 1);
            if let Some(ready) = mounted.ready {
                counts.observe(&MOUNT_SECONDS, &[], micros(ready));
            }
        });
    }

    fn collected(&self, collected: &Collected) {
        let at_ms = clock::unix_ms();
        self.record(|counts| {
            counts.count(&FREED_BYTES, &[], collected.freed_bytes);
            match collected.is_done {
                true => {
                    counts.count(&COLLECTIONS, &["success"], 1);
                    counts.set(&LAST_COLLECTION, &[], at_ms / 1000, at_ms);
                }
                false => counts.count(&COLLECTIONS, &["failed"], 1),
            }
        });
    }

    /// Takes over when a collection last ended well, which another process has written down.
    pub fn know_collection(&self, at_ms: u64) {
        self.record(|counts| counts.set(&LAST_COLLECTION, &[], at_ms / 1000, at_ms));
    }

    /// Counts what has a profile's name in it, unless none is to have.
    fn of_profile(&self, counts: &mut Counts, change: impl FnOnce(&mut Counts)) {
        if self.profiles > 0 {
            change(counts);
        }
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::Captured(captured) => self.captured(captured),
            Observation::Loaded(loaded) => self.loaded(loaded),
            Observation::Lock(_, event) => self.lock(*event),
            Observation::Mounted(mounted) => self.mounted(mounted),
            Observation::Collected(collected) => self.collected(collected),
            Observation::MountRead { fetched_bytes, cached_bytes } => {
                self.record(|counts| {
                    counts.count(&FETCHED_BYTES, &[], *fetched_bytes);
                    counts.count(&CACHED_BYTES, &[], *cached_bytes);
                });
                return;
            }
            Observation::Step(_) | Observation::Remark(_) | Observation::Warning(_) => return,
        }
        self.changed.notify_one();
    }
}

impl RequestMeter for Metrics {
    fn request(&self, request: &MeteredRequest) {
        let MeteredRequest { verb, outcome, elapsed, sent_bytes, received_bytes } = *request;
        self.record(|counts| {
            counts.count(&REQUESTS, &[verb.as_str(), outcome.as_str()], 1);
            counts.observe(&REQUEST_SECONDS, &[verb.as_str()], micros(elapsed));
            counts.count(&SENT_BYTES, &[], sent_bytes);
            counts.count(&RECEIVED_BYTES, &[], received_bytes);
        });
    }
}

fn names(profile: &ProfileName) -> [&str; 2] {
    [profile.tenant.as_str(), profile.profile.as_str()]
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The contract's word for whether the browser was ended first.
fn mode(mode: &Mode) -> &'static str {
    match mode {
        Mode::Hot => "hot",
        _ => "cold",
    }
}

/// Counts every observation, and hands it on.
#[derive(Debug)]
pub struct CountingObserver {
    /// Counts it.
    pub metrics: Arc<Metrics>,
    /// Is told of it.
    pub observer: Arc<dyn Observer>,
}

impl Observer for CountingObserver {
    fn observe(&self, observation: &Observation<'_>) {
        self.metrics.observe(observation);
        self.observer.observe(observation);
    }

    fn owns_stdout(&self) -> bool {
        self.observer.owns_stdout()
    }

    fn progress(&self) -> Arc<dyn Progress> {
        self.observer.progress()
    }
}
