//! These tests open the store of the vectors as any reader does: they verify it, read its snapshot and export it.

use std::{fs, sync::Arc};

use serde_json::json;
use store::{
    bucket::{Access, LocalBucket},
    catalog::{records, store::Store},
    content::{TenantStore, meta::Metadata},
    format::record::State,
    name::Lineage,
    ops::{
        archive::export::{self, Framing},
        verify,
    },
    progress::Silent,
};

use super::{expected, made::show, on_disk, spec};

async fn vector_store() -> (TenantStore, Lineage) {
    let bucket = LocalBucket::open(&spec().join("vectors/store"), Access::ReadOnly).unwrap();
    let lineage = Lineage { name: "acme/alice".parse().unwrap(), chrome_major: "131".parse().unwrap() };
    let store = Store::new(Arc::new(bucket), None).tenant(&lineage.name.tenant).await.unwrap();
    (store, lineage)
}

#[tokio::test]
async fn the_vector_store_opens_and_is_sound() {
    let (store, lineage) = vector_store().await;
    let options = verify::Options {
        only: None,
        read_data: true,
        sample: None,
        repair: false,
        memory_bytes: verify::DEFAULT_MEMORY_BYTES,
    };
    let report = verify::verify(&store, &lineage, options, Arc::new(Silent)).await.unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert_eq!((report.snapshots, report.packs), (1, 3));
}

#[tokio::test]
async fn a_record_below_another_key_is_refused() {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in on_disk() {
        let Some(key) = name.strip_prefix("store/objects/") else { continue };
        for key in [key.to_owned(), key.replace("/131/", "/132/")] {
            let path = root.path().join("objects").join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &bytes).unwrap();
        }
    }
    let bucket = LocalBucket::open(root.path(), Access::ReadOnly).unwrap();
    let (_, lineage) = vector_store().await;
    let store = Store::new(Arc::new(bucket), None).tenant(&lineage.name.tenant).await.unwrap();
    let id = "01JED0YH00248H248H248H248H".parse().unwrap();
    records::get(&store, &lineage, id).await.unwrap();
    let other = Lineage { chrome_major: "132".parse().unwrap(), ..lineage };
    let refused = records::get(&store, &other, id).await.unwrap_err();
    assert_eq!(refused.kind(), store::ErrorKind::Damaged, "{refused}");
}

#[tokio::test]
async fn the_current_snapshot_is_read_in_one_round() {
    let (store, lineage) = vector_store().await;
    let record = store::ops::read::resolve::snapshot(&store, &lineage, None).await.unwrap();
    assert_eq!(record.state, State::Live);
    let metadata = Metadata::fetch(&store, record.content.as_ref().unwrap()).await.unwrap();
    let (entries, locations) = metadata.decode().unwrap();
    assert_eq!(show::entries_json(&entries), expected("entries"));
    assert_eq!(locations.len() as u64, record.counts.chunks);
}

#[tokio::test]
async fn an_export_is_the_expected_stream() {
    let (store, lineage) = vector_store().await;
    let record = store::ops::read::resolve::snapshot(&store, &lineage, None).await.unwrap();
    let expected = expected("tar");
    for framing in [Framing::Splice, Framing::Solid { level: 1, threads: 1 }] {
        let request =
            export::Request { framing, times: export::Times::Exact, seal: None, max_bytes: u64::MAX };
        let out = (Vec::new(), "a vector".into());
        let (archive, bytes) = export::write(&store, &record, request, out, Arc::new(Silent)).await.unwrap();
        assert_eq!(json!(archive.tar_sha256), expected["sha256"]);
        assert_eq!(json!(archive.tar_size_bytes), expected["size_bytes"]);
        assert_eq!((archive.size_bytes, archive.skipped), (bytes.len() as u64, 4));
        let tar = zstd::decode_all(&bytes[..]).unwrap();
        assert_eq!(tar.len() as u64, archive.tar_size_bytes);
        let files = on_disk();
        let heads: Vec<(&String, &Vec<u8>)> =
            files.iter().filter(|(name, _)| name.starts_with("tar/")).collect();
        assert_eq!(heads.len(), 7);
        for (name, head) in heads {
            let found = tar.chunks(512).zip((0..).step_by(512)).any(|(_, at)| tar[at..].starts_with(head));
            assert!(found, "{name} is not in the stream");
        }
    }
}
