//! `gauges` measures this host and this process: the disk of sessions, the mounts, memory, and time.

use std::{fs, path::Path};

use store::catalog::clock;

use super::{
    counts::Counts,
    family::{
        ACTIVE_MOUNTS, BUILD, PROCESS_CPU, PROCESS_FILES, PROCESS_MEMORY, PROCESS_START, SESSION_DISK_FREE,
        SESSION_DISK_SIZE,
    },
};
use crate::{mount::live::LiveMount, settings::Settings};

/// The gauges of this host.
pub fn of_host(settings: &Settings) -> Counts {
    let (mut counts, now_ms) = (Counts::default(), clock::unix_ms());
    let host = settings.host_name().unwrap_or_default();
    counts.set(&BUILD, &[env!("CARGO_PKG_VERSION")], 1, now_ms);
    // Without a home there are no sessions, and nobody misses their gauges.
    let Ok(sessions) = settings.sessions() else { return counts };
    if let Some((free, size)) = disk(&sessions) {
        counts.set(&SESSION_DISK_FREE, &[&host], free, now_ms);
        counts.set(&SESSION_DISK_SIZE, &[&host], size, now_ms);
    }
    let mounts = LiveMount::all(settings).map_or(0, |mounts| mounts.len() as u64);
    counts.set(&ACTIVE_MOUNTS, &[&host], mounts, now_ms);
    counts
}

/// Free space and size of the file system that a directory is on, or will be on once it is made.
fn disk(directory: &Path) -> Option<(u64, u64)> {
    let existing = directory.ancestors().find(|path| path.exists())?;
    let found = rustix::fs::statvfs(existing).ok()?;
    Some((found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize)))
}

/// The gauges of this process.
pub fn of_process() -> Counts {
    let (mut counts, now_ms) = (Counts::default(), clock::unix_ms());
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        counts.set(&PROCESS_FILES, &[], entries.count() as u64, now_ms);
    }
    if let Some(pages) = fs::read_to_string("/proc/self/statm").ok().and_then(|text| nth(&text, 1)) {
        counts.set(&PROCESS_MEMORY, &[], pages * rustix::param::page_size() as u64, now_ms);
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // What comes before may have spaces in it.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    if let (Some(user), Some(system)) = (nth(after_name, 11), nth(after_name, 12)) {
        counts.count(&PROCESS_CPU, &[], (user + system) * 1_000_000 / ticks);
    }
    let booted = fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = booted.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
    if let (Some(booted), Some(began)) = (booted, nth(after_name, 19)) {
        counts.set(&PROCESS_START, &[], booted + began / ticks, now_ms);
    }
    counts
}

/// One of the numbers in a line.
fn nth(text: &str, at: usize) -> Option<u64> {
    text.split_whitespace().nth(at)?.parse().ok()
}
