//! `Family` names and describes every metric: its kind, its unit, its labels and their values.
//!
//! A label with known values exists for all of them from the start, at zero: `increase()` would not see the first
//! failure of a series that begins with it.

use super::words::{
    ACQUIRE, CAPTURE, EVICT, GC, HELD_BACK, LOAD, MODE, MOUNT, REQUEST_OUTCOME, VERB, VERSIONS,
};

/// A metric.
#[derive(Debug)]
pub struct Family {
    /// Its name. That of a counter ends in `_total`.
    pub name: &'static str,
    /// A sentence about it.
    pub help: &'static str,
    /// What kind of value it has.
    pub kind: FamilyKind,
    /// The unit in which its values are kept.
    pub unit: Unit,
    /// Its labels, in the order in which their values are kept.
    pub labels: &'static [Label],
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// A count that only grows.
    Counter,
    /// A value that replaces older ones.
    Gauge,
    /// How many observations were of which size. These are the upper ends, in the unit of the family.
    Histogram(&'static [u64]),
}

impl FamilyKind {
    /// The word of the exposition format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// What a kept number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, bytes or whole seconds.
    One,
    /// Microseconds, which are told as seconds.
    Micros,
}

impl Unit {
    /// The number as it is told.
    pub fn told(self, kept: u64) -> f64 {
        match self {
            Self::One => kept as f64,
            Self::Micros => kept as f64 / 1e6,
        }
    }
}

/// A label, and what it can say.
#[derive(Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
}

/// The values of a label.
#[derive(Debug)]
pub enum Values {
    /// These.
    Known(&'static [&'static str]),
    /// The names of hosts. There is always the one of this host.
    Hosts,
    /// The names of tenants or profiles: as many as the setting allows.
    Profiles,
}

const fn known(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values: Values::Known(values) }
}

const HOST: Label = Label { name: "host", values: Values::Hosts };
const TENANT: Label = Label { name: "tenant_id", values: Values::Profiles };
const PROFILE: Label = Label { name: "profile_id", values: Values::Profiles };

const fn family(
    name: &'static str,
    help: &'static str,
    kind: FamilyKind,
    labels: &'static [Label],
) -> Family {
    Family { name, help, kind, unit: Unit::One, labels }
}

const fn counter(name: &'static str, help: &'static str, labels: &'static [Label]) -> Family {
    family(name, help, FamilyKind::Counter, labels)
}

const fn gauge(name: &'static str, help: &'static str, labels: &'static [Label]) -> Family {
    family(name, help, FamilyKind::Gauge, labels)
}

const fn seconds(
    name: &'static str,
    help: &'static str,
    ends: &'static [u64],
    labels: &'static [Label],
) -> Family {
    Family { unit: Unit::Micros, ..family(name, help, FamilyKind::Histogram(ends), labels) }
}

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;
/// Of captures, loads and mounts.
const WORK: &[u64] = &[
    10 * MILLI,
    25 * MILLI,
    50 * MILLI,
    100 * MILLI,
    250 * MILLI,
    500 * MILLI,
    SECOND,
    2 * SECOND + 500 * MILLI,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
    120 * SECOND,
    300 * SECOND,
];
/// Of requests to the store.
const REQUEST: &[u64] = &[
    MILLI,
    5 * MILLI,
    10 * MILLI,
    25 * MILLI,
    50 * MILLI,
    100 * MILLI,
    250 * MILLI,
    500 * MILLI,
    SECOND,
    2 * SECOND + 500 * MILLI,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
];
/// Of waits for a lock.
const WAIT: &[u64] = &[
    100 * MILLI,
    500 * MILLI,
    SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
    300 * SECOND,
    900 * SECOND,
    3600 * SECOND,
];
const MIB: u64 = 1 << 20;
/// Of profiles and archives. The last is the contract's limit.
const SIZES: &[u64] = &[
    MIB / 16,
    MIB,
    4 * MIB,
    16 * MIB,
    64 * MIB,
    256 * MIB,
    512 * MIB,
    1024 * MIB,
    2048 * MIB,
    4096 * MIB,
    8_000_000_000,
];

/// `mantis_profile_snapshot_total`, the first of the contract's twelve.
pub static SNAPSHOTS: Family = counter(
    "mantis_profile_snapshot_total",
    "Captures, by how they ended.",
    &[known("outcome", CAPTURE), HOST],
);
/// `mantis_profile_snapshot_archive_size_bytes`.
pub static ARCHIVE_SIZE: Family = gauge(
    "mantis_profile_snapshot_archive_size_bytes",
    "What the last snapshot of the profile took in the store: its archive, or the chunks that it added.",
    &[TENANT, PROFILE],
);
/// `mantis_profile_snapshot_capture_seconds`.
pub static CAPTURE_SECONDS: Family = seconds(
    "mantis_profile_snapshot_capture_seconds",
    "How long captures read, cut and examined a profile.",
    WORK,
    &[known("mode", MODE)],
);
/// `mantis_profile_snapshot_upload_seconds`.
pub static UPLOAD_SECONDS: Family = seconds(
    "mantis_profile_snapshot_upload_seconds",
    "How long captures uploaded after that, until the snapshot was stored.",
    WORK,
    &[],
);
/// `mantis_profile_snapshot_pointer_flip_seconds`.
pub static FLIP_SECONDS: Family = seconds(
    "mantis_profile_snapshot_pointer_flip_seconds",
    "How long it took to make a stored snapshot the current one.",
    WORK,
    &[],
);
/// `mantis_profile_load_total`.
pub static LOADS: Family =
    counter("mantis_profile_load_total", "Loads, by how they ended.", &[known("outcome", LOAD), HOST]);
