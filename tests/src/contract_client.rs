//! `contract_client` is a program that knows only the contract, at work on `acme/alice` of Chrome 131 in a store
//! that is a directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{archive::sha256, tarball::manifest};

/// Where the objects of the profile are.
pub fn objects(store: &Path) -> PathBuf {
    store.join("objects/snapshots/acme/alice/131")
}

pub fn pointer(store: &Path) -> Value {
    document(&objects(store).join("latest.json"))
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Uploads an archive and its manifest, which is as `change` makes it, and moves the
/// pointer, as the contract says.
pub fn flip(store: &Path, archive: &[u8], change: impl FnOnce(&mut Value)) -> Value {
    let mut manifest = manifest(archive, "alice");
    let prefix = manifest["archive_sha256"].as_str().unwrap()[..12].to_owned();
    change(&mut manifest);
    let folder = objects(store);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("profile-{prefix}.tar.zst")), archive).unwrap();
    fs::write(folder.join(format!("profile-{prefix}.manifest.json")), manifest.to_string()).unwrap();
    let latest = folder.join("latest.json");
    let from = if latest.exists() { document(&latest)["active_sha256_prefix"].clone() } else { "".into() };
    let pointer = pointer_to(&prefix, from.as_str().unwrap());
    fs::write(latest, pointer.to_string()).unwrap();
    pointer
}

/// Has held the lock, and given it back.
pub fn lock(store: &Path, run: &str) {
    let lock = lock_of(run, 1_733_456_500_000, 0);
    fs::write(objects(store).join("lock.json"), lock.to_string()).unwrap();
}

/// The document of a pointer: the contract's fields, and nothing else.
pub fn pointer_to(prefix: &str, from: &str) -> Value {
    let key = format!("snapshots/acme/alice/131/profile-{prefix}");
    json!({
        "version": 1,
        "active_sha256_prefix": prefix,
        "active_archive_key": format!("{key}.tar.zst"),
        "active_manifest_key": format!("{key}.manifest.json"),
        "flipped_at_ms": 1_733_456_515_000_u64,
        "flipped_from_sha256_prefix": from,
    })
}

pub fn lock_of(run: &str, renewed_at_ms: u64, expires_at_ms: u64) -> Value {
    json!({
        "version": 1,
        "holder_run_id": run,
        "holder_host": "e2b",
        "holder_host_run_id": "fc-01",
        "acquired_at_ms": renewed_at_ms,
        "renewed_at_ms": renewed_at_ms,
        "expires_at_ms": expires_at_ms,
        "renewal_count": 17,
    })
}

/// Finds the current snapshot: pointer, manifest, archive. The manifest, or the missing object.
pub fn find(store: &Path) -> Result<Value, String> {
    let latest = pointer(store);
    let get = |field: &str| {
        let path = store.join("objects").join(latest[field].as_str().unwrap());
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let manifest: Value = serde_json::from_slice(&get("active_manifest_key")?).unwrap();
    let archive = get("active_archive_key")?;
    let sha256 = sha256(&archive).to_string();
    assert_eq!(
        (&manifest["archive_sha256"], &manifest["archive_size_bytes"]),
        (&sha256.clone().into(), &archive.len().into())
    );
    assert_eq!(latest["active_sha256_prefix"], sha256[..12]);
    Ok(manifest)
}
