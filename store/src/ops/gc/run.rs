//! `GcRun` decides which packs are condemned and which go, in the order that makes it safe.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, SystemTime},
};

use futures::{StreamExt, TryStreamExt, stream};

use super::{
    Collector, ENDED_FOR, NAP, Stopped,
    blockers::{self, Blocker},
    burial::Burial,
    condemned_docs::{self, CondemnedDoc, MOST_PACKS},
    indexes,
    inventory::Inventory,
    leftovers::{self, Leftovers},
    plan::{Candidate, Cause, Document, Plan, Step, Tally},
    roots::{Catalog, Marks, look},
};
use crate::{
    Error, Result,
    catalog::{clock, events, records},
    content::TenantStore,
    format::{condemned::Phase, config::TenantConfig, layout, limits, record::State},
    id::{PackId, RecordId},
    name::Lineage,
    ops::gc::repack::DryRun,
};

const DELETES_AT_ONCE: usize = 16;
const LINEAGES_AT_ONCE: usize = 4;
const RECORDS_AT_ONCE: usize = 16;
/// Each may name many packs, and there may be many of them after a long pause.
const DOCUMENTS_AT_ONCE: usize = 16;

/// Whether anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Real,
    Pretend,
}

pub(super) struct GcRun<'a> {
    pub(super) collector: &'a Collector,
    pub(super) store: &'a TenantStore,
    act: Act,
    pub(super) plan: Plan,
    /// The packs that are filed by now.
    condemned: Tally,
    /// The writes whose packs this run has filled.
    pub(super) filled: HashSet<RecordId>,
    /// The snapshots of which something was moved, some of them more than once.
    pub(super) moved: HashSet<RecordId>,
    /// How many documents a plan would file.
    unfiled: usize,
    /// The changes that a plan would have made.
    pub(super) dry_run: DryRun,
}

impl<'a> GcRun<'a> {
    pub(super) fn new(collector: &'a Collector, act: Act) -> Self {
        let store = &collector.store;
        let (plan, condemned) = (Plan::new(store.tenant.clone()), Tally::default());
        let (filled, moved, dry_run) = Default::default();
        Self { collector, store, act, plan, condemned, filled, moved, unfiled: 0, dry_run }
    }

    pub(super) fn is_real(&self) -> bool {
        self.act == Act::Real
    }

    pub(super) async fn run(mut self) -> Result<Plan, Stopped> {
        match self.steps().await {
            Ok(()) => Ok(self.plan),
            Err(error) => Err(Stopped { error, condemned: self.condemned }),
        }
    }

    async fn steps(&mut self) -> Result<()> {
        let started = self.now().await?;
        // What a swept document names was gone before the packs are listed: if it is there, it has
        // arrived since, and is garbage like any other.
        let (swept, mut filed): (Vec<CondemnedDoc>, Vec<CondemnedDoc>) = condemned_docs::all(self.store)
            .await?
            .into_iter()
            .partition(|filed| filed.phase() == Phase::Swept);
        // Before anything is marked: what a blocker has done is then all there to be seen.
        let mut steps = self.wait(&filed).await?;
        let mut inventory = Inventory::take(self.store, self.collector.room()).await?;
        let mut marks = self.mark().await?;
        let ended = leftovers::finish_deletions(self.store, &marks, self.is_real()).await?;
        self.plan.finished_deletions =
            ended.values().filter(|state| **state == State::Tombstone).count() as u64;
        if !ended.is_empty() {
            if !self.is_real() {
                self.dry_run.end(ended);
            }
            marks = self.mark().await?;
        }
        self.plan.stranded = std::mem::take(&mut marks.stranded);
        let now = marks.now.unwrap_or(started);
        check_duration(started, now)?;
        let is_deleted = self.store.config.deletion.is_some();
        if marks.records.is_empty() && !inventory.packs.is_empty() && !is_deleted {
            return Err(Error::damaged(
                layout::snapshots(&self.store.tenant),
                "it holds no record at all, though there are packs; \
                 nothing is collected while nothing says what they belong to",
            ));
        }
        self.revoke(&mut marks).await?;
        self.describe(&filed, &inventory)?;
        self.decide(&mut filed, &mut steps, &marks).await?;
        self.sweep(&mut filed, &mut inventory, &steps).await?;
        // What is garbage already goes whatever becomes of the rest: moving needs space.
        self.condemn(&mut filed, &inventory, &marks, now).await?;
        self.arm(&mut filed, &marks).await?;
        if self.repack(&filed, &mut inventory, &mut marks, now).await? {
            self.condemn(&mut filed, &inventory, &marks, now).await?;
            self.arm(&mut filed, &marks).await?;
        }
        self.plan.leftovers = self.remove_leftovers(&swept, &marks, &inventory, now).await?;
        self.merge_events(&marks, now).await?;
        self.plan.leftovers += self.bury(&marks, &inventory, now).await?;
        self.note_pending(&filed, &steps);
        self.tell_steps(steps);
        Ok(())
    }

