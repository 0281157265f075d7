//! `many_profiles` makes up a store with many tenants, profiles and snapshots, of real records, pointers and locks.
//!
//! Everything is written behind the store's back, which is quicker, and all the same for readers. The content
//! of the snapshots is that of one small capture for each tenant.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use store::{
    bucket::{Access, Bucket, Key, LocalBucket},
    catalog::{pointer, records, store::Store},
    format::{
        Unknown,
        health::{Expected, Finding, Health, Lapse},
        layout,
        lock::Lock,
        pointer::Pointer,
        record::Record,
    },
    id::RecordId,
    name::{Lineage, Tenant},
};

use crate::store_fixture::StoreFixture;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// How many of everything.
#[derive(Clone, Copy, Debug)]
pub struct Many {
    /// How many tenants there are.
    pub tenants: u64,
    /// How many profiles each has.
    pub profiles: u64,
    /// How many snapshots each has.
    pub snapshots: u64,
}

/// Makes the store in a directory.
pub async fn make(root: &Path, many: Many) {
    let bucket: Arc<dyn Bucket> = Arc::new(LocalBucket::open(root, Access::Create).unwrap());
    let store = Store::new(Arc::clone(&bucket), None);
    for number in 0..many.tenants {
        let tenant: Tenant = format!("tenant-{number:03}").parse().unwrap();
        let own = store.writable_tenant(&tenant).await.unwrap();
        let lineage = lineage_of(&tenant, "template");
        let fixture = StoreFixture { root: Arc::clone(&bucket), store: own, lineage };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Preferences"), format!("of {tenant}")).unwrap();
        let id = fixture.snapshot(folder.path()).await.unwrap().record;
        let record = records::get(&fixture.store, &fixture.lineage, id).await.unwrap().0;
        let pointer = pointer::read(&fixture.store, &fixture.lineage).await.unwrap().unwrap().pointer;
        let maker = Maker { objects: root.join("objects"), now_ms: now_ms(), record, pointer };
        for profile in 0..many.profiles {
            maker.make(&tenant, number * many.profiles + profile, profile, many.snapshots);
        }
    }
}

/// Writes profiles of one tenant.
struct Maker {
    objects: PathBuf,
    now_ms: u64,
    record: Record,
    pointer: Pointer,
}

impl Maker {
    /// `number` decides the fault of the profile, if it has one.
    fn make(&self, tenant: &Tenant, number: u64, profile: u64, snapshots: u64) {
        let lineage = lineage_of(tenant, &format!("profile-{profile:03}"));
        let newest_ms =
            self.now_ms - if number % 30 == 3 { 11 * DAY_MS } else { (number % 20 + 1) * HOUR_MS };
        let mut last = None;
        for back in (0..snapshots).rev() {
            let at_ms = newest_ms - back * DAY_MS * 3 / 2 - number % 7 * 60_000;
            let is_newest = back == 0;
            let mut record = self.record.clone();
            record.record = RecordId::from_parts(at_ms, unique(number, back));
            record.profile_id = lineage.name.profile.clone();
            (record.captured_at_ms, record.stored_at_ms) = (at_ms, Some(at_ms));
            record.uncompressed_size_bytes = (280 << 20) + (number * 7919 + back * 104_729) % (90 << 20);
            record.counts.new_bytes = (3 << 20) + (number * 31 + back * 7907) % (9 << 20);
            record.counts.stored_bytes = record.counts.new_bytes / 2;
            record.counts.files = 3600 + number % 90;
            if let Some(content) = &mut record.content {
                content.snapshot_id = store::id::SnapshotId::from_bytes(digest(number, back));
            }
            let is_held = is_newest && number % 40 == 7;
            if is_held {
                record.held_back = Some("logged out: cookie .example.com:sid: it is not there".to_owned());
            }
            if is_newest && number % 90 == 11 {
                record.fallback = Some("the store did not answer within 30 s".to_owned());
            }
            record.health = Some(self.health(number, is_newest, newest_ms));
            self.put(&layout::record(&lineage, record.record), &record.encode(), at_ms);
            if !is_held {
                last = Some(record);
            }
        }
        let Some(current) = last else { return };
        self.point(&lineage, &current);
        if number % 25 == 4 {
            self.lock(&lineage, number);
        }
    }

    fn health(&self, number: u64, is_newest: bool, newest_ms: u64) -> Health {
        let lapses_at_ms = if number % 60 == 13 { self.now_ms + DAY_MS } else { self.now_ms + 40 * DAY_MS };
        let cookie = Lapse {
            host: ".example.com".to_owned(),
            name: "sid".to_owned(),
            lapses_at_ms: Some(lapses_at_ms.max(newest_ms)),
            unknown: Unknown::new(),
        };
        let damaged = Finding {
            path: "Default/Cookies".to_owned(),
            problem: "database disk image is malformed".to_owned(),
            unknown: Unknown::new(),
        };
        Health {
            ended: "closed".to_owned(),
            depth: "quick".to_owned(),
            expected: Some(Expected { revision: 1, cookies: vec![cookie], ..Expected::default() }),
            damaged: if is_newest && number % 120 == 17 { vec![damaged] } else { Vec::new() },
            local_state: true,
            ..Health::default()
        }
    }

    fn point(&self, lineage: &Lineage, record: &Record) {
        let sha = record.sha256_prefix();
        let mut pointer = Pointer {
            active_archive_key: layout::archive(lineage, &sha),
            active_manifest_key: layout::manifest(lineage, &sha),
            active_sha256_prefix: sha,
            flipped_at_ms: record.captured_at_ms,
            ..self.pointer.clone()
        };
        let bind = pointer.binding();
        if let Some(block) = &mut pointer.pstore {
            block.bind = bind;
            block.record = Some(record.record);
            block.snapshot_id = record.content.as_ref().map(|content| content.snapshot_id);
            (block.lease, block.event) = (None, None);
        }
        self.put(&layout::latest(lineage), &pointer.encode(), record.captured_at_ms);
    }

    /// As a program writes it that knows only the contract.
    fn lock(&self, lineage: &Lineage, number: u64) {
        let lock = Lock {
            version: 1,
            holder_run_id: format!("run-{number:05}"),
            holder_host: ["modal", "e2b", "daytona"][number as usize % 3].to_owned(),
            holder_host_run_id: format!("fc-{number:06}"),
            acquired_at_ms: self.now_ms - 240_000,
            renewed_at_ms: self.now_ms,
            expires_at_ms: self.now_ms + 300_000 + number % 7 * 400_000,
            renewal_count: 4,
            pstore: None,
            unknown: Unknown::new(),
        };
        self.put(&layout::lock(lineage), &lock.encode(), self.now_ms);
    }

    fn put(&self, key: &Key, bytes: &[u8], at_ms: u64) {
        let path = self.objects.join(key.as_str());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(at_ms)).unwrap();
    }
}

fn lineage_of(tenant: &Tenant, profile: &str) -> Lineage {
    Lineage { name: format!("{tenant}/{profile}").parse().unwrap(), chrome_major: "131".parse().unwrap() }
}

fn unique(number: u64, back: u64) -> [u8; 10] {
    let digest = digest(number, back);
    std::array::from_fn(|at| digest[at])
}

fn digest(number: u64, back: u64) -> [u8; 32] {
    *blake3::hash(format!("{number} {back}").as_bytes()).as_bytes()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}