/// `mantis_profile_load_download_seconds`.
pub static DOWNLOAD_SECONDS: Family = seconds(
    "mantis_profile_load_download_seconds",
    "How long loads fetched content. Mounts fetch it later.",
    WORK,
    &[],
);
/// `mantis_profile_load_extract_seconds`.
pub static EXTRACT_SECONDS: Family = seconds(
    "mantis_profile_load_extract_seconds",
    "How long loads went on writing files after the last content was fetched.",
    WORK,
    &[],
);
/// `mantis_profile_lock_acquire_total`.
pub static LOCK_ACQUIRES: Family = counter(
    "mantis_profile_lock_acquire_total",
    "Attempts to take the lock of a profile, by how they ended.",
    &[known("outcome", ACQUIRE)],
);
/// `mantis_profile_lock_evict_total`.
pub static LOCK_EVICTIONS: Family = counter(
    "mantis_profile_lock_evict_total",
    "Locks that were taken from their holders, by the reason.",
    &[known("reason", EVICT)],
);
/// `mantis_profile_archive_size_bytes_histogram`.
pub static ARCHIVE_SIZES: Family = family(
    "mantis_profile_archive_size_bytes_histogram",
    "What snapshots took in the store: their archives, or the chunks that they added.",
    FamilyKind::Histogram(SIZES),
    &[],
);
/// `mantis_profile_uncompressed_size_bytes_histogram`.
pub static UNCOMPRESSED_SIZES: Family = family(
    "mantis_profile_uncompressed_size_bytes_histogram",
    "The sizes of all files of the profiles that were captured.",
    FamilyKind::Histogram(SIZES),
    &[],
);

/// `pstore_snapshots_held_back_total`.
pub static HELD_BACK_SNAPSHOTS: Family = counter(
    "pstore_snapshots_held_back_total",
    "Snapshots that were stored and not made current, by the reason.",
    &[known("reason", HELD_BACK)],
);
/// `pstore_profile_last_good_snapshot_timestamp_seconds`.
pub static LAST_GOOD_SNAPSHOT: Family = gauge(
    "pstore_profile_last_good_snapshot_timestamp_seconds",
    "When the profile was last captured well: stored, or found unchanged, and not held back.",
    &[TENANT, PROFILE],
);
/// `pstore_profile_last_load_timestamp_seconds`.
pub static LAST_LOAD: Family = gauge(
    "pstore_profile_last_load_timestamp_seconds",
    "When the profile was last loaded or mounted, whatever came of it.",
    &[TENANT, PROFILE],
);
/// `pstore_profile_login_lapse_timestamp_seconds`.
pub static LOGIN_LAPSE: Family = gauge(
    "pstore_profile_login_lapse_timestamp_seconds",
    "When the first expected cookie of the profile lapses; 0 if nothing is expected of it.",
    &[TENANT, PROFILE],
);
/// `pstore_load_failures_total`.
pub static LOAD_FAILURES: Family = counter(
    "pstore_load_failures_total",
    "Loads that failed, and no empty profile took the place of the snapshot.",
    &[],
);
/// `pstore_first_loads_total`.
pub static FIRST_LOADS: Family = counter(
    "pstore_first_loads_total",
    "Loads of profiles that had no snapshot yet. They count as success.",
    &[],
);
/// `pstore_mounts_total`.
pub static MOUNTS: Family = counter(
    "pstore_mounts_total",
    "Mounts that were asked for, by how they began.",
    &[known("outcome", MOUNT)],
);
/// `pstore_mount_ready_seconds`.
pub static MOUNT_SECONDS: Family =
    seconds("pstore_mount_ready_seconds", "How long it took until a mount could be used.", WORK, &[]);
/// `pstore_commits_total`.
pub static COMMITS: Family = counter(
    "pstore_commits_total",
    "Commits of mounts, by how they ended. They are captures, too.",
    &[known("outcome", CAPTURE)],
);
/// `pstore_mount_fetched_bytes_total`.
pub static FETCHED_BYTES: Family =
    counter("pstore_mount_fetched_bytes_total", "Stored bytes that mounts fetched from the store.", &[]);