    async fn merge_events(&mut self, marks: &Marks, now: SystemTime) -> Result<()> {
        let (store, terms) = (self.store, events::MergeTerms::default());
        let how = (self.collector.rules, self.is_real());
        let mut done = stream::iter(&marks.events)
            .map(|(lineage, listed)| events::merge(store, lineage, listed, now, terms, how))
            .buffer_unordered(LINEAGES_AT_ONCE);
        while let Some(merged) = done.try_next().await? {
            self.plan.events_merged += merged.merged;
            self.plan.events_removed += merged.removed;
        }
        Ok(())
    }

    async fn remove_leftovers(
        &self,
        swept: &[CondemnedDoc],
        marks: &Marks,
        inventory: &Inventory,
        now: SystemTime,
    ) -> Result<u64> {
        let (store, act) = (self.store, self.is_real());
        let (swept_for, ended_for) = (self.collector.swept_for, self.collector.ended_for);
        let leftovers = Leftovers { store, marks, inventory, now, swept_for, ended_for, act };
        leftovers.remove(swept).await
    }

    async fn bury(&self, marks: &Marks, inventory: &Inventory, now: SystemTime) -> Result<u64> {
        let (store, act, ended_for) = (self.store, self.is_real(), self.collector.ended_for);
        Burial { store, marks, inventory, now, ended_for, act }.run().await
    }

    pub(super) async fn mark(&self) -> Result<Marks> {
        Marks::make(self.store, self.collector.rules, self.collector.room(), &self.dry_run).await
    }

    /// The store's time, from a document that also says whether we may collect here.
    async fn now(&self) -> Result<SystemTime> {
        let key = layout::tenant_config(&self.store.tenant);
        let object = self.store.bucket.get(&key, limits::CONFIG).await?;
        let config = TenantConfig::decode(&object.bytes).map_err(|error| error.of(&key))?;
        config.check_write().map_err(|error| error.of(&key))?;
        Ok(object.stamp.now)
    }

    /// The next step of each armed document; those that wait for nothing are to be swept.
    async fn wait(&mut self, filed: &[CondemnedDoc]) -> Result<HashMap<RecordId, Step>> {
        let mut steps = HashMap::new();
        let grace = self.collector.options.grace;
        let is_due = |document: &CondemnedDoc| document.phase() == Phase::Armed && document.age >= grace;
        let mut lineages: HashMap<RecordId, Lineage> = HashMap::new();
        if filed.iter().any(is_due) {
            lineages.extend(Catalog::list(self.store).await?.records);
        }
        for document in filed {
            let step = match document.phase() {
                Phase::Condemned => Step::Arm,
                Phase::Sweep => Step::Sweep { deleted: Tally::default(), pardoned: 0 },
                Phase::Swept => continue,
                Phase::Armed if !is_due(document) => Step::WaitForGrace { left: grace - document.age },
                Phase::Armed => {
                    let writers = self.still_writing(&document.body.blockers, &lineages).await?;
                    match writers.is_empty() {
                        true => Step::Sweep { deleted: Tally::default(), pardoned: 0 },
                        false => Step::WaitForWriters { writers },
                    }
                }
            };
            steps.insert(document.id, step);
        }
        Ok(steps)
    }

