//! What is in a snapshot, for the commands that look into one.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use engine::{failure::Failure, text::path};
use serde_json::{Value, json};
use store::{
    Error,
    format::{
        record::Record,
        tree::{Entry, Kind, Meta, TreePath},
    },
    ops::read::browse,
};

/// A path as it is typed: `./Default/`, `/Default` and `Default` are one.
pub(super) fn path(typed: &OsStr) -> Result<TreePath, Failure> {
    let names = typed.as_bytes().split(|b| *b == b'/').filter(|name| !name.is_empty() && *name != b".");
    TreePath::new(names.collect::<Vec<_>>().join(&b"/"[..])).map_err(|_| {
        let message = format!("{} is no path in a snapshot", path::shown(typed.as_bytes()));
        Failure::usage(message).hint("write it as Default/Cookies, from the top of the profile")
    })
}

/// A path that is not in a snapshot, with the command that lists those that are.
pub(super) fn elsewhere(record: &Record, error: Error) -> Failure {
    let (tenant, profile, major) = (&record.tenant_id, &record.profile_id, record.chrome_major_version);
    Failure::from(error).hint(format!(
        "`pstore ls {tenant}/{profile}@{} --chrome-major {major} -R` lists what is in it",
        record.sha256_prefix()
    ))
}

/// The word for what an entry is.
pub(super) fn kind(entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::File { .. } => "file",
        Kind::Directory => "directory",
        Kind::Symlink { .. } => "symlink",
        Kind::HardLink { .. } => "hard_link",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice { .. } => "char_device",
        Kind::BlockDevice { .. } => "block_device",
    }
}

/// Of a file; `None` of all else.
pub(super) fn size(entries: &[Entry], entry: &Entry) -> Option<u64> {
    browse::file(entries, entry).map(Entry::size)
}

/// What is said of the file behind a name: a hard link itself says nothing.
pub(super) fn meta<'a>(entries: &'a [Entry], entry: &'a Entry) -> &'a Meta {
    &browse::file(entries, entry).unwrap_or(entry).meta
}

/// When it was last changed, in milliseconds since 1970; what is earlier counts as then.
pub(super) fn modified_at_ms(meta: &Meta) -> u64 {
    let time = meta.mtime;
    u64::try_from(time.seconds)
        .map_or(0, |seconds| seconds.saturating_mul(1000) + u64::from(time.nanos / 1_000_000))
}

/// Where a link leads.
pub(super) fn target(entry: &Entry) -> Option<&[u8]> {
    match &entry.kind {
        Kind::Symlink { target } => Some(target),
        Kind::HardLink { target } => Some(target.as_bytes()),
        _ => None,
    }
}

pub(super) fn document(entries: &[Entry], entry: &Entry) -> Value {
    let meta = meta(entries, entry);
    let (path, path_hex) = path::json(entry.path.as_bytes());
    let (target, target_hex) = target(entry).map_or((Value::Null, Value::Null), path::json);
    json!({
        "path": path,
        "path_hex": path_hex,
        "kind": kind(entry),
        "size_bytes": size(entries, entry),
        "mode": meta.mode,
        "modified_at_ms": modified_at_ms(meta),
        "target": target,
        "target_hex": target_hex,
    })
}
