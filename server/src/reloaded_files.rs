//! `ReloadedFiles` keeps the content of files, and reads them again whenever one of them changes.

use std::{
    fmt,
    fs::{self, File, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use engine::failure::Failure;
use parking_lot::Mutex;
use rustix::{
    fs::{Mode, OFlags},
    process::geteuid,
};
use store::ErrorKind;

const WRITTEN_BY_OTHERS: u32 = 0o022;
/// The clock of a file system may stand still for as long as this: of two changes within it, the second may leave
/// no trace.
const TICK: Duration = Duration::from_secs(2);

/// The content of some files, from the last time that all of them could be read.
pub(crate) struct ReloadedFiles<T> {
    /// Their name in logs.
    what: &'static str,
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, Failure> + Send + Sync>,
    kept: Mutex<CachedValue<T>>,
}

struct CachedValue<T> {
    /// The last state of the files that was looked at, whether it could be read or not.
    stamps: Vec<Option<Stamp>>,
    /// Whether every later change leaves a trace in the stamps.
    is_settled: bool,
    value: Arc<T>,
    /// Whether the value is that of this state.
    is_in_order: bool,
}

/// Changes whenever somebody writes to a file, or puts another in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp([i64; 5]);

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let (inode, size) = (metadata.ino() as i64, metadata.size() as i64);
        Self([inode, size, metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()])
    }

    /// Whether it is so old that every later change of the file changes it, too.
    fn is_settled(&self) -> bool {
        let Self([.., seconds, nanoseconds]) = self;
        let changed =
            Duration::new((*seconds).try_into().unwrap_or(0), (*nanoseconds).try_into().unwrap_or(0));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // One from a time to come says nothing.
        now.checked_sub(changed).is_some_and(|age| age > TICK)
    }
}

impl<T> ReloadedFiles<T> {
    /// Reads the files, which must be in order.
    pub(crate) fn open(
        what: &'static str,
        paths: Vec<PathBuf>,
        read: impl Fn() -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        // What changes while it is read has another stamp, or is too new to be trusted: it is read again.
        let (stamps, is_settled) = stamps(&paths);
        let kept = CachedValue { stamps, is_settled, value: Arc::new(read()?), is_in_order: true };
        Ok(Self { what, paths, read: Box::new(read), kept: Mutex::new(kept) })
    }

    /// The present content. If the files cannot be read, the earlier content stays, and one log line says so.
    pub(crate) fn current(&self) -> Arc<T> {
        let (now, is_settled) = stamps(&self.paths);
        let mut kept = self.kept.lock();
        let is_new = now != kept.stamps;
        if !is_new && kept.is_settled {
            return Arc::clone(&kept.value);
        }
        (kept.stamps, kept.is_settled) = (now, is_settled);
        match (self.read)() {
            Ok(value) => {
                if is_new {
                    tracing::info!("the {} were read again", self.what);
                }
                kept.value = Arc::new(value);
                kept.is_in_order = true;
            }
            Err(failure) => {
                if is_new || kept.is_in_order {
                    tracing::error!("the {} stay as they were: {}", self.what, failure.message);
                }
                kept.is_in_order = false;
            }
        }
        Arc::clone(&kept.value)
    }

    /// Whether this is the present content of the files: they are there, and could be read.
    pub(crate) fn is_in_order(&self) -> bool {
        self.current();
        self.kept.lock().is_in_order
    }
}

impl<T> fmt::Debug for ReloadedFiles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadedFiles").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The stamps of the files, and whether all of them are settled.
fn stamps(paths: &[PathBuf]) -> (Vec<Option<Stamp>>, bool) {
    let stamps: Vec<_> =
        paths.iter().map(|path| fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata))).collect();
    let is_settled = stamps.iter().flatten().all(Stamp::is_settled);
    (stamps, is_settled)
}

/// Reads a file that must be this user's alone, since a user who can change it can do everything. `what`
/// names it, and `hint` says how one comes by it. Nobody may have the rights in `closed`.
pub(crate) fn read_own(path: &Path, what: &str, hint: &str, closed: u32) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        Failure::new(ErrorKind::Io, format!("cannot read the {what} {shown}: {error}")).hint(hint)
    };
    // What is looked at is what is read, also if another is put in its place meanwhile; and a pipe is not waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| unreadable(errno.into()))?;
    let mut file = File::from(opened);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Failure::usage(format!("the {what} {shown} is no file")).hint(hint));
    }
    let own = geteuid().as_raw();
    if metadata.uid() != own && metadata.uid() != 0 {
        let message = format!("the {what} {shown} belongs to user {}", metadata.uid());
        return Err(Failure::usage(message).hint(format!("`chown {own} {shown}` if it is yours")));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & WRITTEN_BY_OTHERS != 0 {
        let message = format!("the {what} {shown} can be changed by other users (mode {mode:04o})");
        return Err(Failure::usage(message).hint(format!("`chmod go-w {shown}` closes it")));
    }
    if mode & closed != 0 {
        let message = format!("the {what} {shown} can be read by everybody (mode {mode:04o})");
        return Err(Failure::usage(message).hint(format!("`chmod o-rwx {shown}` closes it")));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn all_files_are_read_again_when_one_changes_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["one", "two"].map(|name| folder.path().join(name));
        paths.iter().for_each(|path| fs::write(path, "1").unwrap());
        let read = paths.clone();
        let watched = ReloadedFiles::open("numbers", paths.to_vec(), move || {
            let mut sum = 0;
            for path in &read {
                let text = fs::read_to_string(path).unwrap_or_default();
                sum += text.parse::<u32>().map_err(|_| Failure::usage("it is no number"))?;
            }
            Ok(sum)
        })
        .unwrap();
        assert_eq!(*watched.current(), 2);
        fs::write(&paths[1], "20").unwrap();
        assert_eq!(*watched.current(), 21);
        fs::write(&paths[0], "x").unwrap();
        assert!(*watched.current() == 21 && !watched.is_in_order());
        fs::remove_file(&paths[0]).unwrap();
        assert!(*watched.current() == 21 && !watched.is_in_order());
        fs::write(&paths[0], "3").unwrap();
        assert!(*watched.current() == 23 && watched.is_in_order());
    }
    /// A file system has one time for all that happens within a few milliseconds.
    #[test]
    fn a_change_that_leaves_no_trace_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        fs::write(&path, "0").unwrap();
        let own = path.clone();
        let watched = ReloadedFiles::open("numbers", vec![path.clone()], move || {
            fs::read_to_string(&own).map_err(|error| Failure::usage(error.to_string()))
        })
        .unwrap();
        // In place, and so in no time.
        let file = File::options().write(true).open(&path).unwrap();
        for number in (0..10).cycle().take(1000).map(|number| number.to_string()) {
            file.write_all_at(number.as_bytes(), 0).unwrap();
            assert_eq!(*watched.current(), number);
        }
    }

    #[test]
    fn what_is_no_file_is_neither_read_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        for path in [pipe.as_path(), folder.path()] {
            let failure = read_own(path, "token file", "make one", 0).unwrap_err();
            assert!(failure.message.ends_with("is no file"), "{failure:?}");
        }
    }
}
