//! `machine` holds the state that all processes share: the bucket, the waiting calls, and their views.

use std::{
    collections::{BTreeMap, HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use futures::{FutureExt, channel::oneshot};
use store::{
    bucket::{Bucket, BucketError, Key, MemoryBucket, Result, Version, Write},
    catalog::pointer::{Flip, IntendedFlip},
    id::{PackId, RecordId},
};

use super::{
    call::{Op, Reply},
    hash_of,
    oracle::{Applied, Oracle},
    program::Role,
    trace,
};

/// Longer than any lock is held, and any grace.
const LONG: Duration = Duration::from_secs(3600);

type Answer = Result<Reply>;

#[derive(Debug)]
pub enum Submitted {
    Answered(Answer),
    Waits(oneshot::Receiver<Answer>),
}

/// A call that waits to be let through.
#[derive(Debug)]
pub struct Waiting {
    pub process: usize,
    pub op: Op,
    /// The number of the call within its process, and of its flip.
    number: u64,
    flip: usize,
    answer: oneshot::Sender<Answer>,
}

/// A write that is still on its way; its sender has given up waiting.
#[derive(Clone, Debug)]
struct Flying {
    process: usize,
    op: Op,
    flip: usize,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Answered,
    /// Applied, but the answer is lost.
    Lost,
    /// The sender gives up, and the write is still under way.
    Flying,
    /// Applied, and then refused: something on the way has sent it twice.
    Refused,
}

#[derive(Debug, Default)]
struct Process {
    calls: u64,
    /// Stands for everything it was answered.
    heard: u64,
    flip: usize,
    /// When it last wrote a pin.
    pinned: Option<u32>,
    ended: bool,
}

#[derive(Debug)]
pub struct Inner {
    pub waiting: Vec<Waiting>,
    flying: Vec<Flying>,
    processes: Vec<Process>,
    pub oracle: Oracle,
    /// The flips that mounts have noted before they tried them.
    pub journals: HashMap<usize, IntendedFlip>,
    /// How often the clock has passed every lock's time, and when each key was written.
    epoch: u32,
    written: HashMap<String, u32>,
    /// A number for each content, the same in every run in which it comes about alike.
    contents: HashMap<Version, u64>,
    collects: bool,
    trace: Option<Vec<String>>,
}

/// See the module header.
#[derive(Debug)]
pub struct Machine {
    memory: Arc<MemoryBucket>,
    /// Whether calls that concern events wait too.
    events_wait: bool,
    /// Whether the age of records, pins and condemned documents matters too.
    collects: bool,
    inner: Mutex<Inner>,
}

impl Machine {
    pub fn new(
        roles: Vec<Role>,
        objects: &BTreeMap<String, Bytes>,
        events_wait: bool,
        collects: bool,
        traced: bool,
    ) -> Self {
        let memory = Arc::new(MemoryBucket::with_page_size(100));
        let mut contents = HashMap::new();
        let mut oracle = Oracle::new(roles);
        let processes = oracle.roles().iter().map(|_| Process::default()).collect();
        for (key, bytes) in objects {
            let name = Key::new(key.as_str()).unwrap();
            let put = memory.put(&name, bytes.clone().into(), Write::Create);
            put.now_or_never().unwrap().unwrap();
            contents.insert(version_of(bytes), hash_of(key));
            oracle.starts_with(key, bytes);
        }
        let inner = Inner {
            waiting: Vec::new(),
            flying: Vec::new(),
            processes,
            oracle,
            journals: HashMap::new(),
            epoch: 0,
            written: HashMap::new(),
            contents,
            collects,
            trace: traced.then(Vec::new),
        };
        Self { memory, events_wait, collects, inner: Mutex::new(inner) }
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    pub fn memory(&self) -> &Arc<MemoryBucket> {
        &self.memory
    }

    pub fn submit(&self, process: usize, op: Op) -> Submitted {
        let mut inner = self.inner();
        let flip = inner.processes[process].flip;
        if !self.events_wait && is_quiet(&op, self.collects) {
            let answer = self.perform(&mut inner, process, &op, flip);
            inner.tell(process, &op, "", &answer);
            return Submitted::Answered(answer);
        }
        let number = inner.processes[process].calls;
        inner.processes[process].calls += 1;
        if let Op::Put { key, bytes, .. } = &op {
            let made_by = hash_of(&(process, number, inner.processes[process].heard, key.name().len()));
            inner.contents.entry(version_of(bytes)).or_insert(made_by);
        }
        let (answer, receiver) = oneshot::channel();
        inner.waiting.push(Waiting { process, op, number, flip, answer });
        Submitted::Waits(receiver)
    }

    /// Lets the call through, to the end that was chosen for it.
    pub fn let_through(&self, index: usize, end: End) {
        let mut inner = self.inner();
        let Waiting { process, op, number, flip, answer } = inner.waiting.remove(index);
        let result = match end {
            End::Answered => self.perform(&mut inner, process, &op, flip),
            End::Lost => {
                let _ = self.perform(&mut inner, process, &op, flip);
                Err(unavailable(&op))
            }
            End::Flying => {
                if is_write(&op) {
                    inner.flying.push(Flying { process, op: op.clone(), flip });
                }
                Err(unavailable(&op))
            }
            End::Refused => match self.perform(&mut inner, process, &op, flip) {
                Ok(_) => Err(refused(&op)),
                error => error,
            },
        };
        let note = match end {
            End::Answered => "",
            End::Lost => " (applied, the answer is lost)",
            End::Flying => " (still under way)",
            End::Refused => " (applied, and sent twice)",
        };
        inner.tell(process, &op, note, &result);
        let heard = inner.meaning(&op, &result);
        inner.processes[process].heard ^= hash_of(&(number, heard));
        // The process may have given the call up.
        let _ = answer.send(result);
    }

    pub fn flying(&self) -> usize {
        self.inner().flying.len()
    }

    /// A write arrives that its sender gave up.
    pub fn land(&self, index: usize) {
        let mut inner = self.inner();
        let Flying { process, op, flip } = inner.flying.remove(index);
        let answer = self.perform(&mut inner, process, &op, flip);
        inner.tell(process, &op, " (arrives late)", &answer);
    }

    /// The store's clock passes the time of every lock that is there.
    pub fn expire(&self) {
        self.memory.advance(LONG);
        let mut inner = self.inner();
        inner.epoch += 1;
        inner.oracle.pack_oracle.lapse();
        inner.say("the store's clock passes every lock's time".to_owned());
    }

    /// Whether a lock would be expired by that.
    pub fn has_fresh_lock(&self) -> bool {
        let inner = self.inner();
        inner.written.keys().any(|key| inner.is_fresh(key))
    }

    pub fn crash(&self, process: usize) {
        let mut inner = self.inner();
        inner.waiting.retain(|waiting| waiting.process != process);
        let name = inner.oracle.name(process);
        inner.say(format!("{name} dies"));
        inner.ended(process);
    }

    /// Somebody goes on with the work of a process that died.
    pub fn resume(&self, process: usize) {
        let mut inner = self.inner();
        let heard = inner.processes[process].heard;
        (inner.processes[process].heard, inner.processes[process].ended) = (hash_of(&heard), false);
    }

    /// Everything that decides how it can go on, as one number.
    pub fn state(&self, about: impl Hash) -> u64 {
        let inner = self.inner();
        let mut hasher = DefaultHasher::new();
        about.hash(&mut hasher);
        for key in self.memory.keys() {
            if is_event_key(&key) {
                continue;
            }
            let object =
                self.memory.get(&Key::new(key.as_str()).unwrap(), u64::MAX).now_or_never().unwrap().unwrap();
            (key.len(), inner.content(&object.version), inner.is_fresh(&key)).hash(&mut hasher);
        }
        let mut flying: Vec<u64> = inner
            .flying
            .iter()
            .map(|flying| match &flying.op {
                Op::Put { bytes, .. } => inner.content(&version_of(bytes)),
                op => hash_of(&format!("{op:?}")),
            })
            .collect();
        flying.sort_unstable();
        flying.hash(&mut hasher);
        for process in &inner.processes {
            (process.heard, process.calls, process.ended).hash(&mut hasher);
        }
        inner.oracle.state().hash(&mut hasher);
        hasher.finish()
    }

    pub fn take_trace(&self) -> Vec<String> {
        self.inner().trace.take().unwrap_or_default()
    }

    fn perform(&self, inner: &mut Inner, process: usize, op: &Op, flip: usize) -> Answer {
        let bucket = &*self.memory;
        let now =
            |key: &Key| bucket.get(key, u64::MAX).now_or_never().unwrap().ok().map(|object| object.bytes);
        match op {
            Op::Get(key) => {
                let object = bucket.get(key, u64::MAX).now_or_never().unwrap();
                let expired = inner.written.get(key.as_str()) != Some(&inner.epoch);
                inner.oracle.read(process, key, object.as_ref().ok().map(|object| &object.bytes), expired);
                object.map(Reply::Object)
            }
            Op::Put { key, bytes, write } => {
                let before = now(key);
                let version = bucket.put(key, bytes.clone().into(), write.clone()).now_or_never().unwrap()?;
                inner.written.insert(key.to_string(), inner.epoch);
                if is_pin(key.as_str()) {
                    inner.processes[process].pinned = Some(inner.epoch);
                }
                inner.oracle.applied(Applied { process, flip, key, before, after: Some(bytes.clone()) });
                Ok(Reply::Version(version))
            }
            Op::List { prefix, depth, cursor } => {
                bucket.list(prefix, *depth, cursor.clone()).now_or_never().unwrap().map(Reply::Page)
            }
            Op::Delete(key) => {
                let before = now(key);
                bucket.delete(key).now_or_never().unwrap()?;
                inner.oracle.applied(Applied { process, flip, key, before, after: None });
                Ok(Reply::Done)
            }
            Op::DeleteIf { key, version } => {
                let before = now(key);
                let deleted = bucket.delete_if(key, version).now_or_never().unwrap()?;
                inner.oracle.applied(Applied { process, flip, key, before, after: None });
                Ok(Reply::Deleted(deleted))
            }
        }
    }
}

impl Inner {
    fn say(&mut self, line: String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line);
        }
    }

    fn tell(&mut self, process: usize, op: &Op, note: &str, answer: &Answer) {
        if self.trace.is_some() {
            let name = self.oracle.name(process);
            self.say(format!("{name} {}{note}: {}", trace::op(op), trace::answer(op, answer)));
        }
    }

    fn content(&self, version: &Version) -> u64 {
        self.contents.get(version).copied().unwrap_or_default()
    }

    /// The age of nothing else decides anything.
    fn is_fresh(&self, key: &str) -> bool {
        let ages = |key: &str| key.contains("/snap-") || key.contains("/condemned/") || is_pin(key);
        (key.ends_with("lock.json") || (self.collects && ages(key)))
            && self.written.get(key) == Some(&self.epoch)
    }

    /// The knowledge that a process gains from an answer.
    fn meaning(&self, op: &Op, answer: &Answer) -> u64 {
        match answer {
            Ok(Reply::Object(object)) => {
                let Op::Get(key) = op else { return 0 };
                hash_of(&(1, self.content(&object.version), self.is_fresh(key.as_str())))
            }
            Ok(Reply::Page(page)) if self.collects => {
                let keys: Vec<&str> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
                hash_of(&(2, keys))
            }
            Ok(Reply::Page(page)) => hash_of(&(2, page.entries.len(), page.folders.len())),
            Ok(_) => 3,
            Err(error) => hash_of(&(4, trace::error(error))),
        }
    }

    /// The process begins a flip; its writes from now on belong to it.
    pub fn begins_flip(&mut self, process: usize) {
        self.processes[process].flip += 1;
    }

    pub fn reports(&mut self, process: usize, answer: &store::Result<Flip>) {
        let name = self.oracle.name(process);
        self.say(format!("{name} reports: {}", trace::report(answer)));
        let flip = self.processes[process].flip;
        self.oracle.reports(process, flip, answer);
    }

    pub fn notes(&mut self, process: usize, line: &str) {
        let name = self.oracle.name(process);
        self.say(format!("{name} {line}"));
    }

    /// A reader goes on with the packs of this snapshot, which it believes to have pinned.
    /// It ends with `None`.
    pub fn reads(&mut self, process: usize, snapshot: Option<(RecordId, Vec<PackId>)>) {
        let holds = self.processes[process].pinned == Some(self.epoch);
        self.oracle.reads(process, snapshot.filter(|_| holds));
    }

    /// A reader ends without the packs it has pinned.
    pub fn lacks_what_it_pinned(&mut self, process: usize, error: &store::Error) {
        if self.oracle.pack_oracle.is_reading(process) {
            self.oracle.lacks(process, error);
        }
    }

    pub fn ended(&mut self, process: usize) {
        self.processes[process].ended = true;
    }
}

/// As the bucket in memory makes it.
fn version_of(bytes: &Bytes) -> Version {
    Version::new(blake3::hash(bytes).to_hex().as_str())
}

pub fn is_write(op: &Op) -> bool {
    !matches!(op, Op::Get(_) | Op::List { .. })
}

fn is_event_key(key: &str) -> bool {
    key.contains("/events/")
}

fn is_pin(key: &str) -> bool {
    key.contains("/pins/")
}

/// Whether nobody's decisions depend on the call.
fn is_quiet(op: &Op, collects: bool) -> bool {
    match op {
        Op::Get(key) | Op::Put { key, .. } | Op::Delete(key) | Op::DeleteIf { key, .. } => {
            is_event_key(key.as_str()) || key.name() == "tenant.json"
        }
        Op::List { prefix, .. } => is_event_key(prefix.as_str()) || (!collects && is_pin(prefix.as_str())),
    }
}

fn unavailable(op: &Op) -> BucketError {
    BucketError::Unavailable {
        key: trace::key(op),
        store: "explored".to_owned(),
        reason: "silence".to_owned(),
    }
}

fn refused(op: &Op) -> BucketError {
    let key = trace::key(op);
    match op {
        Op::Put { write: Write::Create, .. } => BucketError::AlreadyExists { key },
        _ => BucketError::VersionMismatch { key },
    }
}
