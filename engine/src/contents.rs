//! `contents` describes the entries of a snapshot, for the verbs that look into one.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    format::{
        record::Record,
        tree::{Entry, Kind, Meta, TreePath},
    },
    ops::read::browse::OpenFile,
};

use crate::{Engine, failure::Failure, names::SnapshotChoice, text::path};

/// The kinds of entries that a snapshot can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    HardLink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl EntryKind {
    const ALL: [Self; 8] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::HardLink,
        Self::Fifo,
        Self::Socket,
        Self::CharDevice,
        Self::BlockDevice,
    ];

    /// The word for it in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::HardLink => "hard_link",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::CharDevice => "char_device",
            Self::BlockDevice => "block_device",
        }
    }

    /// The kind that has this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl From<&Kind> for EntryKind {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::File { .. } => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Symlink { .. } => Self::Symlink,
            Kind::HardLink { .. } => Self::HardLink,
            Kind::Fifo => Self::Fifo,
            Kind::Socket => Self::Socket,
            Kind::CharDevice { .. } => Self::CharDevice,
            Kind::BlockDevice { .. } => Self::BlockDevice,
        }
    }
}

/// One entry of a snapshot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EntryFields {
    /// Its path from the top of the profile.
    pub path: String,
    /// The bytes of the path, if they are no text.
    pub path_hex: Option<String>,
    /// Its kind.
    pub kind: EntryKind,
    /// The size of a file; of a hard link, that of the file behind it.
    pub size_bytes: Option<u64>,
    /// Its permission bits.
    pub mode: u32,
    /// When it was last changed.
    pub modified_at_ms: u64,
    /// The path or text that a link leads to.
    pub target: Option<String>,
    /// The bytes of the target, if they are no text.
    pub target_hex: Option<String>,
    /// The bytes of the path.
    #[serde(skip)]
    pub path_bytes: Vec<u8>,
    /// The bytes of the target.
    #[serde(skip)]
    pub target_bytes: Option<Vec<u8>>,
}

impl EntryFields {
    /// Describes an entry of a snapshot; `file` is the file behind it, if there is one.
    pub fn of(entry: &Entry, file: Option<&Entry>) -> Self {
        // A hard link itself says nothing of the file behind it.
        let meta = &file.unwrap_or(entry).meta;
        let (path, path_hex) = path::fields(entry.path.as_bytes());
        let target_bytes = target(entry).map(<[u8]>::to_vec);
        let (target, target_hex) = target_bytes.as_deref().map(path::fields).unzip();
        Self {
            path,
            path_hex,
            kind: (&entry.kind).into(),
            size_bytes: file.map(Entry::size),
            mode: meta.mode,
            modified_at_ms: modified_at_ms(meta),
            target,
            target_hex: target_hex.flatten(),
            path_bytes: entry.path.as_bytes().to_vec(),
            target_bytes,
        }
    }
}

/// A file of a snapshot that is about to be read.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file itself.
    pub file: OpenFile,
    /// Its path, as it is in the snapshot.
    pub path: TreePath,
    /// The snapshot, as one would type it.
    pub snapshot: String,
}

impl Engine {
    /// Finds a file of a snapshot. Nothing of it is fetched yet.
    #[crate::boxed]
    pub async fn open_file(&self, snapshot: &SnapshotChoice, path: &OsStr) -> Result<OpenedFile, Failure> {
        let (reference, path) = (snapshot.reference()?, self::path(path)?);
        let (tenant, lineage) = self.lineage_to_judge(&snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, reference).await?;
        let snapshot = format!("{}@{}", lineage.name, record.sha256_prefix());
        match OpenFile::open(&tenant, &record, &path).await {
            Ok(file) => Ok(OpenedFile { file, path, snapshot }),
            Err(error) => Err(match error.kind() {
                ErrorKind::NotFound => elsewhere(&record, error),
                ErrorKind::InvalidInput => {
                    Failure::from(error).hint(format!("`pstore ls {snapshot} -l` tells what each name is"))
                }
                _ => error.into(),
            }),
        }
    }
}

/// A path as it is typed: `./Default/`, `/Default` and `Default` are one.
pub fn path(typed: &OsStr) -> Result<TreePath, Failure> {
    let names = typed.as_bytes().split(|b| *b == b'/').filter(|name| !name.is_empty() && *name != b".");
    TreePath::new(names.collect::<Vec<_>>().join(&b"/"[..])).map_err(|_| {
        let message = format!("{} is no path in a snapshot", path::shown(typed.as_bytes()));
        Failure::usage(message).hint("write it as Default/Cookies, from the top of the profile")
    })
}

/// A path that is not in a snapshot, with the command that lists those that are.
pub fn elsewhere(record: &Record, error: Error) -> Failure {
    let (tenant, profile, major) = (&record.tenant_id, &record.profile_id, record.chrome_major_version);
    Failure::from(error).hint(format!(
        "`pstore ls {tenant}/{profile}@{} --chrome-major {major} -R` lists what is in it",
        record.sha256_prefix()
    ))
}

/// When it was last changed, in milliseconds since 1970; an earlier time counts as 1970.
fn modified_at_ms(meta: &Meta) -> u64 {
    let time = meta.mtime;
    u64::try_from(time.seconds)
        .map_or(0, |seconds| seconds.saturating_mul(1000) + u64::from(time.nanos / 1_000_000))
}

/// Where a link leads.
fn target(entry: &Entry) -> Option<&[u8]> {
    match &entry.kind {
        Kind::Symlink { target } => Some(target),
        Kind::HardLink { target } => Some(target.as_bytes()),
        _ => None,
    }
}
