//! `ProgressLines` tells programs the progress of one operation, as JSON documents on stderr, one on each line.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::json;
use store::progress::{Progress, Tick};

use crate::progress::Beside;

/// The least time between two lines of one stage.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress so far; it writes the end of a stage when the next begins, or when it is dropped.
#[derive(Debug)]
pub(crate) struct ProgressLines {
    stage: Mutex<Stage>,
}

#[derive(Debug, Default)]
struct Stage {
    name: &'static str,
    files: u64,
    total_files: u64,
    bytes: u64,
    total_bytes: u64,
    new_bytes: u64,
    written_at: Option<Instant>,
    is_behind: bool,
}

impl ProgressLines {
    pub(crate) fn new() -> Self {
        Self { stage: Mutex::default() }
    }
}

impl Stage {
    fn write(&mut self) {
        let line = json!({ "progress": {
            "stage": self.name,
            "files": self.files,
            "total_files": self.total_files,
            "bytes": self.bytes,
            "total_bytes": self.total_bytes,
            "new_bytes": self.new_bytes,
        }});
        let _ = Beside.write_all(format!("{line}\n").as_bytes());
        self.written_at = Some(Instant::now());
        self.is_behind = false;
    }

    fn finish(&mut self) {
        if self.is_behind {
            self.write();
        }
    }
}

impl Progress for ProgressLines {
    fn begin(&self, stage: &'static str, files: u64, bytes: u64) {
        let mut current = self.stage.lock();
        current.finish();
        *current = Stage { name: stage, total_files: files, total_bytes: bytes, ..Stage::default() };
        current.write();
    }

    fn tick(&self, tick: Tick) {
        let mut stage = self.stage.lock();
        stage.files += tick.files;
        stage.bytes += tick.bytes;
        stage.new_bytes += tick.new_bytes;
        stage.is_behind = true;
        if stage.written_at.is_none_or(|at| at.elapsed() >= INTERVAL) {
            stage.write();
        }
    }
}

impl Drop for ProgressLines {
    fn drop(&mut self) {
        self.stage.lock().finish();
    }
}