    async fn still_writing(
        &mut self,
        blockers: &[RecordId],
        lineages: &HashMap<RecordId, Lineage>,
    ) -> Result<Vec<RecordId>> {
        let (store, is_real, rules) = (self.store, self.is_real(), self.collector.rules);
        // A record that is no longer listed was a tombstone for longer than anything lasts.
        let listed = blockers.iter().filter_map(|id| Some((*id, lineages.get(id)?)));
        let settled: Vec<(RecordId, &Lineage, Blocker)> = stream::iter(listed)
            .map(|(id, lineage)| async move {
                let blocker = blockers::settle(store, lineage, id, is_real, rules).await?;
                Ok::<_, Error>((id, lineage, blocker))
            })
            .buffered(RECORDS_AT_ONCE)
            .try_collect()
            .await?;
        let mut busy = Vec::new();
        for (id, lineage, blocker) in settled {
            match blocker {
                Blocker::Writing => busy.push(id),
                Blocker::Revoked => self.note_revoked(id, lineage).await?,
                Blocker::Ended => {}
            }
        }
        Ok(busy)
    }

    /// Ends writes that were not heard of for too long, so that their packs are garbage.
    async fn revoke(&mut self, marks: &mut Marks) -> Result<()> {
        let dead: Vec<RecordId> = marks
            .records
            .iter()
            .filter(|(_, seen)| seen.has_expired() || (seen.state != State::Writing && !seen.has_ended()))
            .map(|(id, _)| *id)
            .collect();
        for id in dead {
            let Some(seen) = marks.records.get(&id) else { continue };
            let lineage = marks.lineage(seen).clone();
            if self.is_real()
                && !blockers::revoke_expired(self.store, &lineage, id, self.collector.rules).await?
            {
                continue;
            }
            self.note_revoked(id, &lineage).await?;
            if let Some(seen) = marks.records.get_mut(&id).filter(|seen| seen.state == State::Writing) {
                seen.state = State::Revoked;
            }
        }
        self.plan.revoked.sort_unstable();
        Ok(())
    }

    /// In a plan, with the consequence: the records that a write was to replace are touched.
    async fn note_revoked(&mut self, id: RecordId, lineage: &Lineage) -> Result<()> {
        if self.plan.revoked.iter().any(|(known, _)| *known == id) {
            return Ok(());
        }
        self.plan.revoked.push((id, lineage.clone()));
        if !self.is_real() {
            let lease = records::find(self.store, lineage, id).await?;
            self.dry_run.touch(lease.into_iter().flat_map(|(record, ..)| record.updates));
            self.dry_run.end([(id, State::Revoked)]);
        }
        Ok(())
    }

    fn describe(&mut self, filed: &[CondemnedDoc], inventory: &Inventory) -> Result<()> {
        for document in filed.iter().filter(|document| document.phase() != Phase::Swept) {
            let mut named = Tally::default();
            for pack in &document.body.packs {
                inventory.packs.get(pack)?.into_iter().for_each(|pack| named.add(pack.bytes));
            }
            let (id, phase) = (document.id, document.phase());
            self.plan.documents.push(Document { id, phase, named, step: Step::Arm });
        }
        Ok(())
    }

    /// Fixes the packs to delete. The marks were made after the last blocker had ended.
    async fn decide(
        &self,
        filed: &mut [CondemnedDoc],
        steps: &mut HashMap<RecordId, Step>,
        marks: &Marks,
    ) -> Result<()> {
        let mut fixed = Vec::new();
        for document in filed.iter_mut().filter(|document| document.phase() == Phase::Armed) {
            let Some(Step::Sweep { pardoned, .. }) = steps.get_mut(&document.id) else { continue };
            let mut go = Vec::new();
            for pack in &document.body.packs {
                if self.collector.rules.mark_again && marks.packs.has(pack)? {
                    *pardoned += 1;
                } else {
                    go.push(*pack);
                }
            }
            let phase = if go.is_empty() { Phase::Swept } else { Phase::Sweep };
            if self.act == Act::Pretend {
                (document.body.phase, document.body.packs, document.age) = (phase, go, Duration::ZERO);
                continue;
            }
            fixed.push(self.fix(document, phase, go));
        }
        each(fixed).await
    }

