//! Checks that what is stored is what it should be, from the pointer down to every byte.
//!
//! Everything is read from the bucket, never from a cache. One damaged object does not
//! end the check: the rest is still looked at, and every finding names its object, the
//! snapshots that need it and, where it can be told, the files.

mod repair;
mod sample;

pub use sample::Sample;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt, stream};

use crate::{
    Error, ErrorKind, Result,
    bucket::{BucketError, Depth, Key, Version},
    catalog::{
        controls::Controls,
        events, pointer,
        records::{self, list_all},
    },
    content::{
        TenantStore,
        meta::Metadata,
        reader::{Fetch, Verified, Want, plan},
        workers::blocking,
    },
    format::{
        FormatError,
        index::Index,
        layout,
        pack::{self, Directory, PackEntry},
        record::{Record, State},
        table::Location,
    },
    id::{ChunkId, PackId, PackSeq},
    name::Lineage,
    progress::{Progress, Tick},
};

const REQUESTS_AT_ONCE: usize = 4;
/// How often indexes are looked at before one is said to be missing.
const INDEX_LOOKS: u32 = 3;
/// How many damaged files are named; the rest are counted.
const NAMED_FILES: usize = 20;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Read and check chunks, not only where they should be.
    pub read_data: bool,
    /// Only those of some packs.
    pub sample: Option<Sample>,
    /// Make good what can be.
    pub repair: bool,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub object: String,
    pub reason: String,
    /// Short names of the snapshots that need the object.
    pub snapshots: Vec<String>,
    /// Files that cannot be restored because of it, at most a few.
    pub files: Vec<String>,
    pub more_files: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub snapshots: u64,
    pub packs: u64,
    pub chunks: u64,
    pub read_bytes: u64,
    pub damage: Vec<Damage>,
    /// What was wrong and is not any more.
    pub repaired: Vec<Damage>,
}

pub async fn verify(
    store: &TenantStore,
    lineage: &Lineage,
    options: Options,
    progress: Arc<dyn Progress>,
) -> Result<Report> {
    let check = Check {
        store,
        lineage,
        options,
        progress,
        sizes: HashMap::new(),
        directories: HashMap::new(),
        checked: HashSet::new(),
        findings: BTreeMap::new(),
        lost_indexes: LostIndexes::default(),
        report: Report::default(),
    };
    check.run().await
}

struct Check<'a> {
    store: &'a TenantStore,
    lineage: &'a Lineage,
    options: Options,
    progress: Arc<dyn Progress>,
    sizes: HashMap<PackId, u64>,
    /// What each pack says it holds; `None` if it cannot be read.
    directories: HashMap<PackId, Option<HashMap<u64, PackEntry>>>,
    /// Chunks that were read, by place.
    checked: HashSet<(PackId, u64)>,
    findings: BTreeMap<(String, String), Finding>,
    lost_indexes: LostIndexes,
    report: Report,
}

/// What no index names, though snapshots need it, and indexes that cannot be read.
#[derive(Default)]
struct LostIndexes {
    packs: BTreeSet<PackId>,
    unreadable: Vec<Key>,
}

#[derive(Clone, Default, PartialEq)]
struct Finding {
    snapshots: BTreeSet<String>,
    files: BTreeSet<String>,
}

/// A fetch whose chunks were checked: how many bytes were read, and for each chunk that is
/// damaged the file that needs it and what is wrong.
type Checked = (Fetch<Use>, Result<(u64, Vec<(usize, String)>)>);

/// What a chunk is needed for, and what its stored bytes should add up to.
#[derive(Clone, Copy, Debug)]
struct Use {
    file: usize,
    crc: u32,
}

