//! `documents` makes JSON documents that every reader must refuse.

use serde::Serialize;
use serde_json::{Value, json};
use store::format::{
    config::{Chunking, Features},
    layout,
};

use super::{
    super::{KEY, catalog, documents as originals, origin, show},
    Cases, LATER,
};

/// The document with its digest made right again.
fn sealed(mut document: Value) -> Vec<u8> {
    let fields = document.as_object_mut().expect("documents are objects");
    fields.remove("check");
    let compact = serde_json::to_vec(fields).expect("JSON always encodes");
    fields.insert("check".to_owned(), blake3::hash(&compact).to_hex().as_str().into());
    show::json_bytes(&document)
}

fn change(document: &Value, path: &str, to: Value) -> Vec<u8> {
    let mut document = document.clone();
    *document.pointer_mut(path).expect("the field is there") = to;
    sealed(document)
}

fn later(document: &Value) -> Vec<u8> {
    let mut document = document.clone();
    (document["version"], document["writer"]) = (json!(2), json!(LATER));
    sealed(document)
}

fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).expect("JSON always encodes")
}

pub(super) fn add(cases: &mut Cases<'_>) {
    configurations(cases);
    records(cases);
    pointers(cases);
    locks(cases);
    events_and_pins(cases);
    manifests(cases);
    condemned(cases);
}

fn condemned(cases: &mut Cases<'_>) {
    let key = layout::condemned_by(&origin::lineage().name.tenant, originals::collection());
    let condemned = stored(cases, &key);
    cases.add("condemned", "major-2", "major version 2", "version", later(&condemned));
    cases.names(LATER);
    let phase = change(&condemned, "/phase", json!("pardoned"));
    cases.add("condemned", "phase", "an unknown phase", "feature", phase);
    cases.names(origin::WRITER);
    let schema = change(&condemned, "/schema", json!("pstore.store"));
    cases.malformed("condemned", "schema", "another schema", schema);
    let pack = change(&condemned, "/packs/0", json!("01JED0YGZZ6CSK6CSK6CSK6CSK-1"));
    cases.malformed("condemned", "pack", "a pack number of one digit", pack);
    let mut damaged = condemned;
    damaged["packs"] = json!([]);
    cases.malformed(
        "condemned",
        "check",
        "a list that the digest does not cover",
        show::json_bytes(&damaged),
    );
}

fn configurations(cases: &mut Cases<'_>) {
    let features = |read: &[&str], write: &[&str]| {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        value(Features { read: owned(read), write: owned(write), optional: vec![], ..Features::default() })
    };
    let store = value(originals::store_config());
    cases.add("store config", "major-2", "major version 2", "version", later(&store));
    cases.names(LATER);
    let needs = change(&store, "/features", features(&["sealed-chunks"], &[]));
    cases.add("store config", "read-feature", "a feature that readers must know", "feature", needs);
    cases.names(origin::WRITER);
    cases.malformed(
        "store config",
        "schema",
        "another schema",
        change(&store, "/schema", json!("pstore.tenant")),
    );
    let sizes =
        value(Chunking { min_bytes: 512, average_bytes: 256, pack_bytes: 18 << 20, ..Chunking::default() });
    cases.malformed(
        "store config to write",
        "sizes",
        "min_bytes above average_bytes",
        change(&store, "/chunking", sizes),
    );
    let odd = change(&store, "/chunking/min_bytes", json!(65));
    cases.malformed("store config to write", "odd", "chunk sizes that are not even", odd);
    let average = change(&store, "/chunking/average_bytes", json!(258));
    cases.malformed("store config to write", "average", "an average that is no power of two", average);
    cases.malformed("store config", "no-check", "no digest", show::json_bytes(&store));

    let tenant = value(originals::tenant_config());
    cases.add("tenant config", "major-2", "major version 2", "version", later(&tenant));
    cases.names(LATER);
    let hash = change(&tenant, "/hash", json!("sha512"));
    cases.add("tenant config", "hash", "an unknown hash", "feature", hash);
    cases.names(origin::WRITER);
    let needs = change(&tenant, "/features", features(&["sealed-chunks"], &[]));
    cases.add("tenant config", "read-feature", "a feature that readers must know", "feature", needs);
    cases.names(origin::WRITER);
    let needs = change(&tenant, "/features", features(&[], &["sharded-index"]));
    cases.add("tenant config to write", "feature", "a feature that writers must know", "feature", needs);
    cases.names(origin::WRITER);
    let cutter = change(&tenant, "/chunking", json!({ "algorithm": "rabin" }));
    cases.add("tenant config to write", "chunker", "an unknown chunker", "feature", cutter);
    cases.names(origin::WRITER);
    let upper = show::hex(KEY.as_bytes()).to_uppercase();
    cases.malformed("tenant config", "key", "a key in capitals", change(&tenant, "/chunk_key", json!(upper)));
    let name = change(&tenant, "/tenant_id", json!("../acme"));
    cases.malformed("tenant config", "name", "a tenant that is a path", name);
}

