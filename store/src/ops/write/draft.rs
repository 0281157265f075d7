//! `draft` makes the record that a write starts with.

use std::path::Path;

use crate::{
    catalog::clock,
    content::TenantStore,
    format::{
        Unknown,
        config::HASH,
        event::Actor,
        record::{self, Counts, Record, SCHEMA, Source, State, Tag},
        tree::{Entry, Kind},
    },
    id::RecordId,
    name::{Lineage, WIP},
    ops::write::snapshot::About,
    tree::walk::Skipped,
};

/// The totals of a tree.
#[derive(Clone, Debug, Default)]
pub(in crate::ops) struct Totals {
    pub counts: Counts,
    pub bytes: u64,
}

impl Totals {
    /// The totals of the base: changes are counted from there.
    pub fn before(base: &Record) -> Self {
        let Counts { files, directories, symlinks, hard_links, .. } = base.counts;
        let counts = Counts { files, directories, symlinks, hard_links, ..Counts::default() };
        Self { counts, bytes: base.uncompressed_size_bytes }
    }

    /// The totals of a tree whose entries are not counted yet.
    pub fn of_none(skipped: Skipped, bytes: u64) -> Self {
        Self { counts: Counts { skipped: skipped.total(), ..Counts::default() }, bytes }
    }

    /// Counts an entry.
    pub fn add(&mut self, entry: &Entry) {
        match entry.kind {
            Kind::File { .. } => self.counts.files += 1,
            Kind::Directory => self.counts.directories += 1,
            Kind::Symlink { .. } => self.counts.symlinks += 1,
            Kind::HardLink { .. } => self.counts.hard_links += 1,
            _ => {}
        }
    }
}

/// All that is known before anything is stored; the lease fills in the id.
pub(super) fn draft(
    store: &TenantStore,
    lineage: &Lineage,
    about: About,
    base: Option<&Record>,
    totals: Totals,
    source: (&str, &Path),
) -> Record {
    let (version, minor, writer) = record::versions();
    Record {
        version,
        schema: SCHEMA.to_owned(),
        tenant_id: lineage.name.tenant.clone(),
        profile_id: lineage.name.profile.clone(),
        chrome_major_version: lineage.chrome_major,
        archive_sha256: None,
        archive_size_bytes: None,
        uncompressed_size_bytes: totals.bytes,
        captured_at_ms: clock::unix_ms(),
        captured_by: about.captured_by,
        captured_in: about.captured_in,
        mode: about.mode,
        chrome_uptime_seconds_at_capture: about.chrome_uptime_seconds,
        predecessor_sha256: base.map_or_else(String::new, Record::sha256),
        notes: about.notes,
        record: RecordId::from_bytes([0; 16]),
        minor,
        writer,
        state: State::Writing,
        generation: 0,
        lease_seq: 0,
        chunk_key: *store.key(),
        hash: HASH.to_owned(),
        stored_at_ms: None,
        parent: base.map(|base| base.record),
        updates: Vec::new(),
        reason: about.reason,
        labels: about.labels,
        chrome_last_version: about.chrome_last_version,
        exit_type: about.exit_type,
        complete: totals.counts.skipped == 0,
        counts: totals.counts,
        content: None,
        earlier: Vec::new(),
        damage: None,
        health: None,
        held_back: None,
        fallback: about.fallback,
        startup: Default::default(),
        tags: about.in_progress.map(in_progress).into_iter().collect(),
        deletion: None,
        sources: vec![Source { kind: source.0.to_owned(), path: shown(source.1), unknown: Unknown::new() }],
        exclusions: about.exclusions,
        transforms: about.transforms,
        features: Vec::new(),
        tar_sha256: None,
        publishing: None,
        publications: 0,
        removing: false,
        unknown: Unknown::new(),
    }
}

/// The tag that marks the record as work in progress from the moment it is a snapshot.
fn in_progress(by: Actor) -> (String, Tag) {
    (WIP.to_owned(), Tag { tagged_at_ms: clock::unix_ms(), by, unknown: Unknown::new() })
}

fn shown(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
