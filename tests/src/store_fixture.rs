//! `StoreFixture` is a store, a tenant and a lineage to capture into, as short as a test wants them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use capture::chrome;
use store::{
    Result,
    bucket::{Bucket, Key, MemoryBucket, Write},
    catalog::{lineage_handle::LineageHandle, store::Store},
    content::TenantStore,
    format::{
        event::Actor,
        record::{CapturedBy, Mode, Reason, Record},
    },
    id::{FlipId, RecordId},
    name::Lineage,
    ops::{
        read::{resolve, restore},
        verify,
        write::{commit, snapshot},
    },
    progress::Silent,
    tree::write::Keeping,
};

/// Reads everything, and repairs damage.
pub const REPAIR: verify::Options = verify::Options {
    only: None,
    read_data: true,
    sample: None,
    repair: true,
    memory_bytes: verify::DEFAULT_MEMORY_BYTES,
};

/// One host's view of a store.
#[derive(Clone, Debug)]
pub struct StoreFixture {
    /// The whole bucket, as another host would see it.
    pub root: Arc<dyn Bucket>,
    pub store: TenantStore,
    pub lineage: Lineage,
}

pub fn lineage(profile: &str) -> Lineage {
    Lineage { name: profile.parse().unwrap(), chrome_major: "131".parse().unwrap() }
}

/// Somebody whose run is called `run`.
pub fn actor(run: &str) -> Actor {
    Actor { run_id: run.to_owned(), host: "test".to_owned(), ..Actor::default() }
}

/// Another bucket with the same in it.
pub async fn copy(from: &MemoryBucket) -> Arc<MemoryBucket> {
    let memory = Arc::new(MemoryBucket::with_page_size(1000));
    for key in from.keys() {
        let key = Key::new(key).unwrap();
        let bytes = from.get(&key, u64::MAX).await.unwrap().bytes;
        memory.put(&key, bytes.into(), Write::Create).await.unwrap();
    }
    memory
}

pub fn request(lineage: &Lineage, directory: &Path) -> snapshot::Request {
    snapshot::Request {
        lineage: lineage.clone(),
        directory: directory.to_owned(),
        max_bytes: None,
        quota_bytes: None,
        rescan: false,
        second_look: None,
        index_budget: 16 << 20,
        threads: 2,
        actor: actor("test"),
        lock: Default::default(),
        made_of: None,
        examiner: None,
        hold_back: None,
        archive: None,
        guess: Some(chrome::startup::guess),
        on_change: snapshot::OnChange::Refuse,
        about: snapshot::About {
            captured_by: CapturedBy {
                host: "test".to_owned(),
                host_run_id: String::new(),
                writer_version: "test".to_owned(),
                unknown: Default::default(),
            },
            captured_in: None,
            mode: Mode::Cold,
            reason: Reason::Manual,
            labels: Default::default(),
            notes: String::new(),
            chrome_last_version: None,
            exit_type: None,
            chrome_uptime_seconds: 0,
            fallback: None,
            transforms: Vec::new(),
            exclusions: Vec::new(),
            in_progress: None,
        },
    }
}

/// The commit request of a mount that is seen at `path`.
pub fn commit_request(lineage: &Lineage, path: &Path) -> commit::Request {
    commit::Request {
        lineage: lineage.clone(),
        path: path.to_owned(),
        about: request(lineage, path).about,
        threads: 2,
        examined: Default::default(),
        hold_back: None,
        first_reads: Default::default(),
        quota_bytes: None,
        flip_id: FlipId::from_bytes(store::id::random()),
        archive: None,
        earlier: None,
        trusts_base: true,
        guess: Some(chrome::startup::guess),
    }
}

impl StoreFixture {
    /// Opens `acme/alice`, with a cache at `cache` if there is one.
    pub async fn open(bucket: Arc<dyn Bucket>, cache: Option<PathBuf>) -> Self {
        let lineage = lineage("acme/alice");
        let store =
            Store::new(Arc::clone(&bucket), cache).writable_tenant(&lineage.name.tenant).await.unwrap();
        Self { root: bucket, store, lineage }
    }

    /// The same store, in another bucket.
    pub fn on(&self, bucket: Arc<dyn Bucket>) -> Self {
        let store = TenantStore { bucket: Arc::clone(&bucket), ..self.store.clone() };
        Self { root: bucket, store, lineage: self.lineage.clone() }
    }

    /// Another profile of the tenant.
    pub fn of(&self, profile: &str) -> Self {
        Self { lineage: lineage(profile), ..self.clone() }
    }

    /// The pointer and the lock in the hands of the run called `run`.
    pub fn handle(&self, run: &str) -> LineageHandle {
        LineageHandle::new(self.store.clone(), self.lineage.clone(), actor(run))
    }

    pub async fn capture(&self, request: &snapshot::Request) -> Result<snapshot::Report> {
        snapshot::snapshot(&self.store, request, Arc::new(Silent), std::future::pending()).await
    }

    pub async fn snapshot(&self, directory: &Path) -> Result<snapshot::Report> {
        self.capture(&request(&self.lineage, directory)).await
    }

    /// So many snapshots, each of another file; the pointer names the last.
    pub async fn snapshots(&self, count: usize) -> Vec<RecordId> {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Vec::new();
        for number in 0..count {
            std::fs::write(folder.path().join("file"), format!("{number}")).unwrap();
            records.push(self.snapshot(folder.path()).await.unwrap().record);
        }
        records
    }

    pub async fn rescan(&self, directory: &Path) -> Result<snapshot::Report> {
        let request = snapshot::Request { rescan: true, ..request(&self.lineage, directory) };
        self.capture(&request).await
    }

    pub async fn current(&self) -> Result<Record> {
        resolve::snapshot(&self.store, &self.lineage, None).await
    }

    pub async fn restore(&self, target: &Path) -> Result<restore::Report> {
        let record = self.current().await?;
        self.restore_record(&record, target).await
    }

    pub async fn restore_record(&self, record: &Record, target: &Path) -> Result<restore::Report> {
        let request = restore::Request {
            paths: Vec::new(),
            target: target.to_owned(),
            force: false,
            keeping: Keeping { owner: false, special: true },
            threads: 2,
            inspector: None,
            point_of_no_return: Default::default(),
        };
        restore::restore(&self.store, record, &request, Arc::new(Silent)).await
    }

    pub async fn verify(&self) -> Result<verify::Report> {
        let options = verify::Options {
            only: None,
            read_data: true,
            sample: None,
            repair: false,
            memory_bytes: verify::DEFAULT_MEMORY_BYTES,
        };
        verify::verify(&self.store, &self.lineage, options, Arc::new(Silent)).await
    }

    /// Fails, with the fault, unless everything that is stored is whole.
    pub async fn assert_clean(&self) {
        let report = self.verify().await.unwrap();
        assert!(report.damage.is_empty(), "{:#?}", report.damage);
    }
}
