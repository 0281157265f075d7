//! `Oracle` sees every write, and decides whether it was allowed.
//!
//! The oracle sees every write at the moment it is applied, by whom, and what the processes
//! report. What must hold:
//!
//! - Moves form one chain: each says where the pointer was.
//! - A holder replaces what it has loaded, or its own move; never the move of another
//!   holder or of an operator that it has not seen. (A program that knows only the
//!   contract may move the pointer under it; then that is told.)
//! - Once somebody has claimed the pointer, nobody who claimed before moves or claims it.
//! - What is reported is true: moved means applied once, not moved means never applied.
//! - The pointer never names a tombstone.
//! - Once a profile was deleted, its pointer names nothing.
//! - Of every archive that a live record names, both halves are there.
//! - A lock is taken from its holder only if it was expired when it was read, and nobody
//!   gives back a lock that is not his.
//!   Nobody is kept out by a lock of his own.
//! - No event is lost: it is stored, or still where it happened. (What a program of the
//!   contract overwrites at once, only the one it happened to can still store.)

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures::FutureExt;
use store::{
    Error,
    bucket::{Bucket, Key, MemoryBucket},
    catalog::pointer::Flip,
    format::{
        event::{Event, EventKind},
        layout,
        lock::Lock,
        merged_events::MergedEvents,
        pointer::{Pointer, Target},
        record::{Record, State},
    },
    id::{EventId, FlipId, Nonce, PackId, RecordId},
};

use super::{archives::Archives, hash_of, pack_oracle::PackOracle, program::Role};

/// A write that has just been applied, even if it is a removal.
#[derive(Debug)]
pub struct Applied<'a> {
    pub process: usize,
    pub flip: usize,
    pub key: &'a Key,
    pub before: Option<Bytes>,
    pub after: Option<Bytes>,
}

/// A process's word on one of its flips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Moved(FlipId),
    NotMoved,
    NotSure,
}

#[derive(Debug, Default)]
struct Flips {
    applied: Vec<FlipId>,
    said: Option<Said>,
}

#[derive(Debug)]
pub struct Oracle {
    roles: Vec<Role>,
    violation: Option<String>,
    /// The process of each move of the pointer.
    moves: Vec<usize>,
    /// How many moves there had been when this was written into the pointer.
    moves_at: HashMap<FlipId, usize>,
    /// How many moves a holder knew of when it began.
    loaded: HashMap<usize, usize>,
    flips: HashMap<(usize, usize), Flips>,
    /// Takings of the lock, in order.
    takings: Vec<(usize, Nonce)>,
    /// The last process that claimed, and the number of its taking.
    claim: Option<(usize, usize)>,
    lock_holder: Option<usize>,
    /// The lock as each process has read it, and whether it was expired then.
    lock_reads: HashMap<usize, (Bytes, bool)>,
    states: HashMap<RecordId, State>,
    target: Option<RecordId>,
    events: HashSet<EventId>,
    /// Targets that programs of the contract have set, and pstore has built on.
    foreign: HashSet<String>,
    history: u64,
    /// The packs that snapshots need, and those that are there.
    pub pack_oracle: PackOracle,
    archives: Archives,
    /// The process that has deleted the profile.
    erased: Option<usize>,
}

impl Oracle {
    pub fn new(roles: Vec<Role>) -> Self {
        Self {
            roles,
            violation: None,
            moves: Vec::new(),
            moves_at: HashMap::new(),
            loaded: HashMap::new(),
            flips: HashMap::new(),
            takings: Vec::new(),
            claim: None,
            lock_holder: None,
            lock_reads: HashMap::new(),
            states: HashMap::new(),
            target: None,
            events: HashSet::new(),
            foreign: HashSet::new(),
            history: 0,
            pack_oracle: PackOracle::default(),
            archives: Archives::default(),
            erased: None,
        }
    }

    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    pub fn name(&self, process: usize) -> String {
        format!("{:?} {process}", self.roles[process]).to_lowercase()
    }

    /// The history that no object shows.
    pub fn state(&self) -> u64 {
        self.history
    }

