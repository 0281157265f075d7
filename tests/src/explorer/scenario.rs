//! `Scenario` describes the processes, the store at the start, and the depth of the exploration.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use store::{
    bucket::{Bucket, Key, MemoryBucket},
    catalog::{lock::Terms, pointer::Move, records, rules::Rules},
    content::{TenantStore, meta::MetaPack, moved_tree::MovedTree, snapshot_tree::SnapshotTree},
    format::{
        condemned::{Condemned, Phase},
        frame::Codec,
        index::{Index, IndexEntry, IndexPack},
        layout,
        record::{Content, Record, State},
    },
    id::{ChunkId, Nonce, PackId, PackSeq, RecordId},
    name::Lineage,
};

use super::program::Program;
use crate::{store_fixture::StoreFixture, tree::noise};

/// How many snapshots every scenario has.
const RECORDS: usize = 5;

/// How much may go wrong in one run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Writes whose answer is not the one that the store gave.
    pub faults: u32,
    /// The process and the object whose writes may fail, if not all of them.
    pub faulty: Option<(usize, &'static str)>,
    /// Whether a write may be applied and then refused. Beside programs that forget the
    /// pointer's memory, nobody could tell that from a loss.
    pub refused: bool,
    /// Whether a read may fail, which counts as a fault.
    pub failing_reads: bool,
    /// How often the clock passes every lock's time.
    pub expiries: u32,
    pub crashes: u32,
    /// How often a process is put aside although it could go on.
    pub preemptions: Option<u32>,
    /// Whether calls that one process makes at once are answered in any order.
    pub reorder: bool,
    /// Whether runs in which something fails early are tried first.
    pub faults_first: bool,
    /// Whether runs in which another process goes on early are tried first.
    pub changes_first: bool,
    /// Whether the likely is to be offered twice, which helps where lots are drawn.
    pub lots: bool,
}

impl Bounds {
    /// Nobody fails or dies, and one lock may expire.
    pub const CALM: Self = Self {
        faults: 0,
        faulty: None,
        refused: true,
        failing_reads: false,
        expiries: 1,
        crashes: 0,
        preemptions: None,
        reorder: false,
        faults_first: false,
        changes_first: false,
        lots: false,
    };
}

impl Default for Bounds {
    fn default() -> Self {
        Self { faults: 1, ..Self::CALM }
    }
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub programs: Vec<Program>,
    pub bounds: Bounds,
    pub rules: Rules,
    /// Whether the pointer names the first snapshot when it begins; else there is none.
    pub with_pointer: bool,
    /// Whether calls that concern events wait, and may fail, as others do.
    pub events_wait: bool,
    /// How far the clocks of the processes are ahead, in turn.
    pub ahead_ms: Vec<i64>,
    /// The packs, if there are any and their fate matters.
    pub packs: Option<Packs>,
    /// Whether the first snapshot has an archive when it begins, and removals may arrive late.
    pub archives: bool,
}

/// The packs of a scenario: one for each of the first two snapshots, with all that it needs; the
/// pointer names the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packs {
    Needed,
    /// The first snapshot is a tombstone, so that nothing needs its pack.
    Orphan,
    /// The first is no snapshot but a write that gave up when this host had noted its pack.
    Left,
    /// The pack of the first snapshot was condemned before that was published, and nobody is
    /// waited for any more.
    Pardonable,
    /// Real ones: of the pack of the first snapshot, which is deleted, the second needs a part.
    Half,
    /// As before, but that two snapshots need that part, the second and the third.
    Shared,
}

impl Packs {
    /// Whether they are as captures have stored them.
    pub fn are_real(self) -> bool {
        matches!(self, Self::Half | Self::Shared)
    }
}

impl Scenario {
    pub fn of(programs: impl IntoIterator<Item = Program>) -> Self {
        Self {
            programs: programs.into_iter().collect(),
            bounds: Bounds::default(),
            rules: Rules::ALL,
            with_pointer: true,
            events_wait: false,
            ahead_ms: vec![0],
            packs: None,
            archives: false,
        }
    }