/// `pstore_mount_cached_bytes_total`.
pub static CACHED_BYTES: Family = counter(
    "pstore_mount_cached_bytes_total",
    "Bytes that mounts gave to readers from memory, from the host's cache, or from a store that is a directory.",
    &[],
);
/// `pstore_store_requests_total`.
pub static REQUESTS: Family = counter(
    "pstore_store_requests_total",
    "Requests to the store, each attempt counted, by the verb and how they ended.",
    &[known("verb", VERB), known("outcome", REQUEST_OUTCOME)],
);
/// `pstore_store_request_seconds`.
pub static REQUEST_SECONDS: Family = seconds(
    "pstore_store_request_seconds",
    "How long requests to the store took, by the verb.",
    REQUEST,
    &[known("verb", VERB)],
);
/// `pstore_store_sent_bytes_total`.
pub static SENT_BYTES: Family =
    counter("pstore_store_sent_bytes_total", "Bytes of objects that were sent to the store.", &[]);
/// `pstore_store_received_bytes_total`.
pub static RECEIVED_BYTES: Family =
    counter("pstore_store_received_bytes_total", "Bytes of objects that the store sent.", &[]);
/// `pstore_gc_runs_total`.
pub static COLLECTIONS: Family = counter(
    "pstore_gc_runs_total",
    "Collections of one tenant's garbage, by how they ended.",
    &[known("outcome", GC)],
);
/// `pstore_gc_freed_bytes_total`.
pub static FREED_BYTES: Family =
    counter("pstore_gc_freed_bytes_total", "Bytes of the packs that collections deleted.", &[]);
/// `pstore_gc_last_success_timestamp_seconds`.
pub static LAST_COLLECTION: Family = gauge(
    "pstore_gc_last_success_timestamp_seconds",
    "When a collection last ended well; 0 if none is known of.",
    &[],
);
/// `pstore_lock_wait_seconds`.
pub static LOCK_WAITS: Family =
    seconds("pstore_lock_wait_seconds", "How long those waited who found a lock held.", WAIT, &[]);
/// `pstore_lock_dead_holders_total`.
pub static DEAD_HOLDERS: Family = counter(
    "pstore_lock_dead_holders_total",
    "Locks that were taken from a holder whose machine knew that it had ended.",
    &[],
);
/// `pstore_session_disk_free_bytes`.
pub static SESSION_DISK_FREE: Family = gauge(
    "pstore_session_disk_free_bytes",
    "Free space of the file system that holds the uncommitted changes of mounts.",
    &[HOST],
);
/// `pstore_session_disk_size_bytes`.
pub static SESSION_DISK_SIZE: Family = gauge(
    "pstore_session_disk_size_bytes",
    "Size of the file system that holds the uncommitted changes of mounts.",
    &[HOST],
);
/// `pstore_active_mounts`.
pub static ACTIVE_MOUNTS: Family = gauge("pstore_active_mounts", "Mounts of this host.", &[HOST]);
/// `pstore_build_info`.
pub static BUILD: Family = gauge(
    "pstore_build_info",
    "Always 1; its label has the version of pstore.",
    &[known("version", VERSIONS)],
);
/// `pstore_process_start_time_seconds`.
pub static PROCESS_START: Family =
    gauge("pstore_process_start_time_seconds", "When the server's process began.", &[]);
/// `pstore_process_resident_memory_bytes`.
pub static PROCESS_MEMORY: Family =
    gauge("pstore_process_resident_memory_bytes", "Memory that the server's process has.", &[]);
/// `pstore_process_open_fds`.
pub static PROCESS_FILES: Family =
    gauge("pstore_process_open_fds", "Files that the server's process has open.", &[]);
/// `pstore_process_cpu_seconds_total`.
pub static PROCESS_CPU: Family = Family {
    unit: Unit::Micros,
    ..counter(
        "pstore_process_cpu_seconds_total",
        "Time that processors worked for the server's process.",
        &[],
    )
};

/// Every family, in the order in which they are told.
pub static ALL: [&Family; 40] = [
    &SNAPSHOTS,
    &ARCHIVE_SIZE,
    &CAPTURE_SECONDS,
    &UPLOAD_SECONDS,
    &FLIP_SECONDS,
    &LOADS,
    &DOWNLOAD_SECONDS,
    &EXTRACT_SECONDS,
    &LOCK_ACQUIRES,
    &LOCK_EVICTIONS,
    &ARCHIVE_SIZES,
    &UNCOMPRESSED_SIZES,
    &HELD_BACK_SNAPSHOTS,
    &LAST_GOOD_SNAPSHOT,
    &LAST_LOAD,
    &LOGIN_LAPSE,
    &LOAD_FAILURES,
    &FIRST_LOADS,
    &MOUNTS,
    &MOUNT_SECONDS,
    &COMMITS,
    &FETCHED_BYTES,
    &CACHED_BYTES,
    &REQUESTS,
    &REQUEST_SECONDS,
    &SENT_BYTES,
    &RECEIVED_BYTES,
    &COLLECTIONS,
    &FREED_BYTES,
    &LAST_COLLECTION,
    &LOCK_WAITS,
    &DEAD_HOLDERS,
    &SESSION_DISK_FREE,
    &SESSION_DISK_SIZE,
    &ACTIVE_MOUNTS,
    &BUILD,
    &PROCESS_START,
    &PROCESS_MEMORY,
    &PROCESS_FILES,
    &PROCESS_CPU,
];

/// The family with this name.
pub fn named(name: &str) -> Option<&'static Family> {
    ALL.iter().copied().find(|family| family.name == name)
}
