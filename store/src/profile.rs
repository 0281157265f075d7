//! `Profile` is the short way to the library: open a store, snapshot a directory, get it back.
//!
//! A program that needs more than this calls [`crate::ops`] directly, as `Profile` does.

use std::{
    collections::BTreeMap,
    future::{Future, IntoFuture},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{
    Error, Result,
    bucket::{Access, OpenSettings, RetryBucket, RetryPolicy, S3Overrides, StoreUrl, open, open_for_probe},
    catalog::store::Store,
    content::{TenantStore, chunk_fetcher::startup::Guess},
    format::{
        WRITER,
        event::Actor,
        record::{CapturedBy, CapturedIn, Mode, Reason, Record},
        tree::TreePath,
    },
    name::{ChromeMajor, Lineage, ProfileName},
    ops::{
        point_of_no_return::PointOfNoReturn,
        read::{
            browse,
            resolve::{self, Reference},
            restore,
        },
        write::snapshot,
    },
    progress::Silent,
    tree::write::Keeping,
};

/// How much of a tenant's indexes a snapshot looks at to find chunks that are stored already.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

impl Store {
    /// Opens the store at a URL, `file:///path` or `s3://bucket/prefix`. A directory that is missing is made.
    /// Requests that fail are repeated for a while.
    pub async fn open(url: &str) -> Result<Self> {
        let url: StoreUrl = url.parse().map_err(|error| Error::InvalidInput { what: format!("{error}") })?;
        let settings = OpenSettings { access: Access::Create, s3: S3Overrides::default() };
        let bucket = RetryBucket::new(open(&url, &settings).await?, RetryPolicy::default());
        let handles = open_for_probe(&url, &settings).await?;
        Ok(Self::new(Arc::new(bucket), None).with_probe_handles(handles))
    }

    /// The profile `TENANT/PROFILE` as this major version of Chrome writes it. The tenant is made if it is new.
    pub async fn profile(&self, name: &str, chrome_major: u16) -> Result<Profile> {
        let invalid = |error: crate::name::InvalidName| Error::InvalidInput { what: error.to_string() };
        let name: ProfileName = name.parse().map_err(invalid)?;
        let chrome_major = ChromeMajor::try_from(u64::from(chrome_major)).map_err(invalid)?;
        let tenant = self.writable_tenant(&name.tenant).await?;
        Ok(Profile { tenant, lineage: Lineage { name, chrome_major } })
    }
}

/// The snapshots of one profile.
#[derive(Clone, Debug)]
pub struct Profile {
    tenant: TenantStore,
    lineage: Lineage,
}

impl Profile {
    /// Stores a directory as the next snapshot. Await the builder to do it.
    pub fn snapshot(&self, directory: impl Into<PathBuf>) -> SnapshotBuilder {
        SnapshotBuilder {
            profile: self.clone(),
            directory: directory.into(),
            reason: Reason::Manual,
            labels: BTreeMap::new(),
            notes: String::new(),
            max_bytes: None,
            guess: None,
        }
    }

    /// Writes the current snapshot to a directory. Await the builder to do it.
    pub fn restore(&self, target: impl Into<PathBuf>) -> RestoreBuilder {
        RestoreBuilder { profile: self.clone(), target: target.into(), reference: None, force: false }
    }

    /// The snapshots there are, oldest first.
    pub async fn list(&self) -> Result<Vec<Record>> {
        Ok(resolve::list(&self.tenant, &self.lineage).await?.records)
    }

    /// The bytes of one file of the current snapshot. Only the chunks of the file are fetched.
    pub async fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let record = resolve::snapshot(&self.tenant, &self.lineage, None).await?;
        let path = path.as_ref();
        let path = TreePath::new(path.as_os_str().as_bytes())
            .map_err(|error| Error::InvalidInput { what: format!("{}: {error}", path.display()) })?;
        let bytes = Bytes::default();
        browse::write(&self.tenant, &record, &path, (bytes.clone(), PathBuf::from("memory"))).await?;
        Ok(bytes.take())
    }
}