impl Check<'_> {
    async fn run(mut self) -> Result<Report> {
        // Against the order of writing, so that a snapshot taken meanwhile is not mistaken for
        // damage: the pointer first, then records, then packs.
        let pointer = pointer::read(self.store, self.lineage).await;
        let records = records::list(self.store, self.lineage).await?;
        self.list_packs().await?;
        let mut live = Vec::new();
        for record in records {
            match record {
                Ok(record) if matches!(record.state, State::Live | State::Trashed) => live.push(record),
                Ok(_) => {}
                Err(error) => self.damaged(error, "", None)?,
            }
        }
        let version = pointer.as_ref().ok().and_then(|read| read.as_ref()).map(|read| read.version.clone());
        self.pointer(pointer, &live)?;
        if !self.findings.is_empty() && self.pointer_version().await? != version {
            // It was moved while we looked: what it named then may rightly be gone.
            self.findings.clear();
        }
        for record in &mut live {
            self.follow(record).await?;
            self.report.snapshots += 1;
        }
        self.indexes(live).await?;
        self.lock_and_events().await?;
        self.report.packs = self.directories.len() as u64;
        self.report.chunks = self.checked.len() as u64;
        if self.options.repair {
            self.repair().await?;
        }
        self.report.damage = self.findings.into_iter().map(damage).collect();
        Ok(self.report)
    }

    async fn list_packs(&mut self) -> Result<()> {
        let (packs, _) =
            list_all(&*self.store.bucket, &layout::packs(&self.store.tenant), Depth::All).await?;
        self.sizes =
            packs.iter().filter_map(|entry| Some((entry.key.name().parse().ok()?, entry.size))).collect();
        Ok(())
    }

    /// Checks a snapshot, wherever its chunks are moved meanwhile. What is wrong with one that
    /// is deleted meanwhile does not count.
    async fn follow(&mut self, record: &mut Record) -> Result<()> {
        let name = record.sha256_prefix();
        let before = self.findings.clone();
        loop {
            if let Err(error) = self.snapshot(record, &name).await {
                self.damaged(error, &name, None)?;
            }
            if self.findings == before {
                return Ok(());
            }
            match self.now(record).await? {
                Some(now) if now.generation == record.generation => return Ok(()),
                Some(now) => {
                    *record = now;
                    self.list_packs().await?;
                    self.directories.retain(|_, directory| directory.is_some());
                    self.findings = before.clone();
                }
                None => {
                    self.findings = before;
                    return Ok(());
                }
            }
        }
    }

    async fn pointer_version(&self) -> Result<Option<Version>> {
        match pointer::read(self.store, self.lineage).await {
            Ok(read) => Ok(read.map(|read| read.version)),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The record as it is now, if it still holds a snapshot.
    async fn now(&self, record: &Record) -> Result<Option<Record>> {
        match records::get(self.store, self.lineage, record.record).await {
            Ok((now, _)) => Ok(Some(now).filter(|now| matches!(now.state, State::Live | State::Trashed))),
            Err(error) if is_damage(&error) => Ok(Some(record.clone())),
            Err(Error::Bucket(BucketError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A lock and events that cannot be read keep nobody from their data, and are damage all
    /// the same.
    async fn lock_and_events(&mut self) -> Result<()> {
        let controls = Controls::new(self.store.clone(), self.lineage.clone(), Default::default());
        if let Err(error) = controls.lock().await {
            self.damaged(error, "", None)?;
        }
        for event in events::log(self.store, self.lineage, None).await? {
            if let Err(error) = event {
                self.damaged(error, "", None)?;
            }
        }
        Ok(())
    }

    fn pointer(&mut self, read: Result<Option<pointer::Read>>, live: &[Record]) -> Result<()> {
        let read = match read {
            Ok(read) => read,
            Err(error) => return self.damaged(error, "", None),
        };
        let key = layout::latest(self.lineage);
        let Some(read) = read else {
            // A first capture may have ended between being stored and being pointed at; a
            // second one follows only a pointer.
            if live.iter().any(|record| record.parent.is_some()) {
                self.find(key, "it is missing, though there are snapshots", "", None);
            }
            return Ok(());
        };
        let Some(block) = read.pointer.block() else {
            if read.pointer.pstore.is_some() {
                self.find(
                    key,
                    "it was changed after pstore wrote it, by another program or by damage",
                    "",
                    None,
                );
            }
            // A pointer that another program wrote is not ours to judge.
            return Ok(());
        };
        let Some(target) = block.record else { return Ok(()) };
        match live.iter().find(|record| record.record == target) {
            None => self.find(key, format!("it names record {target}, which holds no snapshot"), "", None),
            Some(record)
                if record.content.as_ref().map(|content| content.snapshot_id) != block.snapshot_id =>
            {
                self.find(key, format!("it names another content than record {target} has"), "", None);
            }
            Some(_) => {}
        }
        Ok(())
    }

    async fn snapshot(&mut self, record: &Record, name: &str) -> Result<()> {
        let Some(content) = &record.content else { return Ok(()) };
        let metadata = Metadata::fetch(self.store, content).await?;
        let (entries, locations) = metadata.decode()?;
        let mut needed: BTreeSet<PackId> = locations.iter().map(|location| location.pack).collect();
        needed.extend(metadata.root.blobs().map(|blob| blob.pack));
        drop(metadata);
        let listed: BTreeSet<PackId> = content.packs.iter().map(|used| used.pack).collect();
        let unread = needed.union(&listed).filter(|pack| !self.directories.contains_key(pack));
        let unread: Vec<PackId> = unread.copied().collect();
        self.read_directories(unread, name).await?;
        if let Some(pack) = needed.difference(&listed).next() {
            let key = layout::record(self.lineage, record.record);
            self.find(key, format!("it does not say that it needs pack {pack}"), name, None);
        }
        let paths: Vec<String> = entries.iter().map(|entry| entry.path.to_string()).collect();
        let uses = entries
            .iter()
            .enumerate()
            .flat_map(|(file, entry)| entry.chunks().map(move |chunk| (chunk, file)));
        let mut wants = Vec::new();
        for (((id, raw_len), file), location) in uses.zip(&locations) {
            if let Some(crc) = self.placed(&id, raw_len, location, name, &paths[file])
                && self.checked.insert((location.pack, location.offset))
            {
                wants.push(Want { id, raw_len, location: *location, purpose: Use { file, crc } });
            }
        }
        if !self.options.read_data {
            return Ok(());
        }
        if let Some(sample) = self.options.sample {
            wants.retain(|want| sample.holds(want.location.pack));
        }
        self.read(wants, name, &paths).await
    }

    /// Reads and checks chunks, as many fetches at a time as are under way; each holds a few
    /// megabytes.
    async fn read(&mut self, wants: Vec<Want<Use>>, name: &str, paths: &[String]) -> Result<()> {
        let fetches = plan(wants);
        self.progress.begin("verify", 0, fetches.iter().map(|fetch| fetch.end - fetch.start).sum());
        let store = self.store;
        let mut checked = stream::iter(fetches).map(|fetch| check(store, fetch)).buffered(REQUESTS_AT_ONCE);
        while let Some((fetch, result)) = checked.next().await {
            let (len, damaged) = match result {
                Ok(checked) => checked,
                Err(error) if is_damage(&error) => {
                    for want in &fetch.wants {
                        self.note(&error, name, Some(&paths[want.purpose.file]));
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (file, reason) in damaged {
                let object = layout::pack(&store.tenant, fetch.pack);
                self.find(object, reason, name, Some(&paths[file]));
            }
            self.report.read_bytes += len;
            self.progress.tick(Tick { bytes: len, transferred_bytes: len, ..Tick::default() });
        }
        Ok(())
    }

    /// The checksum of the chunk's stored bytes, if the pack's own directory has it at this place.
    fn placed(
        &mut self,
        id: &ChunkId,
        raw_len: u32,
        location: &Location,
        name: &str,
        file: &str,
    ) -> Option<u32> {
        let Some(Some(directory)) = self.directories.get(&location.pack) else {
            let object = layout::pack(&self.store.tenant, location.pack);
            self.find(object, "it cannot be used", name, Some(file));
            return None;
        };
        let entry = directory.get(&location.offset).filter(|entry| {
            entry.id == *id
                && entry.raw_len == raw_len
                && entry.stored_len == location.stored_len
                && entry.codec == location.codec
        });
        let crc = entry.map(|entry| entry.crc);
        if crc.is_none() {
            let object = layout::pack(&self.store.tenant, location.pack);
            self.find(object, format!("chunk {id} is not where the snapshot says it is"), name, Some(file));
        }
        crc
    }

    async fn read_directories(&mut self, packs: Vec<PackId>, name: &str) -> Result<()> {
        let this = &*self;
        let read: Vec<_> = stream::iter(packs)
            .map(|id| async move { (id, this.read_directory(id).await) })
            .buffered(REQUESTS_AT_ONCE)
            .collect()
            .await;
        for (id, directory) in read {
            let directory = match directory {
                Ok(directory) => {
                    Some(directory.entries.into_iter().map(|entry| (entry.offset, entry)).collect())
                }
                Err(error) => {
                    self.damaged(error, name, None)?;
                    None
                }
            };
            self.directories.insert(id, directory);
        }
        Ok(())
    }

    async fn read_directory(&self, id: PackId) -> Result<Directory> {
        let key = layout::pack(&self.store.tenant, id);
        let Some(&len) = self.sizes.get(&id) else {
            return Err(Error::Missing { object: key.to_string(), by: "a snapshot needs it" });
        };
        let head = self.store.pack_range(id, 0, len.min(pack::HEADER_LEN as u64)).await?;
        pack::check_header(&head).map_err(|error| error.of(&key))?;
        let (directory, offset) = self.store.pack_directory(id, len).await?;
        if id.seq == PackSeq::Meta {
            let frames = self.store.pack_range(id, 0, offset).await?;
            let whole = |entry: &&PackEntry| {
                let end = entry.offset.saturating_add(entry.stored_len.into());
                let stored = frames.get(entry.offset as usize..end as usize);
                stored.is_some_and(|stored| crc32c::crc32c(stored) == entry.crc)
            };
            if let Some(entry) = directory.entries.iter().find(|entry| !whole(entry)) {
                return Err(Error::damaged(key, changed(entry.offset)));
            }
        }
        Ok(directory)
    }

    /// Indexes are hints, but a damaged or missing one makes snapshots larger than need be.
    async fn indexes(&mut self, live: Vec<Record>) -> Result<()> {
        let before = self.findings.clone();
        let mut live = live;
        // While we look, a collection may merge indexes, and snapshots may be deleted.
        for _ in 0..INDEX_LOOKS {
            self.findings = before.clone();
            self.lost_indexes = LostIndexes::default();
            self.look_at_indexes(&live).await?;
            if self.findings == before {
                break;
            }
            let mut kept = Vec::new();
            for record in live {
                kept.extend(self.now(&record).await?);
            }
            live = kept;
        }
        Ok(())
    }

    async fn look_at_indexes(&mut self, live: &[Record]) -> Result<()> {
        let (entries, _) =
            list_all(&*self.store.bucket, &layout::indexes(&self.store.tenant), Depth::All).await?;
        let mut covered = HashSet::new();
        let bucket = &self.store.bucket;
        let mut objects = stream::iter(entries)
            .map(|entry| async move { (bucket.get(&entry.key).await, entry) })
            .buffered(REQUESTS_AT_ONCE);
        while let Some((object, entry)) = objects.next().await {
            let object = match object {
                Err(BucketError::NotFound { .. }) => continue,
                object => object?,
            };
            match Index::decode(&object.bytes) {
                Ok(index) => covered.extend(index.packs.into_iter().map(|pack| pack.pack)),
                Err(error) => {
                    self.find(&entry.key, error.to_string(), "", None);
                    // One that a newer pstore wrote is not damaged.
                    if matches!(error, FormatError::Malformed(_)) {
                        self.lost_indexes.unreadable.push(entry.key);
                    }
                }
            }
        }
        let used =
            live.iter().filter_map(|record| record.content.as_ref()).flat_map(|content| &content.packs);
        let data: BTreeSet<PackId> =
            used.map(|used| used.pack).filter(|pack| pack.seq != PackSeq::Meta).collect();
        for pack in data.into_iter().filter(|pack| !covered.contains(pack)) {
            self.lost_indexes.packs.insert(pack);
            let key = layout::index(&self.store.tenant, pack.write);
            self.find(key, "the index of this write is missing or damaged; nothing is lost, but its chunks may be stored twice", "", None);
        }
        Ok(())
    }

    /// Notes damage; any other error ends the check.
    fn damaged(&mut self, error: Error, snapshot: &str, file: Option<&str>) -> Result<()> {
        if !is_damage(&error) {
            return Err(error);
        }
        self.note(&error, snapshot, file);
        Ok(())
    }

    fn note(&mut self, error: &Error, snapshot: &str, file: Option<&str>) {
        match error {
            Error::Damaged { object, reason } => self.find(object, reason, snapshot, file),
            Error::Missing { object, by } => {
                self.find(object, format!("it is missing, though {by}"), snapshot, file);
            }
            error => self.find("the store", error, snapshot, file),
        }
    }

    fn find(&mut self, object: impl ToString, reason: impl ToString, snapshot: &str, file: Option<&str>) {
        let finding = self.findings.entry((object.to_string(), reason.to_string())).or_default();
        if !snapshot.is_empty() {
            finding.snapshots.insert(snapshot.to_owned());
        }
        finding.files.extend(file.map(ToOwned::to_owned));
    }
}

/// A newer format is a finding too: the rest can still be checked.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat)
}

fn changed(offset: u64) -> String {
    format!("its frame at {offset} is not as it was written")
}

/// Fetches some chunks and checks each, away from the threads that wait.
async fn check(store: &TenantStore, fetch: Fetch<Use>) -> Checked {
    let bytes = match store.pack_range(fetch.pack, fetch.start, fetch.end).await {
        Ok(bytes) => bytes,
        Err(error) => return (fetch, Err(error)),
    };
    let (key, fetch) = (*store.key(), Arc::new(fetch));
    let shared = Arc::clone(&fetch);
    let checked = blocking(move || {
        let wrong = |want: &Want<Use>| {
            let stored = shared.stored(want, &bytes);
            let checked = Verified::check(&key, &want.id, want.location.codec, stored, want.raw_len);
            let reason = match checked {
                Err(error) => error.to_string(),
                // Some bits of a frame may change without changing what it holds.
                Ok(_) if crc32c::crc32c(stored) != want.purpose.crc => changed(want.location.offset),
                Ok(_) => return None,
            };
            Some((want.purpose.file, reason))
        };
        Ok((bytes.len() as u64, shared.wants.iter().filter_map(wrong).collect()))
    });
    let checked = checked.await;
    (Arc::unwrap_or_clone(fetch), checked)
}

fn damage(((object, reason), finding): ((String, String), Finding)) -> Damage {
    let more_files = finding.files.len().saturating_sub(NAMED_FILES) as u64;
    let files = finding.files.into_iter().take(NAMED_FILES).collect();
    Damage { object, reason, snapshots: finding.snapshots.into_iter().collect(), files, more_files }
}
