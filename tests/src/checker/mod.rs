//! `checker` tests the invariants of `format-spec/README.md`, section 15, with decoders of its own.
//!
//! It was written from that page and not from the code, and uses none of the program's decoders, so that a mistake
//! would have to be made twice. Only the bucket is the program's.
//!
//! I5 and I20 are about changes: [`State::must_follow`] compares two states. Of I19 only the part that shows
//! afterwards is tested: nothing live names a pack that was swept.

mod catalog;
mod document;
mod input;
mod pack;
mod snapshot;
mod tree;

use std::{collections::BTreeMap, fmt::Display};

use bytes::Bytes;
use serde_json::Value;
use store::bucket::{Bucket, Depth, Prefix};

pub use document::digest as check_of;
use pack::Pack;

/// Everything in a bucket at one moment, looked through.
#[derive(Debug)]
pub struct State {
    objects: BTreeMap<String, Bytes>,
    findings: Findings,
    /// By key; those that are whole.
    documents: BTreeMap<String, Value>,
    /// By tenant and name.
    packs: BTreeMap<(String, String), Pack>,
}

/// The violations, each with the invariant it breaks.
#[derive(Debug, Default)]
struct Findings(Vec<String>);

impl Findings {
    fn must(&mut self, holds: bool, invariant: &str, what: impl Display) {
        if !holds {
            self.0.push(format!("{invariant}: {what}"));
        }
    }

    /// The value, or a finding and nothing.
    fn whole<T>(&mut self, read: Result<T, String>, invariant: &str, what: impl Display) -> Option<T> {
        read.map_err(|reason| self.0.push(format!("{invariant}: {what}: {reason}"))).ok()
    }
}

/// Reads the whole bucket and looks through it. Nobody may write meanwhile.
pub async fn look(bucket: &dyn Bucket) -> State {
    let mut objects = BTreeMap::new();
    let mut cursor = None;
    loop {
        let page = bucket.list(&Prefix::root(), Depth::All, cursor).await.unwrap();
        for entry in page.entries {
            let bytes = bucket.get(&entry.key, u64::MAX).await.unwrap().bytes;
            objects.insert(entry.key.to_string(), bytes);
        }
        cursor = page.next;
        if cursor.is_none() {
            return State::of(objects);
        }
    }
}

impl State {
    fn of(objects: BTreeMap<String, Bytes>) -> Self {
        let mut state = Self {
            objects,
            findings: Findings::default(),
            documents: BTreeMap::new(),
            packs: BTreeMap::new(),
        };
        state.read_documents();
        state.read_packs();
        state.check_indexes();
        state.check_pointers();
        state.check_roots();
        for (key, record) in state.documents.clone() {
            if let Some((lineage, _)) = key.rsplit_once("/snap-") {
                state.check_record(lineage, &key, &record);
            }
        }
        state
    }

    /// Fails, naming everything that is wrong.
    #[track_caller]
    pub fn must_be_whole(&self) {
        assert!(self.findings.0.is_empty(), "{:#?}", self.findings.0);
        assert!(!self.packs.is_empty(), "there was nothing to check");
    }

    /// Fails unless this can have come of the other.
    #[track_caller]
    pub fn must_follow(&self, earlier: &Self) {
        for (key, before) in &earlier.documents {
            let Some(after) = self.documents.get(key) else {
                assert!(!key.contains("/snap-"), "I5: {key} is gone");
                continue;
            };
            if key.contains("/snap-") {
                let step = (document::text(before, "state"), document::text(after, "state"));
                assert!(document::reachable(step.0, step.1), "I5: {key} went from {} to {}", step.0, step.1);
            }
            for constant in ["store_id", "chunk_key", "hash", "chunking"] {
                assert_eq!(before.get(constant), after.get(constant), "I20: {constant} of {key}");
            }
        }
    }

    /// The records in this state, by key.
    pub fn records(&self, state: &str) -> Vec<&str> {
        let records = self.documents.iter().filter(|(key, _)| key.contains("/snap-"));
        let fitting = records.filter(|(_, record)| document::text(record, "state") == state);
        fitting.map(|(key, _)| key.as_str()).collect()
    }

    /// The objects of a tenant's folder, by the last part of their keys.
    fn below<'a>(&'a self, tenant: &str, folder: &str) -> impl Iterator<Item = (String, &'a Bytes)> {
        let prefix = format!("content/{tenant}/{folder}/");
        let found = self.objects.iter().filter(move |(key, _)| key.starts_with(&prefix));
        found.map(|(key, bytes)| (key.rsplit('/').next().unwrap().to_owned(), bytes))
    }

    /// The tenants there are, with their chunk keys.
    fn tenants(&self) -> Vec<(String, Vec<u8>)> {
        let configs = self.documents.iter().filter_map(|(key, config)| {
            let tenant = key.strip_prefix("content/")?.strip_suffix("/tenant.json")?;
            Some((tenant.to_owned(), document::hex(document::text(config, "chunk_key"))))
        });
        configs.collect()
    }
}

#[cfg(test)]
mod tests;
