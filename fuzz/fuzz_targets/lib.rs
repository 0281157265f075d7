//! The fuzz targets throw bytes that somebody else may have written at everything that reads them: no panic,
//! and no memory on the word of a length.
//!
//! Inputs are made of the format's vectors and of files that real programs have written, by changes
//! that know where numbers are and make checksums right again, so that they get past the first
//! look. The tests throw these, and a seed and a number make the same input on every machine; the
//! program `fuzz`, of `scripts/fuzz`, goes on from those that reach new code.
//!
//! A new reader is a line below.

// Everything here runs in tests only, where a panic is how a failure is told.
#![allow(clippy::unwrap_used)]

mod archives;
mod databases;
mod files;
mod limit;
mod mounts;
mod objects;
mod target;

pub use limit::Limit;
pub use target::Target;

use std::{convert::identity, hint::black_box};

use fuse::overlay::{change::Change, checkpoint};
use store::format::{
    condemned::Condemned,
    config::{StoreConfig, TenantConfig},
    event::Event,
    expectations::Expectations,
    index::Index,
    lock::Lock,
    merged_events::MergedEvents,
    metrics::{MetricsReport, MetricsTotals},
    pack,
    pin::Pin,
    pointer::Pointer,
    root::Root,
    tombstone::Tombstone,
    work_in_progress::WorkInProgress,
};

use tests::{mutation::reseal, vectors::vectors};

use archives::{archives, read_archive};
use databases::{check_leveldb, check_leveldb_table, check_sqlite, databases, leveldb, leveldb_tables};
use files::{play_steps, steps};
use mounts::{bases, changes, journals, read_journal};
use objects::{
    keys, metrics_reports, metrics_totals, read_frame, read_key, read_record, read_startup, read_table,
    read_tree, startups,
};

/// A reader: what it is called, what it begins with, how it is sealed, one of how many rounds it
/// gets, what it does.
macro_rules! targets {
    ($($name:ident: $corpus:expr, $reseal:expr, $one_in:literal, $read:expr;)*) => {
        /// All of them, by their names.
        pub const TARGETS: &[(&str, fn() -> Target)] = &[$((stringify!($name), $name)),*];

        $(pub fn $name() -> Target {
            Target { name: stringify!($name), corpus: $corpus, reseal: $reseal, one_in: $one_in, read: $read }
        })*

        /// Hands their names to another macro.
        #[macro_export]
        macro_rules! for_targets {
            ($macro:ident) => {
                $macro! { $($name)* }
            };
        }
    };
}

targets! {
    a_pack: vectors("/packs/"), reseal::pack, 1, |bytes| drop(black_box(pack::decode_directory(bytes, bytes.len() as u64)));
    an_index: vectors("/index/"), reseal::index, 1, |bytes| drop(black_box(Index::decode(bytes)));
    a_tree: vectors("/tree-"), identity, 1, read_tree;
    a_table: vectors("/table-"), identity, 1, read_table;
    a_root: vectors("segments/root"), identity, 1, |bytes| drop(black_box(Root::decode(bytes)));
    a_frame: vectors("frames/"), identity, 1, read_frame;
    a_record: vectors("/snap-"), reseal::document, 8, read_record;
    a_pointer: vectors("/latest.json"), reseal::document, 4, |bytes| drop(black_box(Pointer::decode(bytes)));
    a_lock: vectors("/lock.json"), reseal::document, 4, |bytes| drop(black_box(Lock::decode(bytes)));
    what_is_expected: vectors("/expectations.json"), reseal::document, 4, |bytes| drop(black_box(Expectations::decode(bytes)));
    a_pin: vectors("/pins/"), reseal::document, 4, |bytes| drop(black_box(Pin::decode(bytes)));
    an_event: vectors("/events/"), reseal::document, 4, |bytes| drop(black_box(Event::decode(bytes)));
    merged_events: vectors("/events/merged-"), reseal::document, 4, |bytes| drop(black_box(MergedEvents::decode(bytes)));
    what_is_condemned: vectors("/condemned/"), reseal::document, 4, |bytes| drop(black_box(Condemned::decode(bytes)));
    a_tombstone: vectors("tombstone.json"), reseal::document, 4, |bytes| drop(black_box(Tombstone::decode(bytes)));
    what_names_work_in_progress: vectors("wip.json"), reseal::document, 4, |bytes| drop(black_box(WorkInProgress::decode(bytes)));
    a_store_configuration: vectors("/pstore.json"), reseal::document, 4, |bytes| drop(black_box(StoreConfig::decode(bytes)));
    a_tenant_configuration: vectors("/tenant.json"), reseal::document, 4, |bytes| drop(black_box(TenantConfig::decode(bytes)));
    a_report_of_metrics: metrics_reports(), reseal::document, 4, |bytes| drop(black_box(MetricsReport::decode(bytes)));
    the_totals_of_metrics: metrics_totals(), reseal::document, 4, |bytes| drop(black_box(MetricsTotals::decode(bytes)));
    what_a_mount_reads_first: startups(), identity, 1, read_startup;
    an_archive: archives(), reseal::tar, 4, read_archive;
    a_key: keys(), identity, 1, read_key;
    a_change_of_a_mount: changes(), identity, 1, |bytes| drop(black_box(Change::decode(bytes)));
    the_base_of_a_mount: bases(), identity, 1, |bytes| drop(black_box(checkpoint::Checkpoint::decode(bytes)));
    the_journal_of_a_mount: journals(), identity, 20, read_journal;
    the_files_of_a_mount: steps(), identity, 200, play_steps;
    the_log_of_a_leveldb: leveldb("/000003.log"), identity, 40, |bytes| check_leveldb("000003.log", bytes);
    the_manifest_of_a_leveldb: leveldb("/MANIFEST"), identity, 40, |bytes| check_leveldb("MANIFEST-000001", bytes);
    a_table_of_a_leveldb: leveldb_tables(), reseal::leveldb_table, 20, check_leveldb_table;
    an_answer_about_databases: databases::answers(), identity, 4, |bytes| _ = black_box(capture::cell::is_understood(bytes));
    the_settings_of_a_profile: databases::settings(), identity, 4, |bytes| drop(black_box(capture::change::settings::changed(Some(b"{}"), Some(bytes))));
    a_sqlite_database: databases(), identity, 200, |bytes| check_sqlite("Cookies", bytes);
    the_journal_of_a_sqlite_database: databases(), identity, 200, |bytes| check_sqlite("Cookies-journal", bytes);
    the_wal_of_a_sqlite_database: databases(), identity, 200, |bytes| check_sqlite("Cookies-wal", bytes);
}
