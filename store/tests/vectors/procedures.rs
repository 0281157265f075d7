//! These tests make the steps of `format-spec/procedures.md` as the vectors have them.
//!
//! Every step runs in a directory of its own, on what the vectors say was there before. What is
//! random or a time is another each time: such fields are named, and compared by their kind.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use store::{
    bucket::{Access, Bucket, LocalBucket, Write},
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Hold, Terms},
        pointer::Move,
        store::Store,
    },
    format::{event::Actor, lock::Lock, pointer::Pointer, record::Record},
    key::Key,
    name::Lineage,
};
use tempfile::TempDir;

use super::{
    document, expected,
    made::{Files, steps},
    on_disk,
};

const LINEAGE: &str = "objects/snapshots/acme/alice/131";
const LIVE: &str = "snap-01JED0YH00248H248H248H248H.json";
/// Another in every run.
const FREE: [&str; 8] = ["flip_id", "nonce", "mark", "bind", "check", "id", "at_ms", "writer"];

/// The vector store in a directory, without a lock, with another live record.
struct Scene {
    files: Files,
    root: TempDir,
    handle: LineageHandle,
}

impl Scene {
    async fn new() -> Self {
        let (files, root) = (on_disk(), tempfile::tempdir().unwrap());
        for (name, bytes) in &files {
            let Some(path) = name.strip_prefix("store/").filter(|name| !name.ends_with("lock.json")) else {
                continue;
            };
            write(&root.path().join(path), bytes);
        }
        let next = Record::decode(&files["steps/record.json"]).unwrap();
        write(&root.path().join(LINEAGE).join(format!("snap-{}.json", next.record)), &next.encode());
        let bucket = LocalBucket::open(root.path(), Access::ReadWrite).unwrap();
        let lineage = Lineage { name: "acme/alice".parse().unwrap(), chrome_major: "131".parse().unwrap() };
        let store = Store::new(Arc::new(bucket), None).tenant(&lineage.name.tenant).await.unwrap();
        let lock = Lock::decode(&document(&files, "/lock.json")).unwrap();
        let actor: Actor = lock.holder();
        Self { handle: LineageHandle::new(store, lineage, actor), files, root }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(LINEAGE).join(name)
    }

    fn next(&self) -> Record {
        Record::decode(&self.files["steps/record.json"]).unwrap()
    }

    async fn acquire(&self) -> Hold {
        let terms = Terms { ttl: Duration::from_millis(steps::TTL_MS), with_process: true };
        self.handle.acquire(terms, Duration::ZERO).await.unwrap()
    }

    /// Compares an object with the vector `after`; `free` may differ too.
    fn is(&self, object: &str, after: &str, free: &[&str]) {
        let found: Value = serde_json::from_slice(&fs::read(self.path(object)).unwrap()).unwrap();
        let wanted: Value = serde_json::from_slice(&self.files[&format!("steps/{after}.json")]).unwrap();
        same(&found, &wanted, free, after);
    }

    /// As [`Self::is`], of the pointer, whose block must be bound and know the flip before.
    fn pointer_is(&self, after: &str, before: Option<&Pointer>, free: &[&str]) {
        self.is("latest.json", after, free);
        let now = self.pointer();
        let recent = &now.block().expect("the block is bound").recent;
        assert_eq!(recent.last(), before.and_then(|before| before.block()).map(|block| &block.flip_id));
    }

    fn pointer(&self) -> Pointer {
        Pointer::decode(&fs::read(self.path("latest.json")).unwrap()).unwrap()
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn same(found: &Value, wanted: &Value, free: &[&str], at: &str) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            // A field that nobody knows is kept by whoever keeps the object it is in.
            let names =
                |fields: &serde_json::Map<String, Value>| fields.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(names(found), names(wanted), "{at}");
            for (name, value) in wanted {
                let at = format!("{at}.{name}");
                match (found[name].as_str(), value.as_str()) {
                    (Some(found), Some(wanted)) if FREE.contains(&name.as_str()) => {
                        assert!(found.len() == wanted.len() || name == "writer", "{at}");
                    }
                    _ if FREE.contains(&name.as_str()) || free.contains(&name.as_str()) => {
                        assert_eq!(found[name].is_u64(), value.is_u64(), "{at}");
                    }
                    // The last one is the flip before, which is compared elsewhere.
                    _ if name == "recent" => {
                        let ids = |value: &Value| value.as_array().unwrap().clone();
                        let (found, wanted) = (ids(&found[name]), ids(value));
                        let known = wanted.len().min(3);
                        assert_eq!((found.len(), &found[..known]), (wanted.len(), &wanted[..known]), "{at}");
                    }
                    _ => same(&found[name], value, free, &at),
                }
            }
        }
        (found, wanted) => assert_eq!(found, wanted, "{at}"),
    }
}

