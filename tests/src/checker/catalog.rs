//! `catalog` checks tenants, pointers and roots: I14, I15, I16, I22 and the part of I20 about one moment.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    State,
    document::{number, text},
};

impl State {
    pub(super) fn check_pointers(&mut self) {
        for (tenant, _) in self.tenants() {
            let config = &self.documents[&format!("content/{tenant}/tenant.json")];
            let own = text(config, "tenant_id") == tenant;
            self.findings.must(own, "I20", format_args!("the configuration of {tenant}"));
        }
        let pointers = self.documents.iter().filter(|(key, _)| key.ends_with("/latest.json"));
        for (key, pointer) in
            pointers.map(|(key, pointer)| (key.clone(), pointer.clone())).collect::<Vec<_>>()
        {
            self.check_pointer(&key, &pointer);
        }
    }

    /// The root of a session lies below the session's name, and no other pin is one.
    pub(super) fn check_roots(&mut self) {
        for (key, pin) in self.documents.iter().filter(|(key, _)| key.contains("/pins/")) {
            let below = key.split_once("/pins/").map_or("", |(_, below)| below);
            let session = below.split_once('/').map(|(session, _)| session);
            self.findings.must(pin["session"]["id"].as_str() == session, "I22", key);
        }
    }

    fn check_pointer(&mut self, key: &str, pointer: &Value) {
        let block = &pointer["pstore"];
        if text(block, "bind") != bind(pointer) {
            return; // Moved by a program that knows only the contract: honoured.
        }
        let flips = block["recent"].as_array().into_iter().flatten().chain([&block["flip_id"]]);
        let flips: Vec<&Value> = flips.collect();
        let different: BTreeSet<_> = flips.iter().filter_map(|flip| flip.as_str()).collect();
        self.findings.must(different.len() == flips.len(), "I16", key);
        let Some(record) = block["record"].as_str() else { return };
        let place = key.replace("latest.json", &format!("snap-{record}.json"));
        let record = self.documents.get(&place).cloned().unwrap_or_default();
        let snapshot_id = text(&record["content"], "snapshot_id");
        self.findings.must(text(&record, "state") == "live", "I14", format_args!("{key} names {place}"));
        self.findings.must(text(block, "snapshot_id") == snapshot_id, "I14", key);
        let named =
            Some(text(&record, "archive_sha256")).filter(|sha| !sha.is_empty()).unwrap_or(snapshot_id);
        self.findings.must(Some(text(pointer, "active_sha256_prefix")) == named.get(..12), "I15", key);
    }
}

/// Of a pointer's contract fields, 11.5.
fn bind(pointer: &Value) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"pstore/bind/1\n");
    for field in [
        "version",
        "active_sha256_prefix",
        "active_archive_key",
        "active_manifest_key",
        "flipped_at_ms",
        "flipped_from_sha256_prefix",
    ] {
        let value = match &pointer[field] {
            Value::String(text) => text.clone(),
            _ => number(pointer, field).to_string(),
        };
        assert!(value.len() < 128 * 128, "a field that is too long for two digits of length");
        let (low, high) = ((value.len() % 128) as u8, (value.len() / 128) as u8);
        hasher.update(&if high > 0 { vec![low | 0x80, high] } else { vec![low] });
        hasher.update(value.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}
