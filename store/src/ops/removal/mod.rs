//! Deletes a whole profile, or all profiles of a tenant.
//!
//! 1. Look for holders of locks, sessions that build on a snapshot, and readers. Any of them stops it.
//! 2. The tombstone is written: from then on nobody makes a first snapshot current.
//! 3. All objects are listed, and every pointer is emptied: holders of claims are fenced off,
//!    and no reader, of any program, is led to objects that go.
//! 4. Records end: snapshots become tombstones with their archives, as when each is deleted by
//!    itself, and writes are revoked. Then all other archives go.
//! 5. Collections do the rest, and leave the tombstone alone: see [`gc`](super::gc).
//!
//! Killed anywhere, the same command goes on, and so does a collection with lineages without a pointer.
//! A writer that comes in between either finds the tombstone or is found in step 3: it is refused,
//! or its snapshot goes, whole, with the others.

mod lineage;
mod remove_tombstone;
mod survey;

pub use lineage::{Left, end};
pub use remove_tombstone::{Anew, begin_profile_anew, begin_tenant_anew};
pub use survey::{Survey, Unfinished, survey};

use crate::{
    Error, Result,
    catalog::{clock, lineage_handle::LineageHandle, records, rules::Rules, session_root, tombstone},
    content::TenantStore,
    error::Needed,
    format::{
        Unknown,
        event::Actor,
        tombstone::{Deletion, Operator, Progress},
    },
    id::RecordId,
    name::ProfileName,
};

/// The order to delete: its author, its reason, and the sessions to ignore.
#[derive(Clone, Debug)]
pub struct Order {
    /// In whose name it is done.
    pub actor: Actor,
    /// The person who decided it, by their name on this host.
    pub user: String,
    /// Why, in their words.
    pub reason: String,
    /// Sessions that nobody will finish: their snapshots go.
    pub ignored: Vec<RecordId>,
    /// The rules that hold; all, outside of tests.
    pub rules: Rules,
}

impl Order {
    /// The tombstone's account of this order, if all goes as the survey found it.
    pub async fn deletion(&self, store: &TenantStore, survey: &Survey) -> Deletion {
        let at_ms = clock::of_store(store).await.unwrap_or_else(clock::unix_ms);
        let Actor { run_id, host, .. } = &self.actor;
        Deletion {
            state: Progress::Begun,
            at_ms,
            by: Operator {
                user: self.user.clone(),
                host: host.clone(),
                run_id: run_id.clone(),
                unknown: Unknown::new(),
            },
            reason: self.reason.clone(),
            snapshots: survey.snapshots,
            archives: survey.archives,
            stored_bytes: survey.stored_bytes + survey.archive_bytes,
            unknown: Unknown::new(),
        }
    }

    /// Fails if somebody uses anything that the survey found.
    pub fn allow(&self, survey: &Survey) -> Result<()> {
        if let Some((lineage, holder)) = survey.holders.first() {
            return Err(Error::LockHeld { lineage: lineage.to_string(), holder: Box::new(holder.clone()) });
        }
        let open = |unfinished: &&Unfinished| match &unfinished.session {
            Some((id, _)) => !self.ignored.contains(id),
            None => true,
        };
        let Some(Unfinished { lineage, record, session }) = survey.unfinished.iter().find(open) else {
            return Ok(());
        };
        let needed = match session.clone() {
            Some((id, host)) => Needed::Session { id, host },
            None => Needed::Mounted,
        };
        Err(Error::SnapshotNeeded {
            record: *record,
            sha256_prefix: record.to_string(),
            lineage: lineage.to_string(),
            needed,
        })
    }

    fn handle(&self, store: &TenantStore, lineage: crate::name::Lineage) -> LineageHandle {
        let handle = LineageHandle::new(store.clone(), lineage, self.actor.clone());
        #[cfg(any(test, feature = "test-support"))]
        let handle = handle.with_rules(self.rules);
        handle
    }
}

/// Deletes a profile, which the survey is of.
pub async fn profile(
    store: &TenantStore,
    name: &ProfileName,
    order: &Order,
    survey: &Survey,
) -> Result<(Deletion, Left)> {
    order.allow(survey)?;
    let deletion = order.deletion(store, survey).await;
    if !order.rules.tombstone_first {
        empty(store, name, order).await?;
        let begun = tombstone::begin(store, name, &deletion).await?.tombstone.deletion;
        return Ok((begun, finish(store, name, order).await?));
    }
    let begun = tombstone::begin(store, name, &deletion).await?.tombstone.deletion;
    let left = contents(store, name, order, survey).await?;
    Ok((begun, left))
}

/// Deletes all content of a profile, once a tombstone says that it goes: its own, or its tenant's.
pub async fn contents(
    store: &TenantStore,
    name: &ProfileName,
    order: &Order,
    survey: &Survey,
) -> Result<Left> {
    empty(store, name, order).await?;
    for id in survey.sessions().filter(|id| order.ignored.contains(id)) {
        session_root::forget(store, id).await?;
    }
    finish(store, name, order).await
}

async fn empty(store: &TenantStore, name: &ProfileName, order: &Order) -> Result<()> {
    for lineage in records::lineages(store, name).await? {
        order.handle(store, lineage).empty_pointer(&order.reason).await?;
    }
    Ok(())
}

async fn finish(store: &TenantStore, name: &ProfileName, order: &Order) -> Result<Left> {
    let mut left = Left::default();
    for lineage in records::lineages(store, name).await? {
        left.add(end(&order.handle(store, lineage), &order.reason).await?);
    }
    Ok(left)
}
