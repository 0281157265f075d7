//! `Host` is one process and its surroundings, and runs its program. Processes of pstore run its own code; the others
//! know only the contract, like other programs that share a bucket.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use store::{
    Error,
    bucket::Depth,
    catalog::{
        clock::HostClock,
        events,
        lineage_handle::LineageHandle,
        lock::Terms,
        pointer::{Flip, Move},
        records::list_all,
        rules::Rules,
    },
    content::TenantStore,
    format::layout,
    id::{Nonce, RecordId},
    name::Lineage,
    ops::{archive::publish, gc, retention},
};

use super::{
    archives::Fake,
    machine::Machine,
    program::Program,
    scenario::{data_of, pack_of},
};
use crate::store_fixture::actor;

pub(super) const TERMS: Terms = Terms { ttl: Duration::from_secs(300), with_process: false };

/// One process and its surroundings.
#[derive(Debug)]
pub struct Host {
    pub process: usize,
    pub machine: Arc<Machine>,
    pub store: TenantStore,
    pub lineage: Lineage,
    pub records: Vec<RecordId>,
    /// The token of the lock that twins hold.
    pub twins: Option<Nonce>,
    pub rules: Rules,
    pub ahead_ms: i64,
}

impl Host {
    pub async fn run(self, program: Program) {
        match program {
            Program::Holder { flips, renewals, release } => self.hold(&flips, renewals, release).await,
            Program::Twin { flip } => self.go_on(flip).await,
            Program::Commit { target, resumes: false } => self.commit(target).await,
            Program::Commit { target, resumes: true } => self.resume(target).await,
            Program::Operator { target, force } => self.operate(target, force).await,
            Program::Deleter { target } => {
                let deleted = self.handle().delete(self.records[target], "explored").await;
                self.note(&format!("ends: deletion {:?}", deleted.map(|record| record.state)));
            }
            Program::Remover { target, times } => {
                for _ in 0..times {
                    let deleted = self.handle().delete(self.records[target], "explored").await;
                    self.note(&format!("has deleted: {:?}", deleted.as_ref().map(|record| record.state)));
                    if deleted.is_ok() {
                        break;
                    }
                }
            }
            Program::Eraser { times } => self.erase(times).await,
            Program::Run { shares } => {
                let ran = self.run_and_store(shares).await;
                self.note(&format!("ends: {:?}", ran.map_err(|error| error.kind())));
            }
            Program::Publisher { target } => {
                let target = self.records[target];
                let packer = Fake;
                let published = publish::store_packed(&self.handle(), target, &packer).await;
                self.note(&format!("ends: {:?}", published.map(|(sha, ..)| sha.prefix())));
            }
            Program::Abandoner { target } => {
                let ended = self.handle().abandon_publication(self.records[target]).await;
                self.note(&format!("ends: {ended:?}"));
            }
            Program::Reaper => {
                let reaped = self.handle().reap(Duration::from_secs(60)).await;
                self.note(&format!("ends: {reaped:?}"));
            }
            Program::ForceUnlock => {
                let taken = self.handle().force_unlock("explored").await;
                self.note(&format!("ends: {taken:?}"));
            }
            Program::ContractWriter { prefix, locks } => {
                let written = self.write_by_contract(prefix, locks).await;
                self.note(&format!("ends: {written:?}"));
            }
            Program::Writer { shares, flips } => {
                let written = self.write(shares, false, flips).await;
                self.note(&format!("ends: {:?}", written.map(|_| "stored").map_err(|error| error.kind())));
            }
            Program::Keeper { keeps } => {
                let written = self.write(keeps, true, false).await;
                self.note(&format!("ends: {:?}", written.map(|_| "stored").map_err(|error| error.kind())));
            }
            Program::Saver { saved } => {
                let written = self.save(saved).await;
                self.note(&format!("ends: {:?}", written.map_err(|error| error.kind())));
            }
            Program::Reader { target, renewals } => {
                let read = self.read(target, renewals).await;
                self.note(&format!("ends: {:?}", read.map_err(|error| error.kind())));
            }
            Program::Collector { runs, forgets } => {
                let options = gc::Options::after(Duration::ZERO);
                let mut collector = gc::Collector::new(self.store.clone(), options).with_rules(self.rules);
                if forgets {
                    collector = collector.forgetting_at_once();
                }
                for _ in 0..runs {
                    let ran = collector.run().await;
                    let told = ran.map(|plan| (plan.condemned.len(), plan.deleted.packs));
                    self.note(&format!("has condemned and deleted: {told:?}"));
                }
            }
            Program::Mover { target } => {
                let (pack, of) = (pack_of(self.records[target]), [self.records[target]]);
                let moved = self.repack(pack, &of, None).await;
                self.note(&format!("ends: {:?}", moved.map_err(|error| error.kind())));
            }
            Program::Repacker => {
                let moved = self.repack(data_of(self.records[0]), &self.records[1..], None).await;
                self.note(&format!("ends: {:?}", moved.map_err(|error| error.kind())));
            }
            Program::LateRepacker => {
                let (pack, second) = (data_of(self.records[0]), self.records[1]);
                let moved = self.repack(pack, &self.records[1..], Some(second)).await;
                self.note(&format!("ends: {:?}", moved.map_err(|error| error.kind())));
            }
            Program::Capture => {
                let stored = self.capture().await;
                self.note(&format!("ends: {:?}", stored.map_err(|error| error.kind())));
            }
            Program::Follower => {
                let read = self.follow().await;
                if let Err(error) = &read {
                    self.machine.inner().oracle.lacks(self.process, error);
                }
                self.note(&format!("ends: {:?}", read.map_err(|error| error.kind())));
            }
            Program::Repair => {
                let repaired = self.repair().await;
                self.note(&format!("ends: {:?}", repaired.map_err(|error| error.kind())));
            }
            Program::Sharer => {
                let stored = self.share().await;
                self.note(&format!("ends: {:?}", stored.map_err(|error| error.kind())));
            }
            Program::Session { target } => {
                let rescued = self.session(target).await;
                self.note(&format!("ends: {:?}", rescued.map_err(|error| error.kind())));
            }
            Program::Retention => {
                let removed = self.retain_one().await;
                self.note(&format!("ends: {removed:?}"));
            }
            Program::Merger { runs } => {
                for _ in 0..runs {
                    let merged = self.merge_events().await;
                    self.note(&format!("has merged: {merged:?}"));
                }
            }
            Program::ContractReaper => {
                let key = layout::lock(&self.lineage);
                if self.store.bucket.get(&key, u64::MAX).await.is_ok() {
                    self.store.bucket.delete(&key).await.ok();
                }
            }
        }
    }

