//! `CountsFile` keeps counts in a file of this host that many processes add to, one after another.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, OFlags, flock};
use store::{
    format::{limits, metrics::MetricsTotals},
    id::{self, Nonce},
};

use super::counts::{Bounds, Counts};

/// How long to wait for another process that writes. None takes longer than a moment, unless it is suspended.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Counts in a file.
#[derive(Clone, Debug)]
pub(super) struct CountsFile {
    path: PathBuf,
    lock: PathBuf,
}

/// The right to read the file and to replace it.
#[derive(Debug)]
pub(super) struct HeldCounts<'a> {
    file: &'a CountsFile,
    _lock: File,
}

impl CountsFile {
    /// The file with this name in `directory`.
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        Self { path: directory.join(name), lock: directory.join(format!("{name}.lock")) }
    }

    /// The counts. Others may write meanwhile.
    pub(super) fn read(&self) -> Counts {
        let found = match File::open(&self.path) {
            Ok(file) => bounded(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Counts::default(),
            Err(error) => Err(error),
        };
        let read = found.and_then(|bytes| MetricsTotals::decode(&bytes).map_err(io::Error::other));
        match read {
            Ok(totals) => Counts::of_series(totals.series),
            Err(error) => {
                tracing::warn!("{} cannot be read, and counting begins anew: {error}", self.path.display());
                Counts::default()
            }
        }
    }

    /// Waits until nobody else writes.
    pub(super) fn hold(&self) -> io::Result<HeldCounts<'_>> {
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o644)
            .custom_flags(flags)
            .open(&self.lock)?;
        let began = Instant::now();
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(HeldCounts { file: self, _lock: lock }),
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl HeldCounts<'_> {
    /// Adds what a process has counted. All that is in the file then.
    pub(super) fn add(&self, more: &Counts, bounds: &Bounds) -> io::Result<Counts> {
        let mut counts = self.file.read();
        counts.add(more, bounds);
        let totals = MetricsTotals { series: counts.to_series(), ..MetricsTotals::default() };
        replace(&self.file.path, &totals.encode())?;
        Ok(counts)
    }

    /// Empties the file. What was in it is the caller's.
    pub(super) fn take(&self) -> io::Result<Counts> {
        let counts = self.file.read();
        match fs::remove_file(&self.file.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(counts),
        }
    }
}

fn bounded(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, limits::METRICS_TOTALS + 1), &mut bytes)?;
    Ok(bytes)
}

/// Replaces a file as a whole: a reader sees the one before, or this one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let nonce = Nonce::from_bytes(id::random());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{nonce}"));
    let written = write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // node_exporter is another user, whatever the umask of this one.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(bytes)
}
