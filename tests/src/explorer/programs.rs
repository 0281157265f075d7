//! `programs` defines what the processes do. Those of pstore run its own code; the others speak the contract and
//! nothing else, as programs do that share a bucket with it.

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
        lease::{DurableWrite, WriteLease},
        lineage_handle::LineageHandle,
        lock::Terms,
        pins::Renewal,
        pointer::{Flip, Move},
        records::{self, list_all},
        rules::Rules,
    },
    content::{
        TenantStore,
        chunk::Locations,
        dedup_index::DedupIndex,
        reader::{Want, plan},
        upload::WriteSession,
    },
    format::{
        frame::Codec,
        layout,
        record::{PackUse, Record, State},
        table::Location,
    },
    id::{Nonce, PackId, PackSeq, RecordId},
    name::Lineage,
    ops::{
        archive::publish,
        gc::{self, repack},
        read::{
            locate::followed,
            open::{self, Opened},
        },
        retention,
    },
};

use super::{
    machine::Machine,
    oracle::Role,
    scenario::{chunk_of, data_of, pack_of},
};
use crate::store_fixture::actor;

pub(super) const TERMS: Terms = Terms { ttl: Duration::from_secs(300), with_process: false };

/// What a process does. Records are named by their number in the scenario.
#[derive(Clone, Debug)]
pub enum Program {
    /// Takes the lock, moves the pointer to each of these, renewing before each as often as
    /// it is told, and gives the lock back.
    Holder {
        flips: Vec<usize>,
        renewals: u32,
        release: bool,
    },
    /// Works with the lock that the scenario begins with, as a twin does after its machine was
    /// resumed from an image: moves the pointer to this.
    Twin {
        flip: usize,
    },
    /// Commits a mount: takes the lock, writes down which flip it means, and makes it. If it
    /// dies, somebody goes on with it.
    Commit {
        target: usize,
        resumes: bool,
    },
    /// Rolls back to a snapshot.
    Operator {
        target: usize,
        force: bool,
    },
    Deleter {
        target: usize,
    },
    /// Deletes a snapshot, and goes on with that as often as it fails, up to so many times.
    Remover {
        target: usize,
        times: u32,
    },
    /// Deletes the whole profile, and goes on with that as often as it fails, up to so many times.
    Eraser {
        times: u32,
    },
    /// Takes the lock, stores a snapshot that has the chunk of this one, and moves the pointer to it.
    Run {
        shares: usize,
    },
    /// Publishes a snapshot. All of a scenario have the same content.
    Publisher {
        target: usize,
    },
    /// Takes a publication for dead, as a collection does after a day.
    Abandoner {
        target: usize,
    },
    Reaper,
    ForceUnlock,
    /// Flips as the contract says, three times at most; with the lock if it is to take it.
    ContractWriter {
        prefix: &'static str,
        locks: bool,
    },
    /// Deletes an expired lock, as the contract says.
    ContractReaper,
    /// Stores a snapshot that has the chunk of this one, where it lies if that is allowed;
    /// and moves the pointer to it if it is to.
    Writer {
        shares: usize,
        flips: bool,
    },
    /// Pins a snapshot, renews the pin so often, and reads the snapshot.
    Reader {
        target: usize,
        renewals: u32,
    },
    /// Works on a snapshot in a session whose daemon is killed, and is rescued.
    Session {
        target: usize,
    },
    /// Collects garbage, so many times; and forgets at once what is gone, if it is to.
    Collector {
        runs: u32,
        forgets: bool,
    },
    /// Removes all but the current snapshot.
    Retention,
    /// Puts all events together, so many times.
    Merger {
        runs: u32,
    },
    /// Moves all of a snapshot to another pack.
    Mover {
        target: usize,
    },
    /// Empties the pack of the first snapshot, of which the others need a part, in a write for each of them.
    Repacker,
    /// As before, but that the second snapshot is deleted once it has looked at them all.
    LateRepacker,
    /// Stores what every capture of this host stores: where another one has left it if that is noted
    /// and allowed, else in a pack of its own, which it notes.
    Capture,
    /// Reads the second snapshot without a pin, as a mount does that has the lock.
    Follower,
    /// Finds that the pack of the first snapshot is lost, and says so.
    Repair,
    /// Stores a snapshot that has the chunk of the first, which it knows from the indexes.
    Sharer,
}