/// A document of the store that was made before.
fn stored(cases: &Cases<'_>, key: &store::key::Key) -> Value {
    serde_json::from_slice(&cases.files[&format!("store/objects/{key}")]).expect("documents are JSON")
}

fn records(cases: &mut Cases<'_>) {
    let record = stored(cases, &layout::record(&origin::lineage(), origin::write_id()));
    cases.add("record", "major-2", "major version 2", "version", later(&record));
    cases.names(LATER);
    let needs = change(&record, "/features", json!(["sealed-chunks"]));
    cases.add("record", "feature", "a feature that readers must know", "feature", needs);
    cases.names(origin::WRITER);
    let hash = change(&record, "/hash", json!("sha512"));
    cases.add("record", "hash", "an unknown hash", "feature", hash);
    cases.names(origin::WRITER);
    let codec = change(&record, "/content/root/codec", json!(2));
    cases.add("record", "codec", "codec 2, which is reserved", "feature", codec);
    cases.names(origin::WRITER);
    let encryption = change(&record, "/content/root/encryption", json!(1));
    cases.add("record", "encryption", "encryption 1, which is reserved", "feature", encryption);
    cases.names(origin::WRITER);
    let state = change(&record, "/state", json!("asleep"));
    cases.add("record", "state", "an unknown state", "feature", state);
    cases.names(origin::WRITER);
    let mut bad = |name: &str, why: &str, path: &str, to: Value| {
        cases.malformed("record", name, why, change(&record, path, to));
    };
    bad("schema", "another schema", "/schema", json!("pstore.store"));
    bad("no-content", "live without content", "/content", Value::Null);
    bad(
        "ulid",
        "a record id in small letters",
        "/record",
        json!(origin::write_id().to_string().to_lowercase()),
    );
    bad("chrome", "Chrome 0", "/chrome_major_version", json!(0));
    bad(
        "pack",
        "a pack number of six digits",
        "/content/root/pack",
        json!(format!("{}-100000", origin::write_id())),
    );
    bad("snapshot-id", "a snapshot id of 63 digits", "/content/snapshot_id", json!("0".repeat(63)));
    bad("negative", "a negative size", "/uncompressed_size_bytes", json!(-1));
    bad("integer", "an integer of 2^53", "/captured_at_ms", json!(1u64 << 53));
    bad("fraction", "a number with a fraction", "/captured_at_ms", json!(1.5));
    bad("archive", "an archive's digest that is no digest", "/archive_sha256", json!("é".repeat(32)));
    bad("predecessor", "a predecessor in capitals", "/predecessor_sha256", json!("A".repeat(64)));
    let packs = record["content"]["packs"].as_array().expect("a list").clone();
    let meta_first: Vec<Value> = packs.iter().rev().cloned().collect();
    bad("packs", "a meta pack before the data packs of its write", "/content/packs", json!(meta_first));
    let closed = |path: &str| {
        let mut object = record.pointer(path).expect("the field is there").clone();
        object["a_field_of_tomorrow"] = json!(1);
        object
    };
    bad("root-field", "an unknown field in a closed object", "/content/root", closed("/content/root"));
    bad("pack-field", "an unknown field in a closed object", "/content/packs/0", closed("/content/packs/0"));
    let text = String::from_utf8(sealed(record.clone())).expect("JSON is text");
    let twice = text.replacen("\"version\": 1", "\"version\": 1,\n  \"version\": 1", 1);
    cases.malformed("record", "twice", "a field given twice", twice);
    let mut damaged = record.clone();
    damaged["generation"] = json!(1);
    cases.malformed("record", "check", "a number that the digest does not cover", show::json_bytes(&damaged));
}