    fn name(&self) -> String {
        format!("run-{}", self.process)
    }

    pub(super) fn handle(&self) -> LineageHandle {
        let actor = actor(&self.name());
        LineageHandle::new(self.store.clone(), self.lineage.clone(), actor)
            .with_clock(HostClock::ahead_by_ms(self.ahead_ms))
            .with_rules(self.rules)
    }

    pub(super) fn note(&self, line: &str) {
        self.machine.inner().notes(self.process, line);
    }

    pub(super) fn report(&self, answer: &store::Result<Flip>) {
        self.machine.inner().reports(self.process, answer);
    }

    async fn hold(&self, flips: &[usize], renewals: u32, release: bool) {
        let hold = match self.handle().acquire(TERMS, Duration::ZERO).await {
            Ok(hold) => hold,
            Err(error) => {
                if let Error::LockHeld { holder, .. } = &error {
                    let by_itself = holder.run_id == self.name();
                    self.machine.inner().oracle.is_kept_out(self.process, by_itself);
                }
                return self.note(&format!("ends: {error}"));
            }
        };
        let loaded = hold.pointer().await;
        self.note(&format!("has loaded {:?}", loaded.active_sha256_prefix));
        self.machine.inner().oracle.loads(self.process, &loaded);
        for target in flips {
            for _ in 0..renewals {
                let renewed = hold.renew().await.map(|lock| lock.renewal_count);
                self.note(&format!("has renewed: {renewed:?}"));
            }
            self.machine.inner().begins_flip(self.process);
            let answer = hold.flip(self.records[*target]).await;
            self.report(&answer);
        }
        if release {
            let released = hold.release().await;
            self.note(&format!("ends: release {released:?}"));
        }
    }

    async fn go_on(&self, flip: usize) {
        let hold = match self.handle().adopt(self.twins.unwrap()).await {
            Ok(hold) => hold,
            Err(error) => return self.note(&format!("ends: {error}")),
        };
        let loaded = hold.pointer().await;
        self.machine.inner().oracle.loads(self.process, &loaded);
        self.machine.inner().begins_flip(self.process);
        let answer = hold.flip(self.records[flip]).await;
        self.report(&answer);
    }

    async fn operate(&self, target: usize, force: bool) {
        self.machine.inner().begins_flip(self.process);
        let wanted =
            Move { target: self.records[target], reason: "explored".to_owned(), force, only_from: None };
        let answer = self.handle().point(&wanted).await;
        self.report(&answer);
    }

    async fn merge_events(&self) -> store::Result<events::Merged> {
        let prefix = layout::events(&self.lineage);
        let (listed, _) = list_all(&*self.store.bucket, &prefix, Depth::All).await?;
        let terms = events::MergeTerms { after: Duration::ZERO, fewest: 1, ..Default::default() };
        events::merge(&self.store, &self.lineage, &listed, SystemTime::now(), terms, (self.rules, true)).await
    }

    async fn retain_one(&self) -> store::Result<usize> {
        let policy = retention::Policy { keep: Some(retention::Keep::One), ..Default::default() };
        let survey = retention::lineage(&self.store, &self.lineage).await?;
        let decisions = retention::plan(survey, |_| policy.clone(), Default::default());
        Ok(retention::apply(&self.store, &actor(&self.name()), &decisions).await?.len())
    }
}
