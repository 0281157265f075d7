//! The record a capture starts with.

use std::path::Path;

use super::Capture;
use crate::{
    catalog::clock,
    format::{
        Unknown,
        config::HASH,
        record::{self, Counts, Mode, Record, SCHEMA, Source, State},
        tree::Kind,
    },
    id::RecordId,
    tree::walk::Walk,
};

impl Capture<'_> {
    /// All that is known before anything is stored; the lease fills in the id.
    pub(super) fn draft(&self, base: Option<&Record>, walk: &Walk) -> Record {
        let (version, minor, writer) = record::versions();
        let about = self.request.about.clone();
        Record {
            version,
            schema: SCHEMA.to_owned(),
            tenant_id: self.request.lineage.name.tenant.clone(),
            profile_id: self.request.lineage.name.profile.clone(),
            chrome_major_version: self.request.lineage.chrome_major,
            archive_sha256: None,
            archive_size_bytes: None,
            uncompressed_size_bytes: walk.bytes,
            captured_at_ms: clock::unix_ms(),
            captured_by: about.captured_by,
            captured_in: about.captured_in,
            mode: Mode::Cold,
            chrome_uptime_seconds_at_capture: about.chrome_uptime_seconds,
            predecessor_sha256: base.map_or_else(String::new, Record::sha256),
            notes: about.notes,
            record: RecordId::from_bytes([0; 16]),
            minor,
            writer,
            state: State::Writing,
            generation: 0,
            lease_seq: 0,
            chunk_key: *self.store.key(),
            hash: HASH.to_owned(),
            parent: base.map(|base| base.record),
            updates: Vec::new(),
            reason: about.reason,
            labels: about.labels,
            chrome_last_version: about.chrome_last_version,
            exit_type: about.exit_type,
            counts: count(walk),
            content: None,
            health: None,
            held_back: None,
            fallback: about.fallback,
            tags: Default::default(),
            deletion: None,
            sources: vec![Source {
                kind: "directory".to_owned(),
                path: shown(&self.request.directory),
                unknown: Unknown::new(),
            }],
            complete: walk.skipped.total() == 0,
            exclusions: about.exclusions,
            transforms: about.transforms,
            features: Vec::new(),
            unknown: Unknown::new(),
        }
    }
}

fn count(walk: &Walk) -> Counts {
    let mut counts = Counts { skipped: walk.skipped.total(), ..Counts::default() };
    for entry in &walk.entries {
        match entry.kind {
            Kind::File { .. } => counts.files += 1,
            Kind::Directory => counts.directories += 1,
            Kind::Symlink { .. } => counts.symlinks += 1,
            Kind::HardLink { .. } => counts.hard_links += 1,
            _ => {}
        }
    }
    counts
}

fn shown(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
