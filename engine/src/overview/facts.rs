//! `facts` derives the facts of each profile from the summaries of its objects. They do not depend on the time of day.

use std::collections::BTreeMap;

use store::{
    id::RecordId,
    name::{ChromeMajor, Profile, Tenant},
    ops::read::survey::{LineageSurvey, LockSummary, Notable, PointerSummary, SnapshotSummary, Survey},
};

const DAY_MS: u64 = 86_400_000;

/// The facts of one tenant.
#[derive(Clone, Debug)]
pub struct TenantOverview {
    pub(super) tenant: Tenant,
    /// When the store was listed, by this host's clock.
    pub(super) looked_at_ms: u64,
    pub(super) profiles: Vec<ProfileFacts>,
    pub(super) locks: Vec<LockFacts>,
    /// What was stored on each day since 1970.
    pub(super) days: BTreeMap<u64, DayFacts>,
    pub(super) totals: TenantFacts,
}

/// The numbers of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantFacts {
    /// How many profiles have snapshots.
    pub profiles: u64,
    /// How many snapshots there are.
    pub snapshots: u64,
    /// The bytes that were stored for them.
    pub stored_bytes: u64,
    /// The bytes of all their files.
    pub size_bytes: u64,
}

/// What was stored on a day, of the snapshots that there still are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DayFacts {
    pub(super) stored_bytes: u64,
}

/// The facts of one profile.
#[derive(Clone, Debug)]
pub(super) struct ProfileFacts {
    pub(super) profile: Profile,
    pub(super) chrome_major: ChromeMajor,
    pub(super) snapshots: u64,
    pub(super) stored_bytes: u64,
    pub(super) current: Option<CurrentFacts>,
    /// Why the current snapshot is not known, though there is a pointer.
    pub(super) lost: Option<String>,
    pub(super) newest_captured_at_ms: Option<u64>,
    /// The newest capture that was held back since the current one was stored.
    pub(super) held_back: Option<HeldBackFacts>,
    /// How many captures are newer than the current one, and were not held back.
    pub(super) newer: u64,
    pub(super) lock: Option<usize>,
}

/// The facts of the current snapshot.
#[derive(Clone, Debug)]
pub(super) struct CurrentFacts {
    pub(super) sha256_prefix: Box<str>,
    pub(super) captured_at_ms: u64,
    /// None of an archive of another program.
    pub(super) size_bytes: Option<u64>,
    pub(super) is_foreign: bool,
    pub(super) notable: Option<Box<Notable>>,
}

/// A capture that was held back.
#[derive(Clone, Debug)]
pub(super) struct HeldBackFacts {
    pub(super) sha256_prefix: Box<str>,
    pub(super) captured_at_ms: u64,
    pub(super) reason: Box<str>,
}

/// A lock that is not free.
#[derive(Clone, Debug)]
pub(super) struct LockFacts {
    pub(super) profile: Profile,
    pub(super) chrome_major: ChromeMajor,
    pub(super) lock: LockSummary,
    /// When it was written, by the store's clock.
    pub(super) written_at_ms: u64,
}

impl TenantOverview {
    /// Of what is known of a tenant.
    pub fn of(tenant: &Tenant, survey: &Survey) -> Self {
        let mut overview = Self {
            tenant: tenant.clone(),
            looked_at_ms: survey.looked_at_ms(),
            profiles: Vec::new(),
            locks: Vec::new(),
            days: BTreeMap::new(),
            totals: TenantFacts::default(),
        };
        // The versions of Chrome of a profile follow each other, the newest last.
        let mut lineages = survey.lineages().iter().peekable();
        let mut of_profile: Vec<(ChromeMajor, &LineageSurvey, Option<usize>)> = Vec::new();
        while let Some(((profile, chrome_major), lineage)) = lineages.next() {
            let lock = lineage.lock().map(|(lock, written_at_ms)| {
                let (profile, chrome_major) = (profile.clone(), *chrome_major);
                overview.locks.push(LockFacts { profile, chrome_major, lock: lock.clone(), written_at_ms });
                overview.locks.len() - 1
            });
            of_profile.push((*chrome_major, lineage, lock));
            if lineages.peek().is_none_or(|((next, _), _)| next != profile) {
                overview.add(profile, &of_profile);
                of_profile.clear();
            }
        }
        overview
    }

    /// Whose facts they are.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Its numbers.
    pub fn totals(&self) -> TenantFacts {
        self.totals
    }