#[tokio::test]
async fn a_pointer_is_claimed_flipped_and_moved_as_the_procedures_say() {
    let scene = Scene::new().await;
    let before = scene.pointer();
    let hold = scene.acquire().await;
    scene.pointer_is("claimed", Some(&before), &[]);
    let claimed = scene.pointer();
    hold.flip(scene.next().record).await.unwrap();
    scene.pointer_is("flipped", Some(&claimed), &["flipped_at_ms"]);

    // The claim stays when the lock is given back, and goes with an operator's move.
    write(&scene.path("latest.json"), &claimed.encode());
    hold.release().await.unwrap();
    scene.is("lock.json", "lock-free", &["acquired_at_ms", "renewed_at_ms"]);
    scene.pointer_is("claimed", Some(&before), &[]);
    let wanted =
        Move { target: scene.next().record, reason: steps::REASON.to_owned(), force: false, only_from: None };
    scene.handle.point(&wanted).await.unwrap();
    scene.pointer_is("moved", Some(&claimed), &["flipped_at_ms"]);
}

#[tokio::test]
async fn the_first_claim_and_one_after_another_program_have_blocks_of_their_own() {
    let scene = Scene::new().await;
    fs::remove_file(scene.path("latest.json")).unwrap();
    scene.acquire().await;
    scene.pointer_is("claimed-first", None, &[]);

    let scene = Scene::new().await;
    write(&scene.path("latest.json"), &scene.files["steps/foreign.json"]);
    assert!(scene.pointer().block().is_none());
    scene.acquire().await;
    scene.pointer_is("foreign-claimed", None, &[]);
}

#[tokio::test]
async fn a_pointer_is_touched_withdrawn_and_named_as_the_procedures_say() {
    let scene = Scene::new().await;
    let before = scene.pointer();
    scene.handle.delete(scene.next().record, "").await.unwrap();
    scene.pointer_is("touched", Some(&before), &[]);

    let scene = Scene::new().await;
    scene.acquire().await;
    let claimed = scene.pointer();
    scene.handle.force_unlock(steps::REASON).await.unwrap().unwrap();
    scene.pointer_is("withdrawn", Some(&claimed), &[]);

    let scene = Scene::new().await;
    let live = Record::decode(&fs::read(scene.path(LIVE)).unwrap()).unwrap();
    write(&scene.path(LIVE), &steps::with_archive(&live).encode());
    assert!(scene.handle.name_archive(live.record).await.unwrap());
    scene.pointer_is("named", Some(&before), &[]);
}

#[tokio::test]
async fn a_lock_is_taken_renewed_and_given_back_as_the_procedures_say() {
    let times = ["acquired_at_ms", "renewed_at_ms", "expires_at_ms"];
    let scene = Scene::new().await;
    write(&scene.path("lock.json"), &document(&scene.files, "131/lock.json"));
    let old = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(scene.path("lock.json")).unwrap().set_modified(old).unwrap();
    let hold = scene.acquire().await;
    scene.is("lock.json", "lock-taken", &times);
    let taken = hold.lock().await;
    assert_eq!(taken.ttl(), Duration::from_millis(steps::TTL_MS));
    let renewed = hold.renew().await.unwrap();
    scene.is("lock.json", "lock-renewed", &times);
    let (taken, renewed) = (taken.block().unwrap().clone(), renewed.block().unwrap().clone());
    assert!(taken.nonce == renewed.nonce && taken.mark != renewed.mark);
    hold.release().await.unwrap();
    scene.is("lock.json", "lock-free", &times[..2]);
}

#[tokio::test]
async fn whoever_replaces_an_object_of_a_directory_locks_these_files() {
    let lock_files = expected("lock_files");
    for (key, files) in lock_files.as_object().unwrap() {
        let root = tempfile::tempdir().unwrap();
        let bucket = LocalBucket::open(root.path(), Access::ReadWrite).unwrap();
        let object = Key::new(key).unwrap();
        let version = bucket.put(&object, b"one".to_vec().into(), Write::Create).await.unwrap();
        assert_eq!(version.as_str(), blake3::hash(b"one").to_hex().as_str());
        let locks = || {
            let entries = fs::read_dir(root.path().join("locks")).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
        };
        assert!(locks().is_empty(), "a creation needs none");
        bucket.put(&object, b"two".to_vec().into(), Write::Replace(version)).await.unwrap();
        let named: BTreeSet<String> = serde_json::from_value(files.clone()).unwrap();
        assert_eq!(locks(), named, "{key}");
    }
    let page = fs::read_to_string(super::spec().join("procedures.md")).unwrap();
    let files = &lock_files["pstore.json"];
    assert!(page.contains(&format!(
        "locks/{}, then locks/{}",
        files[0].as_str().unwrap(),
        files[1].as_str().unwrap()
    )));
}