    pub fn within(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    pub fn with(self, packs: Packs) -> Self {
        Self { packs: Some(packs), ..self }
    }

    pub fn with_archives(self) -> Self {
        Self { archives: true, ..self }
    }

    pub fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

/// The pack with the content that was stored for a record.
pub fn data_of(record: RecordId) -> PackId {
    PackId { write: record, seq: PackSeq::Data(0) }
}

/// The pack with the names that were stored for a record. But for [`Packs::Half`] and [`Packs::Shared`] there is
/// nothing else: files are so small that they are part of it.
pub fn pack_of(record: RecordId) -> PackId {
    PackId { write: record, seq: PackSeq::Meta }
}

/// The chunk that lies in the pack of this record.
pub fn chunk_of(store: &TenantStore, record: RecordId) -> ChunkId {
    store.key().id_of(&record.to_bytes())
}

/// The start of a run with packs.
pub fn with_packs(stage: &Stage, packs: Packs) -> BTreeMap<String, Bytes> {
    if packs.are_real() {
        return stage.objects.clone();
    }
    let tenant = &stage.store.tenant;
    let mut objects = BTreeMap::new();
    let mut put = |key: Key, bytes: Vec<u8>| objects.insert(key.to_string(), Bytes::from(bytes));
    for (number, id) in stage.records.iter().take(2).enumerate() {
        let key = layout::record(&stage.lineage, *id);
        let mut record = Record::decode(&stage.objects[key.as_str()]).unwrap();
        let (pack, (content, bytes)) = (pack_of(*id), &stage.contents[number]);
        record.content = Some(content.clone());
        if number == 0 && packs == Packs::Orphan {
            record.state = State::Tombstone;
        }
        if number == 0 && packs == Packs::Left {
            (record.state, record.content) = (State::Revoked, None);
            put(note(), pack.to_string().into_bytes());
        }
        put(key, record.encode());
        put(layout::pack(tenant, pack), bytes.to_vec());
        let entry =
            IndexEntry { id: chunk_of(&stage.store, *id), offset: 16, stored_len: 1, codec: Codec::Zstd };
        let index = Index {
            key: *stage.store.key(),
            writer: String::new(),
            packs: vec![IndexPack { pack, chunks: vec![entry] }],
        };
        put(layout::index(tenant, *id), index.encode());
    }
    put(layout::tenant_config(tenant), stage.store.config.encode());
    if packs == Packs::Pardonable {
        let mut armed = Condemned::new(vec![pack_of(stage.records[0])]);
        armed.phase = Phase::Armed;
        put(layout::condemned_by(tenant, stage.records[2]), armed.encode());
    }
    objects.extend(stage.pointer_to_second.clone());
    objects
}

/// The start of every run.
#[derive(Debug)]
pub struct Stage {
    pub store: TenantStore,
    pub lineage: Lineage,
    pub records: Vec<RecordId>,
    pub objects: BTreeMap<String, Bytes>,
    /// The first two snapshots when each is in a pack of its own, and that pack.
    contents: Vec<(Content, Bytes)>,
    pub pointer: BTreeMap<String, Bytes>,
    pub pointer_to_second: BTreeMap<String, Bytes>,
    /// The pointer when a run has claimed it, the run's lock, and its token.
    pub held: (BTreeMap<String, Bytes>, Option<Nonce>),
}

/// Made once: snapshots of a few small files.
pub fn stage(packs: Option<Packs>) -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    static HALF: OnceLock<Stage> = OnceLock::new();
    static SHARED: OnceLock<Stage> = OnceLock::new();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match packs {
        Some(Packs::Half) => HALF.get_or_init(|| runtime().block_on(set_up_real(2))),
        Some(Packs::Shared) => SHARED.get_or_init(|| runtime().block_on(set_up_real(3))),
        _ => STAGE.get_or_init(|| runtime().block_on(set_up())),
    }
}

/// Some snapshots, the first of them deleted, with all that was stored for them.
async fn set_up_real(snapshots: u64) -> Stage {
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kept"), noise(3000, 1)).unwrap();
    let mut records = Vec::new();
    for round in 0..snapshots {
        std::fs::write(folder.path().join("other"), noise(6000, 2 + round)).unwrap();
        records.push(fixture.snapshot(folder.path()).await.unwrap().record);
    }
    fixture.handle("stage").delete(records[0], "").await.unwrap();
    let mut objects = BTreeMap::new();
    for key in memory.keys().into_iter().filter(|key| !key.contains("/events/")) {
        let bytes = memory.get(&Key::new(key.as_str()).unwrap(), u64::MAX).await.unwrap().bytes;
        objects.insert(key, bytes);
    }
    let StoreFixture { store, lineage, .. } = fixture;
    let (contents, pointer, pointer_to_second, held) = Default::default();
    Stage { store, lineage, records, objects, contents, pointer, pointer_to_second, held }
}

async fn set_up() -> Stage {
    let memory: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(Arc::clone(&memory), None).await;
    let records = fixture.snapshots(RECORDS).await;
    let first = Move { target: records[0], reason: String::new(), force: true, only_from: None };
    fixture.handle("stage").point(&first).await.unwrap();
    let read = async |key: Key| (key.to_string(), memory.get(&key, u64::MAX).await.unwrap().bytes);
    let mut objects = BTreeMap::new();
    for record in &records {
        objects.extend([read(layout::record(&fixture.lineage, *record)).await]);
    }
    let pointer = [read(layout::latest(&fixture.lineage)).await].into();
    let hold = fixture.handle("twin").acquire(Terms::default(), Duration::ZERO).await.unwrap();
    let both = [read(layout::latest(&fixture.lineage)).await, read(layout::lock(&fixture.lineage)).await];
    let held = (both.into(), Some(hold.token().await));
    hold.release().await.unwrap();
    let second = Move { target: records[1], reason: String::new(), force: true, only_from: None };
    fixture.handle("stage").point(&second).await.unwrap();
    let pointer_to_second = [read(layout::latest(&fixture.lineage)).await].into();
    let mut contents = Vec::new();
    for id in &records[..2] {
        contents.push(alone(&fixture, *id).await);
    }
    let StoreFixture { store, lineage, .. } = fixture;
    Stage { store, lineage, records, objects, contents, pointer, pointer_to_second, held }
}

/// A snapshot in one pack that no other snapshot needs.
async fn alone(fixture: &StoreFixture, id: RecordId) -> (Content, Bytes) {
    let (record, _) = records::get(&fixture.store, &fixture.lineage, id).await.unwrap();
    let root = record.content.as_ref().unwrap().root.pack;
    let mut tree = MovedTree::new(Arc::new(SnapshotTree::open(&fixture.store, &record).await.unwrap()));
    let mut pack = MetaPack::new(&fixture.store, id).unwrap();
    let moved = tree.move_on((&mut pack, &fixture.store), |location| *location, |_| true, root).await;
    let content = moved.unwrap().unwrap();
    assert_eq!(content.packs.iter().map(|used| used.pack).collect::<Vec<_>>(), [pack_of(id)]);
    (content, pack.seal(&fixture.store).bytes)
}

/// The key under which a host notes its captures' packs.
pub(super) fn note() -> Key {
    Key::new("note").unwrap()
}