fn locks(cases: &mut Cases<'_>) {
    let lock = stored(cases, &layout::lock(&origin::lineage()));
    let mut later = lock.clone();
    (later["version"], later["writer"]) = (json!(2), json!(LATER));
    cases.add("lock", "major-2", "major version 2", "version", show::json_bytes(&later));
    cases.names(LATER);
    let mut block = lock.clone();
    (block["pstore"]["v"], block["pstore"]["writer"]) = (json!(2), json!(LATER));
    cases.add("lock", "block-2", "a block of version 2", "version", show::json_bytes(&block));
    cases.names(LATER);
    let mut damaged = lock.clone();
    damaged["pstore"]["seq"] = json!(7);
    cases.malformed("lock", "check", "a block that its digest does not cover", show::json_bytes(&damaged));
    let mut unversioned = lock;
    unversioned.as_object_mut().expect("an object").remove("version");
    cases.malformed("lock", "version", "no version", show::json_bytes(&unversioned));
    let mut unnamed = stored(cases, &layout::lock(&origin::lineage()));
    unnamed["pstore"].as_object_mut().expect("an object").remove("v");
    unnamed["pstore"] = serde_json::from_slice(&sealed(unnamed["pstore"].take())).expect("JSON");
    cases.malformed("lock", "block-version", "a block without a version", show::json_bytes(&unnamed));
}

fn events_and_pins(cases: &mut Cases<'_>) {
    let event = stored(cases, &layout::event(&origin::lineage(), catalog::eviction().id));
    cases.add("event", "major-2", "major version 2", "version", later(&event));
    cases.names(LATER);
    cases.malformed("event", "schema", "another schema", change(&event, "/schema", json!("pstore.pin")));
    cases.malformed("event", "id", "an id that is no ULID", change(&event, "/id", json!("1")));
    let merged = stored(cases, &layout::merged_events(&origin::lineage(), catalog::merged_events().id));
    cases.add("merged events", "major-2", "major version 2", "version", later(&merged));
    cases.names(LATER);
    cases.malformed(
        "merged events",
        "schema",
        "another schema",
        change(&merged, "/schema", json!("pstore.event")),
    );
    let twice = json!([merged["events"][1], merged["events"][0]]);
    cases.malformed(
        "merged events",
        "order",
        "events that are not sorted",
        change(&merged, "/events", twice),
    );
    let pin = stored(cases, &layout::pin(&origin::lineage().name.tenant, catalog::pin_id()));
    cases.add("pin", "major-2", "major version 2", "version", later(&pin));
    cases.names(LATER);
    cases.malformed("pin", "schema", "another schema", change(&pin, "/schema", json!("pstore.event")));
    let root =
        layout::session_root(&origin::lineage().name.tenant, catalog::session_id(), catalog::root_id());
    let root = stored(cases, &root);
    let nameless = json!({ "id": root["session"]["id"] });
    cases.malformed("pin", "session", "a session without its host", change(&root, "/session", nameless));
    let mut damaged = pin;
    damaged["ttl_ms"] = json!(1);
    cases.malformed("pin", "check", "a number that the digest does not cover", show::json_bytes(&damaged));
    let expected = stored(cases, &layout::expectations(&origin::lineage().name));
    cases.add("expectations", "major-2", "major version 2", "version", later(&expected));
    cases.names(LATER);
    let outside = change(&expected, "/files", json!(["../Cookies"]));
    cases.malformed("expectations", "outside", "a file outside of the profile", outside);
    let many = json!(vec!["Default"; 65]);
    cases.malformed("expectations", "many", "65 files", change(&expected, "/files", many));
    let tombstone: Value = serde_json::from_slice(&cases.files["tombstone.json"]).expect("JSON");
    cases.add("tombstone", "major-2", "major version 2", "version", later(&tombstone));
    cases.names(LATER);
    let schema = change(&tombstone, "/schema", json!("pstore.pin"));
    cases.malformed("tombstone", "schema", "another schema", schema);
    let state = change(&tombstone, "/deletion/state", json!("undone"));
    cases.malformed("tombstone", "state", "a state that nobody knows", state);
    let wip: Value = serde_json::from_slice(&cases.files["wip.json"]).expect("JSON");
    cases.add("work in progress", "major-2", "major version 2", "version", later(&wip));
    cases.names(LATER);
    let schema = change(&wip, "/schema", json!("pstore.pin"));
    cases.malformed("work in progress", "schema", "another schema", schema);
}