/// Stores a directory; see [`Profile::snapshot`].
#[derive(Debug)]
#[must_use = "await it to store the directory"]
pub struct SnapshotBuilder {
    profile: Profile,
    directory: PathBuf,
    reason: Reason,
    labels: BTreeMap<String, String>,
    notes: String,
    max_bytes: Option<u64>,
    guess: Option<Guess>,
}

impl SnapshotBuilder {
    /// Why the snapshot is taken; retention can go by it.
    pub fn reason(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// A remark to find the snapshot by.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Free text for the record.
    pub fn notes(self, notes: impl Into<String>) -> Self {
        Self { notes: notes.into(), ..self }
    }

    /// Refuses a larger directory before any of it is read.
    pub fn max_bytes(self, bytes: u64) -> Self {
        Self { max_bytes: Some(bytes), ..self }
    }

    /// Stores what a program will probably read first in one piece, so that a mount fetches it in few requests.
    pub fn guess(self, guess: Guess) -> Self {
        Self { guess: Some(guess), ..self }
    }

    fn request(self) -> (TenantStore, snapshot::Request) {
        let Profile { tenant, lineage } = self.profile;
        let about = snapshot::About {
            captured_by: CapturedBy {
                host: String::new(),
                host_run_id: String::new(),
                writer_version: WRITER.to_owned(),
                unknown: Default::default(),
            },
            captured_in: Some(CapturedIn::default()),
            mode: Mode::Cold,
            reason: self.reason,
            labels: self.labels,
            notes: self.notes,
            chrome_last_version: None,
            exit_type: None,
            chrome_uptime_seconds: 0,
            fallback: None,
            transforms: Vec::new(),
            exclusions: Vec::new(),
            in_progress: None,
        };
        let request = snapshot::Request {
            lineage,
            directory: self.directory,
            max_bytes: self.max_bytes,
            quota_bytes: None,
            rescan: false,
            second_look: None,
            index_budget: INDEX_BUDGET_BYTES,
            threads: threads(),
            actor: Actor::default(),
            lock: snapshot::LockUse::default(),
            made_of: None,
            examiner: None,
            hold_back: None,
            archive: None,
            guess: self.guess,
            on_change: snapshot::OnChange::Refuse,
            about,
        };
        (tenant, request)
    }
}

impl IntoFuture for SnapshotBuilder {
    type Output = Result<snapshot::Report>;
    type IntoFuture = Boxed<snapshot::Report>;

    fn into_future(self) -> Self::IntoFuture {
        let (tenant, request) = self.request();
        Box::pin(async move {
            snapshot::snapshot(&tenant, &request, Arc::new(Silent), std::future::pending()).await
        })
    }
}

/// Writes a snapshot to a directory; see [`Profile::restore`].
#[derive(Debug)]
#[must_use = "await it to write the directory"]
pub struct RestoreBuilder {
    profile: Profile,
    target: PathBuf,
    reference: Option<Reference>,
    force: bool,
}

impl RestoreBuilder {
    /// Another snapshot than the current one.
    pub fn of(self, reference: Reference) -> Self {
        Self { reference: Some(reference), ..self }
    }

    /// Replaces a target that is not empty.
    pub fn replace(self) -> Self {
        Self { force: true, ..self }
    }
}

impl IntoFuture for RestoreBuilder {
    type Output = Result<restore::Report>;
    type IntoFuture = Boxed<restore::Report>;

    fn into_future(self) -> Self::IntoFuture {
        let Profile { tenant, lineage } = self.profile;
        let request = restore::Request {
            paths: Vec::new(),
            target: self.target,
            force: self.force,
            keeping: Keeping { owner: false, special: false },
            threads: threads(),
            inspector: None,
            point_of_no_return: PointOfNoReturn::default(),
        };
        Box::pin(async move {
            let record = resolve::snapshot(&tenant, &lineage, self.reference.as_ref()).await?;
            restore::restore(&tenant, &record, &request, Arc::new(Silent)).await
        })
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Bytes that are written to and taken out again.
#[derive(Clone, Debug, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