    pub fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    fn must(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(otherwise());
        }
    }

    pub fn starts_with(&mut self, key: &str, bytes: &Bytes) {
        self.pack_oracle.sees(key, Some(bytes));
        self.archives.sees(key, Some(bytes));
        if key.ends_with("latest.json") {
            let pointer = Pointer::decode(bytes).unwrap();
            self.moves_at.extend(pointer.block().map(|block| (block.flip_id, 0)));
            self.target = target(&pointer);
        } else if let Ok(record) = Record::decode(bytes) {
            self.states.insert(record.record, record.state);
        }
    }

    pub fn read(&mut self, process: usize, key: &Key, bytes: Option<&Bytes>, expired: bool) {
        if key.name() == "lock.json"
            && let Some(bytes) = bytes
        {
            self.lock_reads.insert(process, (bytes.clone(), expired));
        }
    }

    /// A holder goes to work on this pointer's target.
    pub fn loads(&mut self, process: usize, pointer: &Pointer) {
        let known = pointer.pstore.as_ref().and_then(|block| self.moves_at.get(&block.flip_id));
        let known = known.copied().unwrap_or_default();
        self.loaded.insert(process, known);
    }

    /// A process says that it has deleted the profile.
    pub fn is_erased(&mut self, process: usize) {
        self.erased = Some(process);
        self.history = hash_of(&(self.history, process, "erased"));
        self.must_be_erased();
    }

    fn must_be_erased(&mut self) {
        let Some(by) = self.erased.map(|by| self.name(by)) else { return };
        let Some(named) = self.target else { return };
        self.must(false, || format!("the pointer names {named}, and {by} had deleted the profile"));
    }

    /// A process is told who keeps it from the lock.
    pub fn is_kept_out(&mut self, process: usize, by_itself: bool) {
        let name = self.name(process);
        self.must(!by_itself, || format!("{name} waits for a lock that is its own"));
    }

    /// A reader goes on with the packs it has pinned, which must be there.
    pub fn reads(&mut self, process: usize, snapshot: Option<(RecordId, Vec<PackId>)>) {
        self.pack_oracle.reads(process, snapshot);
        if let Some(lost) = self.pack_oracle.lost() {
            let name = self.name(process);
            self.must(false, || format!("{lost}, and {name} relies on it"));
        }
    }

    /// A reader that nobody may take anything from ends without the packs it wanted.
    pub fn lacks(&mut self, process: usize, error: &Error) {
        let name = self.name(process);
        self.must(false, || format!("{name} cannot read its snapshot: {error}"));
    }

    pub fn reports(&mut self, process: usize, flip: usize, answer: &store::Result<Flip>) {
        let said = match answer {
            Ok(Flip::Flipped { flip_id, .. }) => Said::Moved(*flip_id),
            Ok(Flip::Unchanged) => Said::NotMoved,
            Err(Error::PointerUnknown { .. }) => Said::NotSure,
            Err(_) => Said::NotMoved,
        };
        self.flips.entry((process, flip)).or_default().said = Some(said);
        self.compare(process, flip);
    }

    /// Compares a process's word on a flip with the moves that happened.
    fn compare(&mut self, process: usize, flip: usize) {
        let Some(flips) = self.flips.get(&(process, flip)) else { return };
        let (times, said) = (flips.applied.len(), flips.said);
        let applied = flips.applied.first().copied();
        let name = self.name(process);
        self.must(times <= 1, || format!("{name} has flipped twice for once"));
        match said {
            Some(Said::Moved(id)) => {
                self.must(applied == Some(id), || format!("{name} reports a move that was not applied"));
            }
            Some(Said::NotMoved) => {
                self.must(times == 0, || format!("{name} reports that nothing was moved, but it was"));
            }
            Some(Said::NotSure) | None => {}
        }
    }

    pub fn applied(&mut self, applied: Applied<'_>) {
        self.pack_oracle.sees(applied.key.as_str(), applied.after.as_ref());
        self.archives.sees(applied.key.as_str(), applied.after.as_ref());
        if let Some(lost) = self.pack_oracle.lost().or_else(|| self.archives.lost()) {
            let name = self.name(applied.process);
            self.must(false, || format!("{lost}, after {name} has changed {}", applied.key.name()));
        }
        match applied.key.name() {
            "latest.json" => self.pointer_written(&applied),
            "lock.json" => self.lock_written(&applied),
            name if name.starts_with("snap-") => {
                if let Some(record) = applied.after.as_ref().and_then(|bytes| Record::decode(bytes).ok()) {
                    self.states.insert(record.record, record.state);
                }
            }
            _ => return,
        }
        let dangling = self.target.and_then(|target| self.states.get(&target)) == Some(&State::Tombstone);
        self.must(!dangling, || "the pointer names a tombstone".to_owned());
        self.must_be_erased();
    }

    fn pointer_written(&mut self, applied: &Applied<'_>) {
        let process = applied.process;
        let name = self.name(process);
        let Some(after) = applied.after.as_ref().map(|bytes| Pointer::decode(bytes).unwrap()) else {
            return self.must(false, || format!("{name} has deleted the pointer"));
        };
        let before = applied.before.as_ref().map(|bytes| Pointer::decode(bytes).unwrap());
        let was = before.as_ref().map_or("", |before| before.active_sha256_prefix.as_str());
        let block = after.block();
        let nonce = |pointer: &Pointer| pointer.block()?.lease.as_ref().map(|lease| lease.nonce);
        let claims = nonce(&after).filter(|now| before.as_ref().and_then(nonce) != Some(*now));
        let moves = block.is_none_or(|block| {
            block.event.as_ref().is_some_and(|event| event.flip_id == Some(block.flip_id))
        });
        if block.is_none() {
            let forgotten = before.as_ref().and_then(|before| before.block()?.event.as_ref());
            forgotten.map(|event| self.events.remove(&event.id));
        }
        self.target = target(&after);
        self.history = hash_of(&(self.history, process, moves, claims.is_some()));
        if let Some(before) = before.as_ref().filter(|before| before.block().is_none())
            && block.is_some()
        {
            self.foreign.insert(before.active_sha256_prefix.clone());
        }
        if moves {
            self.must(after.flipped_from_sha256_prefix == was, || {
                format!(
                    "{name} says the pointer was at {:?}, it was at {was:?}",
                    after.flipped_from_sha256_prefix
                )
            });
            self.moves.push(process);
        } else {
            let same = after.active_sha256_prefix == was;
            self.must(same, || format!("{name} has changed where the pointer points without moving it"));
        }
        if let Some(block) = block {
            let known = self.moves.len();
            self.moves_at.insert(block.flip_id, known);
            self.events.extend(block.event.as_ref().map(|event| event.id));
            if moves {
                let flips = self.flips.entry((process, applied.flip)).or_default();
                flips.applied.push(block.flip_id);
                self.compare(process, applied.flip);
            }
        }
        if self.roles[process] != Role::Holder {
            return;
        }
        if moves {
            self.holder_moved(process);
        } else if let Some(nonce) = claims {
            self.claimed(process, nonce);
        }
    }

    fn holder_moved(&mut self, process: usize) {
        let name = self.name(process);
        let loaded = self.loaded.get(&process).copied().unwrap_or_default();
        let before = self.moves[loaded..self.moves.len() - 1].iter();
        let unseen = before.copied().find(|by| *by != process && self.roles[*by] != Role::Contract);
        let by = unseen.map(|by| self.name(by));
        self.must(by.is_none(), || {
            format!(
                "{name} has moved the pointer over a move of {} that it never loaded",
                by.unwrap_or_default()
            )
        });
        let other = self.claim.map(|(by, _)| by).filter(|by| *by != process).map(|by| self.name(by));
        self.must(other.is_none(), || {
            format!(
                "{name} has moved the pointer although {} has claimed it since",
                other.unwrap_or_default()
            )
        });
    }

    fn claimed(&mut self, process: usize, nonce: Nonce) {
        let name = self.name(process);
        let Some(taking) = self.takings.iter().rposition(|taking| *taking == (process, nonce)) else {
            return self.must(false, || format!("{name} claims by a lock it has never had"));
        };
        if let Some((by, earlier)) = self.claim {
            let other = self.name(by);
            self.must(earlier <= taking || by == process, || {
                format!("{name} claims the pointer back from {other}, who took the lock after it")
            });
        }
        self.claim = Some((process, taking));
    }

    fn lock_written(&mut self, applied: &Applied<'_>) {
        let process = applied.process;
        let (name, role) = (self.name(process), self.roles[process]);
        let before = applied.before.as_ref().and_then(|bytes| Lock::decode(bytes).ok());
        let after = applied.after.as_ref().and_then(|bytes| Lock::decode(bytes).ok());
        let from = self
            .lock_holder
            .filter(|by| *by != process && before.as_ref().is_some_and(|lock| !lock.is_free()));
        let takes = after.as_ref().filter(|lock| !lock.is_free());
        if let Some(from) = from.map(|by| self.name(by)) {
            let expired = self
                .lock_reads
                .get(&process)
                .is_some_and(|(bytes, expired)| *expired && Some(bytes) == applied.before.as_ref());
            let by_right = match role {
                Role::Holder => takes.is_some() && expired,
                Role::Reaper => expired,
                Role::ForceUnlock | Role::Contract => true,
                Role::Operator
                | Role::Deleter
                | Role::Writer
                | Role::Reader
                | Role::Collector
                | Role::Publisher => false,
            };
            self.must(by_right, || format!("{name} has taken the lock from {from} without any right"));
        }
        if let Some(lock) = takes
            && let Some(block) = lock.block()
            && lock.renewal_count == 0
        {
            self.takings.push((process, block.nonce));
        }
        if role == Role::Contract {
            let forgotten = before.as_ref().and_then(|lock| lock.block()?.event.as_ref());
            forgotten.map(|event| self.events.remove(&event.id));
        }
        let event = after.as_ref().and_then(|lock| lock.block()?.event.as_ref());
        self.events.extend(event.map(|event| event.id));
        self.lock_holder = takes.map(|_| process);
        self.history = hash_of(&(self.history, process, takes.is_some()));
    }

    /// The invariants when every process has ended or died.
    pub fn at_the_end(&self, memory: &MemoryBucket, events_may_fail: bool) -> Option<String> {
        if self.violation.is_some() {
            return self.violation.clone();
        }
        let get =
            |key: &str| memory.get(&Key::new(key).unwrap(), u64::MAX).now_or_never().unwrap().unwrap().bytes;
        let mut known: Vec<Event> = Vec::new();
        for key in memory.keys() {
            if layout::event_of(&Key::new(key.as_str()).unwrap()).is_some() && key.contains("/events/") {
                known.push(Event::decode(&get(&key)).unwrap());
            } else if key.contains("/events/merged-") {
                let merged = MergedEvents::decode(&get(&key)).unwrap();
                known.extend(merged.events.into_iter().map(|stored| stored.event));
            } else if key.ends_with("latest.json") {
                known.extend(Pointer::decode(&get(&key)).unwrap().block().and_then(|b| b.event.clone()));
            } else if key.ends_with("lock.json") {
                known.extend(Lock::decode(&get(&key)).ok().and_then(|lock| lock.block()?.event.clone()));
            }
        }
        let ids: HashSet<EventId> = known.iter().map(|event| event.id).collect();
        let lost = self.events.iter().filter(|id| !ids.contains(id)).count();
        if lost > 0 {
            return Some(format!("{lost} events of what was applied are lost"));
        }
        let foreign = |event: &&Event| matches!(event.kind, EventKind::ForeignFlip | EventKind::ForeignFork);
        let told: HashSet<&str> =
            known.iter().filter(foreign).filter_map(|event| event.to_sha256_prefix.as_deref()).collect();
        let untold = self.foreign.iter().find(|to| !to.is_empty() && !told.contains(to.as_str()));
        untold
            .filter(|_| !events_may_fail)
            .map(|to| format!("no event tells that another program moved the pointer to {to}"))
    }
}

fn target(pointer: &Pointer) -> Option<RecordId> {
    match pointer.target() {
        Target::Record(record) => Some(record),
        Target::Nothing | Target::Foreign(_) => None,
    }
}
