//! `Survey` lists the snapshots with the facts that retention rules need.

use futures::{StreamExt, TryStreamExt, stream};

use super::{Policy, Snapshot, Standing, tags};
use crate::{
    Error, Result,
    bucket::Stamp,
    catalog::{
        clock,
        lineage_handle::LineageHandle,
        lock,
        order::{self, Dated},
        pins, records, session_root,
    },
    content::TenantStore,
    error::Needed,
    format::{
        pointer::Target,
        record::{Reason, Record},
    },
    name::{Lineage, LineageKind},
};

const LINEAGES_AT_ONCE: usize = 8;

/// The snapshots, and the time of the store's clock.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The snapshots of all lineages that were looked at.
    pub snapshots: Vec<Snapshot>,
    /// The time of the store's clock meanwhile.
    pub now_ms: u64,
}

impl Survey {
    fn add(&mut self, other: Self) {
        self.snapshots.extend(other.snapshots);
        self.now_ms = self.now_ms.max(other.now_ms);
    }
}

/// The snapshots of all profiles of a tenant.
pub async fn survey(store: &TenantStore) -> Result<Survey> {
    let (pinned, lineages) =
        futures::future::try_join(pins::read(store), records::all_lineages(store)).await?;
    let pinned = &pinned;
    // The pools of a workspace say themselves what is kept, and end what is not.
    let has_rules = |lineage: &Lineage| lineage.chrome_major.kind() != LineageKind::Workspace;
    stream::iter(lineages.into_iter().filter(has_rules))
        .map(|lineage| async move { Ok(of_lineage(&lineage, look_at(store, &lineage).await?, pinned)) })
        .buffered(LINEAGES_AT_ONCE)
        .try_fold(Survey::default(), |mut all, found| async move {
            all.add(found);
            Ok(all)
        })
        .await
}

/// The snapshots of one lineage.
pub async fn lineage(store: &TenantStore, lineage: &Lineage) -> Result<Survey> {
    // In any order: a deletion looks at all of it again.
    let (pinned, seen) = futures::future::try_join(pins::read(store), look_at(store, lineage)).await?;
    Ok(of_lineage(lineage, seen, &pinned))
}

/// The objects of a profile: its live records, its lock and its pointer.
struct ProfileObjects {
    live: Vec<(Record, Stamp)>,
    handle: LineageHandle,
    survey: lock::LockAndPointer,
}

async fn look_at(store: &TenantStore, lineage: &Lineage) -> Result<ProfileObjects> {
    let handle = LineageHandle::new(store.clone(), lineage.clone(), Default::default());
    let (live, survey) =
        futures::future::try_join(records::live_stamped(store, lineage), handle.survey()).await?;
    Ok(ProfileObjects { live, handle, survey })
}

fn of_lineage(lineage: &Lineage, seen: ProfileObjects, pinned: &[pins::FoundPin]) -> Survey {
    let ProfileObjects { live, handle, survey } = seen;
    let now_ms = live.iter().map(|(_, stamp)| clock::to_unix_ms(stamp.now)).max().unwrap_or_default();
    let target = survey.pointer.as_ref().map_or(Target::Nothing, |read| read.pointer.target());
    let base = survey.pointer.as_ref().and_then(|read| read.pointer.block()?.lease.as_ref()?.base);
    let held = survey.lock.as_ref().is_some_and(|lock| handle.is_live(lock));
    let standing = |record: &Record| match target {
        Target::Record(current) if current == record.record => Standing::Current,
        Target::Foreign(_) => Standing::Disputed,
        _ if held && base == Some(record.record) => Standing::Mounted,
        _ => match session_root::needed(pinned, record.record) {
            Some(Needed::Session { id, host }) => Standing::Session { id, host },
            Some(_) => Standing::Mounted,
            None => Standing::Free,
        },
    };
    let snapshots = order::dated(live).into_iter().map(|Dated { record, stored_at_ms, place }| Snapshot {
        lineage: lineage.clone(),
        record: record.record,
        sha256_prefix: record.sha256_prefix(),
        stored_at_ms,
        place,
        captured_at_ms: record.captured_at_ms,
        reason: record.reason.clone(),
        tags: tags(&record.tags),
        held_back: record.held_back.clone(),
        standing: standing(&record),
        packs: record.content.map(|content| content.packs).unwrap_or_default(),
    });
    Survey { snapshots: snapshots.collect(), now_ms }
}

/// Fails if another snapshot that somebody asks for would not fit into the pool of those.
pub async fn require_room(
    store: &TenantStore,
    lineage: &Lineage,
    policy: &Policy,
    reason: &Reason,
) -> Result<()> {
    let Some(most) = policy.manual.filter(|_| *reason == Reason::Manual) else { return Ok(()) };
    let live = records::live(store, lineage).await?;
    let asked_for = live.iter().filter(|record| record.reason == Reason::Manual);
    let count = asked_for.count() as u64;
    if count < most {
        return Ok(());
    }
    Err(Error::QuotaExceeded {
        what: format!(
            "{lineage} has {count} snapshots that were asked for, and retention.manual allows {most}"
        ),
    })
}