    fn add(&mut self, profile: &Profile, lineages: &[(ChromeMajor, &LineageSurvey, Option<usize>)]) {
        let mut counted = TenantFacts::default();
        for snapshot in lineages.iter().flat_map(|(_, lineage, _)| snapshots(lineage)).map(|(_, it)| it) {
            counted.snapshots += 1;
            counted.stored_bytes += snapshot.stored_bytes;
            counted.size_bytes += snapshot.size_bytes;
            self.days.entry(snapshot.stored_at_ms / DAY_MS).or_default().stored_bytes +=
                snapshot.stored_bytes;
        }
        let points =
            |lineage: &LineageSurvey| !matches!(lineage.pointer(), None | Some(PointerSummary::Nothing));
        let chosen = lineages.iter().rfind(|(_, lineage, _)| points(lineage)).or(lineages.last());
        let Some((chrome_major, lineage, lock)) = chosen.copied() else { return };
        // Work that was refused leaves a lock, or a pointer that names nothing. That is no profile.
        if counted.snapshots == 0 && !points(lineage) {
            return;
        }
        self.totals.profiles += 1;
        self.totals.snapshots += counted.snapshots;
        self.totals.stored_bytes += counted.stored_bytes;
        self.totals.size_bytes += counted.size_bytes;
        self.profiles.push(ProfileFacts {
            snapshots: counted.snapshots,
            stored_bytes: counted.stored_bytes,
            lock,
            ..ProfileFacts::of(profile.clone(), chrome_major, lineage)
        });
    }
}

impl ProfileFacts {
    /// Of the lineage that commands choose by themselves.
    fn of(profile: Profile, chrome_major: ChromeMajor, lineage: &LineageSurvey) -> Self {
        let (current, lost) = current(lineage);
        let mut facts = Self {
            profile,
            chrome_major,
            snapshots: 0,
            stored_bytes: 0,
            lost,
            newest_captured_at_ms: snapshots(lineage).map(|(_, it)| it.captured_at_ms).max(),
            held_back: None,
            newer: 0,
            lock: None,
            current: current.as_ref().map(|(_, facts)| facts.clone()),
        };
        // What came before an archive of another program is not told.
        let is_known =
            facts.lost.is_none() && !facts.current.as_ref().is_some_and(|current| current.is_foreign);
        let place = current.and_then(|(place, _)| place);
        let newer =
            snapshots(lineage).filter(|(id, it)| place.is_none_or(|place| (it.stored_at_ms, *id) > place));
        for (_, snapshot) in newer.filter(|_| is_known) {
            let held_back = snapshot.notable.as_ref().and_then(|notable| notable.held_back.as_ref());
            match held_back {
                None if place.is_some() => facts.newer += 1,
                None => {}
                Some(_)
                    if facts
                        .held_back
                        .as_ref()
                        .is_some_and(|it| it.captured_at_ms > snapshot.captured_at_ms) => {}
                Some(reason) => {
                    facts.held_back = Some(HeldBackFacts {
                        sha256_prefix: snapshot.sha256_prefix.clone(),
                        captured_at_ms: snapshot.captured_at_ms,
                        reason: in_full(reason, snapshot),
                    });
                }
            }
        }
        facts
    }
}

/// Why a snapshot was held back, with what was found.
fn in_full(reason: &str, snapshot: &SnapshotSummary) -> Box<str> {
    let found =
        snapshot.notable.as_ref().and_then(|notable| notable.missing.as_ref().or(notable.damage.as_ref()));
    match found.filter(|found| !reason.contains(&***found)) {
        Some(found) => format!("{reason}: {found}").into(),
        None => reason.into(),
    }
}

/// When the current snapshot was stored, and its id.
type StoredAt = (u64, RecordId);

/// The current snapshot, or why it is not known.
fn current(lineage: &LineageSurvey) -> (Option<(Option<StoredAt>, CurrentFacts)>, Option<String>) {
    match lineage.pointer() {
        None | Some(PointerSummary::Nothing) => (None, None),
        Some(PointerSummary::Damaged(why)) => (None, Some(format!("the pointer is damaged: {why}"))),
        Some(PointerSummary::Foreign(prefix, flipped_at_ms)) => {
            let facts = CurrentFacts {
                sha256_prefix: prefix.clone(),
                captured_at_ms: *flipped_at_ms,
                size_bytes: None,
                is_foreign: true,
                notable: None,
            };
            (Some((None, facts)), None)
        }
        Some(PointerSummary::Record(id, _)) => match lineage.record(*id).and_then(|record| record.snapshot())
        {
            Some(snapshot) => {
                let facts = CurrentFacts {
                    sha256_prefix: snapshot.sha256_prefix.clone(),
                    captured_at_ms: snapshot.captured_at_ms,
                    size_bytes: Some(snapshot.size_bytes),
                    is_foreign: false,
                    notable: snapshot.notable.clone(),
                };
                (Some((Some((snapshot.stored_at_ms, *id)), facts)), None)
            }
            None => (None, Some("the pointer names a snapshot whose record is gone or damaged".to_owned())),
        },
    }
}

fn snapshots(lineage: &LineageSurvey) -> impl Iterator<Item = (RecordId, &SnapshotSummary)> {
    lineage.records().filter_map(|(id, record)| Some((id, record.snapshot()?)))
}