fn manifests(cases: &mut Cases<'_>) {
    let manifest: Value = serde_json::from_slice(&cases.files["manifest.json"]).expect("JSON");
    let change = |field: &str, to: Value| {
        let mut manifest = manifest.clone();
        manifest[field] = to;
        show::json_bytes(&manifest)
    };
    for version in [0, 2] {
        let (name, why) = (format!("major-{version}"), format!("major version {version}"));
        cases.add("manifest", &name, &why, "version", change("version", json!(version)));
        cases.names(manifest["captured_by"]["writer_version"].as_str().expect("text"));
    }
    cases.malformed("manifest", "schema", "another schema", change("schema", json!("pstore.pin")));
    cases.malformed("manifest", "tenant", "a tenant that is no name", change("tenant_id", json!("../acme")));
    let capitals = change("archive_sha256", json!("1A".repeat(32)));
    cases.malformed("manifest", "sha256", "a digest in capital digits", capitals);
    let mut missing = manifest.clone();
    missing.as_object_mut().expect("an object").remove("archive_size_bytes");
    cases.malformed("manifest", "field", "a field a loader relies on is missing", show::json_bytes(&missing));
}

fn pointers(cases: &mut Cases<'_>) {
    let pointer = stored(cases, &layout::latest(&origin::lineage()));
    let mut later = pointer.clone();
    (later["version"], later["writer"]) = (json!(2), json!(LATER));
    cases.add("pointer", "major-2", "major version 2", "version", show::json_bytes(&later));
    cases.names(LATER);
    let block = |change: fn(&mut Value)| {
        let mut pointer = pointer.clone();
        change(&mut pointer["pstore"]);
        pointer["pstore"] = serde_json::from_slice(&sealed(pointer["pstore"].take())).expect("JSON");
        show::json_bytes(&pointer)
    };
    let version = block(|block| (block["v"], block["writer"]) = (json!(2), json!(LATER)));
    cases.add("pointer", "block-2", "a block of version 2", "version", version);
    cases.names(LATER);
    let unnamed = block(|block| drop(block.as_object_mut().expect("an object").remove("v")));
    cases.malformed("pointer", "block-version", "a block without a version", unnamed);
    let mut unversioned = pointer.clone();
    unversioned.as_object_mut().expect("an object").remove("version");
    cases.malformed("pointer", "version", "no version", show::json_bytes(&unversioned));
    let mut missing = pointer.clone();
    missing.as_object_mut().expect("an object").remove("flipped_at_ms");
    cases.malformed("pointer", "field", "a field of the contract is missing", show::json_bytes(&missing));
    let mut damaged = pointer;
    damaged["pstore"]["recent"] = json!([]);
    cases.malformed("pointer", "check", "a block that its digest does not cover", show::json_bytes(&damaged));
    cases.malformed("pointer", "text", "not JSON", b"\x1f\x8b\x08\0".to_vec());
}
