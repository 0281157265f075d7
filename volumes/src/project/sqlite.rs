//! `sqlite` copies SQLite databases while others write to them, and checks each copy.
//!
//! A moment at which nobody writes shows that no schema change is going on. Then the write-ahead log goes into the
//! database, file and folder are flushed, and one step of SQLite's backup copies all pages in their places, so that
//! unchanged pages become the chunks that are stored already. SQLite's integrity check then reads the copy.
//!
//! SQLite's locks are those of a process: all that it has on a file are gone as soon as it closes any descriptor of that
//! file. So while SQLite has a database open here, nothing in this process opens and closes it.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags,
    backup::{Backup, StepResult},
};
use rustix::fs::OFlags;
use store::{Error, error::IoContext};
use tokio::sync::RwLock;

use super::{
    copy::{Copier, attributes},
    fixed::require_fixed,
    metadata::SqliteCopy,
};

const MAGIC: &[u8] = b"SQLite format 3\0";
/// What SQLite keeps beside a database.
const SIDES: [&str; 3] = ["-wal", "-shm", "-journal"];
/// How often a copy is made again because its schema had changed meanwhile.
const ATTEMPTS: u32 = 3;
/// How many lines of an integrity check are kept.
const LINES: usize = 10;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// Whoever reads files of a project shares it, and whoever has SQLite copy a database has it alone: a file that somebody
/// copies here may be a database that another save copies. A save takes it before services rest, so that none rests longer
/// for another save's database.
pub(super) static OPEN_FILES: RwLock<()> = RwLock::const_new(());

/// Copies a volume to `to`: all of its folder, or the listed databases. With `no_links`, a database is refused that lies in a
/// folder that other users could put a link in the place of: SQLite opens it by its path.
pub fn copy_volume(
    volume: &Path,
    to: &Path,
    (files, wait): (&[PathBuf], Duration),
    no_links: bool,
) -> Result<Vec<SqliteCopy>, Error> {
    let shared = OPEN_FILES.blocking_read();
    // Above it there may be links; SQLite follows none.
    let volume = &fs::canonicalize(volume).at("cannot find", volume)?;
    let databases = match files.is_empty() {
        true => find(volume)?,
        false => listed(volume, files)?,
    };
    if no_links {
        let folders: BTreeSet<&Path> = databases.iter().filter_map(|database| database.parent()).collect();
        folders.into_iter().try_for_each(require_fixed)?;
    }
    match files.is_empty() {
        true => {
            let leaves_out = |path: &Path| databases.iter().any(|database| is_of(path, database));
            Copier::default().folder(volume, to, &leaves_out)?;
        }
        false => fs::create_dir_all(to).at("cannot make", to)?,
    }
    drop(shared);
    let (mut copies, mut folders) = (Vec::new(), BTreeSet::new());
    for database in databases {
        let path = database.strip_prefix(volume).unwrap_or(&database);
        let target = to.join(path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).at("cannot make", folder)?;
        }
        folders.extend(path.ancestors().skip(1).map(Path::to_owned));
        let copied = copy(&database, &target, wait)?;
        copies.push(SqliteCopy { path: path.display().to_string(), ..copied });
    }
    // The innermost first: to write into a folder changes its time.
    for folder in folders.iter().rev() {
        alike(&volume.join(folder), &to.join(folder))?;
    }
    Ok(copies)
}

/// Gives a copy the attributes of what it was made from.
fn alike(from: &Path, to: &Path) -> Result<(), Error> {
    as_it_was(&opened(from).at("cannot read", from)?, to)
}

fn as_it_was(source: &File, to: &Path) -> Result<(), Error> {
    let copy = File::open(to).at("cannot open", to)?;
    attributes(source, &copy).at("cannot give its attributes to", to)
}

/// Opens what is there and no link, without waiting for the other end of a FIFO.
fn opened(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    File::options().read(true).custom_flags(flags as i32).open(path)
}

/// Whether `path` is the database, or what SQLite keeps beside it.
fn is_of(path: &Path, database: &Path) -> bool {
    path == database || sides(database).any(|side| path == side)
}

/// What SQLite keeps beside a database.
pub fn sides(database: &Path) -> impl Iterator<Item = PathBuf> {
    SIDES.iter().map(|side| {
        let mut path = database.as_os_str().to_owned();
        path.push(side);
        path.into()
    })
}