impl Program {
    pub fn role(&self) -> Role {
        match self {
            Self::Holder { .. } | Self::Twin { .. } | Self::Commit { .. } | Self::Run { .. } => Role::Holder,
            Self::Operator { .. } => Role::Operator,
            Self::Deleter { .. } | Self::Remover { .. } | Self::Eraser { .. } => Role::Deleter,
            Self::Publisher { .. } => Role::Publisher,
            Self::Abandoner { .. } => Role::Collector,
            Self::Reaper => Role::Reaper,
            Self::ForceUnlock => Role::ForceUnlock,
            Self::ContractWriter { .. } | Self::ContractReaper => Role::Contract,
            Self::Writer { .. } | Self::Mover { .. } => Role::Writer,
            Self::Repacker | Self::LateRepacker | Self::Capture | Self::Sharer => Role::Writer,
            Self::Reader { .. } | Self::Follower | Self::Session { .. } => Role::Reader,
            Self::Collector { .. } | Self::Merger { .. } | Self::Repair => Role::Collector,
            Self::Retention => Role::Deleter,
        }
    }
}

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
                let packer = super::archives::Fake;
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
                let written = self.write(shares, flips).await;
                self.note(&format!("ends: {:?}", written.map(|_| "stored").map_err(|error| error.kind())));
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
        let wanted = Move { target: self.records[target], reason: "explored".to_owned(), force };
        let answer = self.handle().point(&wanted).await;
        self.report(&answer);
    }

    /// As a capture does it whose tenant has many packs: the lease, then what is barred, then the
    /// snapshot it builds on, then packs it knows from elsewhere; then its own packs, and the record.
    pub(super) async fn write(&self, shares: usize, flips: bool) -> store::Result<RecordId> {
        let shared = self.records[shares];
        let (base, _) = records::get(&self.store, &self.lineage, self.records[1]).await?;
        let chunk = chunk_of(&self.store, shared);
        let place = Location { pack: pack_of(shared), offset: 16, stored_len: 1, codec: Codec::Zstd };
        let known = Arc::new(DedupIndex::new(Locations::from([(chunk, place)]), None));
        let mut draft = base.clone();
        (draft.content, draft.deletion) = (None, None);
        let lease = WriteLease::new(self.store.clone(), self.lineage.clone(), draft, Arc::clone(&known))
            .with_rules(self.rules);
        let look = async || match records::get(&self.store, &self.lineage, shared).await {
            Ok((now, _)) if matches!(now.state, State::Live | State::Trashed) => {
                let packs = now.content.iter().flat_map(|content| &content.packs);
                known.is_there(packs.map(|used| used.pack).collect::<Vec<PackId>>());
            }
            _ => {}
        };
        if !self.rules.base_after_condemned {
            look().await;
        }
        if !self.rules.ask_after_condemned {
            lease.make_sure_of([place.pack]).await?;
        }
        let write = lease.open().await?;
        if self.rules.base_after_condemned {
            look().await;
        }
        if self.rules.ask_for_packs {
            lease.make_sure_of(known.locate(&chunk).map(|location| location.pack)).await?;
        }
        let put = async |pack: PackId| {
            let key = layout::pack(&self.store.tenant, pack);
            store::bucket::put_unique(&*self.store.bucket, &key, pack.to_string().into_bytes().into()).await
        };
        let data = match known.locate(&chunk) {
            Some(location) => location.pack,
            None => {
                put(data_of(write)).await?;
                data_of(write)
            }
        };
        let meta = PackId { write, seq: PackSeq::Meta };
        put(meta).await?;
        let mut content = base.content.clone().unwrap();
        content.packs = [data, meta].map(|pack| PackUse { pack, live_bytes: 1 }).to_vec();
        content.packs.sort_by_key(|used| used.pack);
        let durable = DurableWrite { write, stored_bytes: 1 };
        let record = lease.make_live(&durable, |record| record.content = Some(content)).await?;
        if flips {
            let wanted = Move { target: record.record, reason: String::new(), force: true };
            self.handle().point(&wanted).await?;
        }
        Ok(record.record)
    }

    /// Moves what the snapshots need of the pack to another, one of them at a time; one may be deleted
    /// in between.
    async fn repack(
        &self,
        emptied: PackId,
        of: &[RecordId],
        deleted: Option<RecordId>,
    ) -> store::Result<u64> {
        let key = layout::pack(&self.store.tenant, emptied);
        let len = self.store.bucket.get(&key, u64::MAX).await?.bytes.len() as u64;
        let records: Vec<_> = of.iter().map(|record| (self.lineage.clone(), *record)).collect();
        let rehearsal = repack::DryRun::default();
        let packs = [(emptied, len)];
        let survey =
            repack::survey(&self.store, &rehearsal, &packs, &records, &[], (u64::MAX, u64::MAX)).await?;
        if let Some(deleted) = deleted {
            self.handle().delete(deleted, "explored").await?;
        }
        let moved = repack::run(&self.store, &survey.in_batches_of(1), self.rules).await;
        moved.map(|moved| moved.records).map_err(|failed| failed.error)
    }

    /// As a mount does that has the lock: the pointer keeps its snapshot.
    async fn follow(&self) -> store::Result<()> {
        let (record, _) = records::get(&self.store, &self.lineage, self.records[1]).await?;
        self.fetch(&Opened::load(&self.store, record).await?).await
    }

    /// As a restore does, but that it renews its pin when it is told to.
    async fn read(&self, target: usize, renewals: u32) -> store::Result<()> {
        let id = self.records[target];
        let relies_on = |record: &Record| {
            let packs = record.content.iter().flat_map(|content| &content.packs);
            Some((id, packs.map(|used| used.pack).collect()))
        };
        let (record, _) = records::get(&self.store, &self.lineage, id).await?;
        let (kept, mut opened) = open::kept(&self.store, &record, self.rules).await?;
        let (pinned, pack_oracle) = kept.expect("everybody may write here");
        pack_oracle.stop();
        self.machine.inner().reads(self.process, relies_on(&opened.record));
        for _ in 0..renewals {
            // The snapshot stays all the time, where it was and where it is now only at its ends.
            self.machine.inner().reads(self.process, Some((id, Vec::new())));
            if let Renewal::Moved(record) = pinned.renew().await? {
                opened.record = *record;
            }
            self.machine.inner().reads(self.process, relies_on(&opened.record));
        }
        if let Err(error) = self.fetch(&opened).await {
            self.machine.inner().lacks_what_it_pinned(self.process, &error);
        }
        self.machine.inner().reads(self.process, None);
        pinned.release().await;
        Ok(())
    }

    /// Every chunk of a snapshot, wherever it is by now.
    async fn fetch(&self, opened: &Opened) -> store::Result<()> {
        let whereabouts = followed(&self.store, &opened.record, self.rules);
        let wants = opened.pieces().flatten().map(|piece| Want {
            id: piece.id,
            raw_len: piece.raw_len,
            location: piece.location,
            purpose: (),
        });
        for fetch in plan(wants) {
            whereabouts.fetch(&self.store, fetch).await?;
        }
        Ok(())
    }

    async fn merge_events(&self) -> store::Result<events::Merged> {
        let prefix = layout::events(&self.lineage);
        let (listed, _) = list_all(&*self.store.bucket, &prefix, Depth::All).await?;
        let terms = events::Terms { after: Duration::ZERO, fewest: 1, ..Default::default() };
        events::merge(&self.store, &self.lineage, &listed, SystemTime::now(), terms, (self.rules, true)).await
    }

    async fn retain_one(&self) -> store::Result<usize> {
        let policy = retention::Policy { keep: Some(retention::Keep::One), ..Default::default() };
        let survey = retention::lineage(&self.store, &self.lineage).await?;
        let decisions = retention::plan(survey, |_| policy.clone(), Default::default());
        Ok(retention::apply(&self.store, &actor(&self.name()), &decisions).await?.len())
    }
}
