//! `archives` publishes and removes archives, without a tar stream in them.
//!
//! All snapshots of a scenario have the same content, so that their archives would have the same name without the
//! rule that prevents it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use bytes::Bytes;
use sha2::Digest as _;
use store::{
    catalog::rules::Rules,
    format::{
        layout,
        manifest::Manifest,
        record::{Record, State},
    },
    id::{RecordId, Sha256},
    ops::archive::{
        export::{Archive, Seal},
        publish::{Packer, Parcel},
    },
};

use super::scenario::Stage;

/// Makes an archive of a few bytes.
#[derive(Debug)]
pub struct Fake;

#[async_trait]
impl Packer for Fake {
    async fn pack(&self, record: &Record, seal: Option<Seal>) -> store::Result<Parcel> {
        let (archive, bytes) = archive(seal);
        let manifest = Manifest::of(record, archive.sha256, archive.size_bytes, None);
        Ok(Parcel::new(archive, manifest, bytes.into()))
    }
}

fn archive(seal: Option<Seal>) -> (Archive, Vec<u8>) {
    let mut bytes = b"the same tree".to_vec();
    let tar_sha256 = Sha256::from_bytes(sha2::Sha256::digest(&bytes).into());
    bytes.extend(seal.into_iter().flat_map(Seal::frame));
    let archive = Archive {
        sha256: Sha256::from_bytes(sha2::Sha256::digest(&bytes).into()),
        size_bytes: bytes.len() as u64,
        tar_sha256,
        tar_size_bytes: 13,
        files: 1,
        skipped: 0,
        fetched_bytes: 0,
    };
    (archive, bytes)
}

/// The first snapshot has been published.
pub fn of_first(stage: &Stage, rules: Rules, objects: &mut BTreeMap<String, Bytes>) {
    let key = layout::record(&stage.lineage, stage.records[0]);
    let mut record = Record::decode(&objects[key.as_str()]).unwrap();
    let (archive, bytes) = archive(rules.fresh_archive_names.then(|| Seal::of(&record)));
    let manifest = Manifest::of(&record, archive.sha256, archive.size_bytes, None);
    record.archive_sha256 = Some(archive.sha256.to_string());
    record.archive_size_bytes = Some(archive.size_bytes);
    record.tar_sha256 = Some(archive.tar_sha256);
    let mut put = |key: store::bucket::Key, bytes: Vec<u8>| objects.insert(key.to_string(), bytes.into());
    put(layout::archive_key(&stage.lineage, &archive.sha256), bytes);
    put(layout::manifest_key(&stage.lineage, &archive.sha256), manifest.encode());
    put(key, record.encode());
    // What is deleted must not be current.
    objects.extend(stage.pointer_to_second.clone());
}

/// The archives that records name, and those that are there.
#[derive(Debug, Default)]
pub struct Archives {
    there: BTreeSet<String>,
    named: BTreeMap<RecordId, [String; 2]>,
}

impl Archives {
    /// An object as it is now; `None` if it is gone.
    pub fn sees(&mut self, key: &str, bytes: Option<&Bytes>) {
        let name = key.rsplit('/').next().unwrap_or_default();
        if name.starts_with("profile-") {
            match bytes {
                Some(_) => self.there.insert(name.to_owned()),
                None => self.there.remove(name),
            };
        } else if name.starts_with("snap-")
            && let Some(record) = bytes.and_then(|bytes| Record::decode(bytes).ok())
        {
            self.named.remove(&record.record);
            if record.state == State::Live && record.archive_sha256.is_some() {
                let prefix = record.sha256_prefix();
                let names = [layout::archive_name(&prefix), layout::manifest_name(&prefix)];
                self.named.insert(record.record, names);
            }
        }
    }

    /// The missing objects, in words.
    pub fn lost(&self) -> Option<String> {
        let gone = |(record, names): (&RecordId, &[String; 2])| {
            let gone = names.iter().find(|name| !self.there.contains(*name))?;
            Some(format!("snapshot {record} names {gone}, which is gone"))
        };
        self.named.iter().find_map(gone)
    }
}