/// Every database below a folder, in order.
pub fn find(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at("cannot read", &folder)? {
            let entry = entry.at("cannot read", &folder)?;
            let kind = entry.file_type().at("cannot read", entry.path())?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && begins_as_one(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn begins_as_one(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    let read = opened(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == MAGIC
}

/// Copies one database.
pub fn copy(database: &Path, to: &Path, wait: Duration) -> Result<SqliteCopy, Error> {
    let alone = OPEN_FILES.blocking_write();
    let deadline = Instant::now() + wait;
    let refused = |error: rusqlite::Error| refused(database, wait, &error);
    // Closed after all connections: they would lose their locks.
    let file = opened(database).at("cannot read", database)?;
    let source = open(database).map_err(refused)?;
    let has_log = patiently(deadline, || has_log(&source)).map_err(refused)?;
    for _ in 0..ATTEMPTS {
        // Whoever could write a log goes on as soon as the moment is over. Without one, those who write wait for
        // those who read, and could keep a reader waiting for ever: so they wait until the copy is made.
        let quiet = Quiet::begin(database, deadline).map_err(refused)?;
        let (schema_version, held) = (schema_version(&quiet.guard).map_err(refused)?, quiet.began);
        let guard = Some(quiet).filter(|_| !has_log);
        let mut waited = held.elapsed();
        let checkpointed = match has_log {
            true => {
                let (is_whole, checkpoint) = checkpoint(&source, deadline).map_err(refused)?;
                waited += checkpoint;
                is_whole
            }
            false => true,
        };
        flush(database, &file)?;
        backup(&source, to, deadline).map_err(refused)?;
        if guard.is_some() {
            waited = held.elapsed();
        }
        drop(guard);
        // A backup gives its target a schema version of its own, so it is the source that is asked again.
        if patiently(deadline, || self::schema_version(&source)).map_err(refused)? != schema_version {
            fs::remove_file(to).at("cannot remove", to)?;
            continue;
        }
        as_it_was(&file, to)?;
        drop(source);
        drop(file);
        drop(alone);
        let integrity_check = examine(to).map_err(|error| failed(to, &error))?;
        return Ok(SqliteCopy {
            path: String::new(),
            integrity_check,
            schema_version,
            checkpointed,
            writers_waited_ms: waited.as_millis() as u64,
        });
    }
    Err(Error::SourceChanged { path: database.to_owned(), attempts: ATTEMPTS })
}

fn open(database: &Path) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

/// A time in which nobody writes to a database. It ends when this goes.
struct Quiet {
    guard: Connection,
    began: Instant,
}

impl Quiet {
    fn begin(database: &Path, deadline: Instant) -> rusqlite::Result<Self> {
        let guard = open(database)?;
        patiently(deadline, || guard.execute_batch("BEGIN IMMEDIATE"))?;
        Ok(Self { guard, began: Instant::now() })
    }
}

/// Tries again while others are in the way. SQLite itself waits too long between two tries to find the short
/// moments that a busy writer leaves.
fn patiently<T>(deadline: Instant, attempt: impl Fn() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(PAUSE),
            ended => return ended,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA schema_version", [], |row| row.get(0))
}

fn has_log(source: &Connection) -> rusqlite::Result<bool> {
    // It is not known before something was read.
    schema_version(source)?;
    source.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).map(|mode| mode == "wal")
}

/// Moves the write-ahead log into the database, and for how long nobody could write meanwhile. One who reads for long
/// can keep a part of it there; the copy has that part, too.
fn checkpoint(source: &Connection, deadline: Instant) -> rusqlite::Result<(bool, Duration)> {
    let mut waited = Duration::ZERO;
    loop {
        let began = Instant::now();
        let tried = source.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        waited += began.elapsed();
        let is_whole = match tried {
            Err(error) if is_busy(&error) => false,
            tried => tried? == 0,
        };
        if is_whole || Instant::now() >= deadline {
            return Ok((is_whole, waited));
        }
        std::thread::sleep(PAUSE);
    }
}

fn flush(database: &Path, file: &File) -> Result<(), Error> {
    file.sync_all().at("cannot flush", database)?;
    let folder = database.parent().unwrap_or(Path::new("."));
    opened(folder).and_then(|folder| folder.sync_all()).at("cannot flush", folder)
}

/// In one step: several would begin again with every write of others.
fn backup(source: &Connection, to: &Path, deadline: Instant) -> rusqlite::Result<()> {
    let mut target = Connection::open(to)?;
    target.execute_batch("PRAGMA synchronous = OFF")?;
    let backup = Backup::new(source, &mut target)?;
    patiently(deadline, || match backup.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)),
    })
}

/// The findings of a check of the copy. The copy is only read: it has no log, and gets none.
fn examine(copy: &Path) -> rusqlite::Result<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{}?immutable=1", escaped(copy)), flags)?;
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({LINES})"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    Ok(match lines.collect::<rusqlite::Result<Vec<String>>>() {
        Ok(lines) => lines.join("\n"),
        Err(error) => error.to_string(),
    })
}

/// A path as a URI of SQLite has it.
fn escaped(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let part = |byte: &u8| match plain(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    path.as_os_str().as_bytes().iter().map(part).collect()
}

/// The listed databases; a link could lead out of the volume.
fn listed(volume: &Path, files: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let root = fs::canonicalize(volume).at("cannot find", volume)?;
    let one = |file: &PathBuf| {
        let path = volume.join(file);
        match fs::canonicalize(&path).at("cannot find", &path)? == root.join(file) {
            true => Ok(path),
            false => Err(Error::InvalidInput { what: format!("{} leads out of its volume", path.display()) }),
        }
    };
    files.iter().map(one).collect()
}

fn failed(database: &Path, error: &rusqlite::Error) -> Error {
    Error::io("cannot copy the database", database, io::Error::other(error.to_string()))
}

fn refused(database: &Path, wait: Duration, error: &rusqlite::Error) -> Error {
    match is_busy(error) {
        true => Error::InUse {
            path: database.to_owned(),
            by: format!("a transaction that did not end within {} s", wait.as_secs_f64()),
        },
        false => failed(database, error),
    }
}