    async fn fix(&self, document: &mut CondemnedDoc, phase: Phase, go: Vec<PackId>) -> Result<()> {
        loop {
            let decided = document.advance(self.store, |body| {
                (body.phase, body.packs) = (phase, go.clone());
                body.blockers.clear();
            });
            // Lost: somebody else has fixed it, and `document` is now what they have fixed.
            if decided.await? != Some(false) || self.collector.rules.decide_by_swap {
                return Ok(());
            }
        }
    }

    /// Index entries, then packs, then the document.
    async fn sweep(
        &mut self,
        filed: &mut [CondemnedDoc],
        inventory: &mut Inventory,
        steps: &HashMap<RecordId, Step>,
    ) -> Result<()> {
        let decided = filed.iter().filter(|document| document.is_decided());
        let doomed: HashSet<PackId> =
            decided.flat_map(|document| document.body.packs.iter().copied()).collect();
        let tidied = indexes::tidy(self.store, inventory, &doomed, self.is_real()).await?;
        (self.plan.indexes_rewritten, self.plan.indexes_removed, self.plan.indexes_merged) = tidied;
        let mut going = Vec::new();
        for pack in doomed {
            if let Some(found) = inventory.packs.get(&pack)? {
                self.plan.deleted.add(found.bytes);
                going.push(pack);
            }
        }
        // There is room for something else then.
        going.iter().for_each(|pack| inventory.packs.remove(*pack));
        let swept = |document: &&mut CondemnedDoc| {
            document.phase() == Phase::Sweep && matches!(steps.get(&document.id), Some(Step::Sweep { .. }))
        };
        if !self.is_real() {
            for document in filed.iter_mut().filter(swept) {
                (document.body.phase, document.age) = (Phase::Swept, Duration::ZERO);
            }
            return Ok(());
        }
        if !self.collector.rules.bar_until_swept {
            for document in filed.iter().filter(|document| document.phase() == Phase::Sweep) {
                document.remove(self.store).await?;
            }
        }
        let store = self.store;
        going.sort_unstable();
        stream::iter(going)
            .map(|pack| async move { store.bucket.delete(&layout::pack(&store.tenant, pack)).await })
            .buffer_unordered(DELETES_AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        let swept = filed.iter_mut().filter(swept);
        let ended = swept.map(|document| document.advance(store, |body| body.phase = Phase::Swept));
        each(ended).await
    }

    /// Files the packs that nothing needs and that are not filed yet.
    async fn condemn(
        &mut self,
        filed: &mut Vec<CondemnedDoc>,
        inventory: &Inventory,
        marks: &Marks,
        now: SystemTime,
    ) -> Result<()> {
        let mut named: HashSet<PackId> =
            filed.iter().flat_map(|document| document.body.packs.iter().copied()).collect();
        named.extend(self.plan.condemned.iter().map(|candidate| candidate.pack));
        let before = self.plan.condemned.len();
        (self.plan.needed, self.plan.live_bytes, self.plan.writing) = Default::default();
        for line in inventory.packs.lines() {
            let (id, pack) = line?;
            let record = marks.records.get(&id.write);
            if self.filled.contains(&id.write) {
                continue;
            }
            if let Some(need) = marks.packs.get(&id)? {
                self.plan.needed.add(pack.bytes);
                self.plan.live_bytes += need.live_bytes.min(pack.bytes);
            } else if record.is_some_and(|seen| seen.state == State::Writing) {
                self.plan.writing.add(pack.bytes);
            } else if !named.contains(&id) {
                let cause = match record.map(|seen| seen.state) {
                    _ if record.is_some_and(|seen| seen.moves) => Cause::Moved,
                    Some(State::Tombstone) => Cause::Deleted,
                    Some(State::Revoked | State::Writing) => Cause::Abandoned,
                    Some(State::Live | State::Trashed) => Cause::Moved,
                    None => Cause::Unknown,
                };
                let lineage = record.map(|seen| marks.lineage(seen).clone());
                let (bytes, age) = (pack.bytes, pack.age(now));
                self.plan.condemned.push(Candidate { pack: id, bytes, age, cause, lineage });
            }
        }
        self.plan.condemned[before..].sort_unstable_by_key(|candidate| candidate.pack);
        for some in self.plan.condemned[before..].chunks(MOST_PACKS) {
            if !self.is_real() {
                self.unfiled += 1;
                continue;
            }
            let packs = some.iter().map(|candidate| candidate.pack).collect();
            filed.extend(condemned_docs::file(self.store, packs).await?);
            some.iter().for_each(|candidate| self.condemned.add(candidate.bytes));
        }
        Ok(())
    }

    /// Puts down the writers that were there when the documents were visible already.
    async fn arm(&mut self, filed: &mut [CondemnedDoc], marks: &Marks) -> Result<()> {
        let unarmed: Vec<&mut CondemnedDoc> =
            filed.iter_mut().filter(|document| document.phase() == Phase::Condemned).collect();
        if unarmed.is_empty() || !self.is_real() {
            return Ok(());
        }
        let writers = self.writers(marks).await?;
        let armed = unarmed.into_iter().map(|document| {
            document.advance(self.store, |body| (body.phase, body.blockers) = (Phase::Armed, writers.clone()))
        });
        each(armed).await
    }

    /// The writes under way. Records that had ended when they were marked have not begun again.
    async fn writers(&self, marks: &Marks) -> Result<Vec<RecordId>> {
        let ended = |id: &RecordId| marks.records.get(id).is_some_and(|seen| seen.has_ended());
        if !self.collector.rules.blockers_after_condemned {
            return Ok(marks.records.keys().filter(|id| !ended(id)).copied().collect());
        }
        let unsure = Catalog::list(self.store).await?.records.into_iter().filter(|(id, _)| !ended(id));
        stream::iter(unsure)
            .map(|(id, lineage)| async move { Ok((id, look(self.store, &lineage, id).await?)) })
            .buffered(RECORDS_AT_ONCE)
            .try_filter_map(async |(id, seen)| Ok(seen.filter(|seen| !seen.has_ended()).map(|_| id)))
            .try_collect()
            .await
    }

    fn note_pending(&mut self, filed: &[CondemnedDoc], steps: &HashMap<RecordId, Step>) {
        let open = filed.iter().filter(|document| document.phase() != Phase::Swept);
        self.plan.pending = open
            .map(|document| {
                let left = match steps.get(&document.id) {
                    Some(Step::WaitForGrace { left }) => *left,
                    Some(Step::WaitForWriters { .. }) => NAP,
                    Some(Step::Sweep { .. }) => Duration::ZERO,
                    Some(Step::Arm) | None => self.collector.options.grace,
                };
                (document.id, left)
            })
            .collect();
        let unfiled = (0..self.unfiled).map(|_| (clock::new_record_id(), self.collector.options.grace));
        self.plan.pending.extend(unfiled);
    }

    fn tell_steps(&mut self, mut steps: HashMap<RecordId, Step>) {
        for document in &mut self.plan.documents {
            document.step = steps.remove(&document.id).unwrap_or(Step::Arm);
            if let Step::Sweep { deleted, pardoned } = &mut document.step {
                *deleted = document.named;
                deleted.packs = deleted.packs.saturating_sub(*pardoned);
            }
        }
    }
}

/// Fails if the run took so long that it must have slept: its knowledge may be too old.
fn check_duration(started: SystemTime, now: SystemTime) -> Result<()> {
    if now.duration_since(started).unwrap_or_default() > ENDED_FOR / 2 {
        let what = "the catalog, while this collection slept for half a day,".to_owned();
        return Err(Error::Conflict { what });
    }
    Ok(())
}

/// Carries out changes of documents, several at a time.
async fn each<T>(changes: impl IntoIterator<Item = impl Future<Output = Result<T>>>) -> Result<()> {
    stream::iter(changes).buffer_unordered(DOCUMENTS_AT_ONCE).map_ok(drop).try_collect().await
}
