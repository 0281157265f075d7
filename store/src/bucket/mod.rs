//! `Bucket` maps keys to bytes, with compare-and-swap as the only way to write.
//!
//! A [`Bucket`] holds immutable and mutable objects alike, but offers no blind
//! overwrite: a write either creates a key that was absent or replaces the exact
//! version the caller has read. Everything above relies on two promises, which the
//! probe checks on every new store: per key, writes are linearizable, and a list shows
//! every object that was written before it began.
//!
//! Retries live in a wrapper, never in a back-end: a back-end sends each request once,
//! because a resent conditional write may be answered by its own first delivery.

mod buffers;
mod clock;
#[cfg(any(test, feature = "test-support"))]
mod delay;
#[cfg(any(test, feature = "test-support"))]
mod fault;
mod local;
#[cfg(any(test, feature = "test-support"))]
mod memory;
mod metered;
mod open;
mod probe;
#[cfg(any(test, feature = "test-support"))]
mod recorder;
pub mod request_id;
mod retry;
mod round_trips;
mod s3;
mod tenant;
mod unique;

pub use buffers::Buffers;
pub use clock::StoreClock;
#[cfg(any(test, feature = "test-support"))]
pub use delay::DelayBucket;
#[cfg(any(test, feature = "test-support"))]
pub use fault::{Fault, FaultBucket, Rule};
pub use local::{Access, LocalBucket, MUTABLE_MAX_BYTES};
#[cfg(any(test, feature = "test-support"))]
pub use memory::MemoryBucket;
pub use metered::{MeteredBucket, MeteredRequest, RequestMeter, RequestOutcome};
pub use open::{InvalidStoreUrl, OpenSettings, StoreUrl, open, open_for_probe};
pub use probe::{KeptVerdicts, ProbeOptions, Verdict, probe};
#[cfg(any(test, feature = "test-support"))]
pub use recorder::{Call, Recorder};
pub use retry::{Attempts, RetryBucket, RetryPolicy};
pub use s3::{
    BucketSettings, Checksum, IfMatch, InvalidS3Url, S3Bucket, S3Config, S3Credentials, S3Overrides,
};
pub use tenant::TenantBucket;
pub use unique::{put_unique, put_unique_once};

pub use crate::{
    error::BucketError,
    key::{InvalidKey, Key, Prefix},
};

use std::{
    fmt,
    fs::File,
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;

/// Names the state of an object that a read returned, as the condition of a later [`Write::Replace`].
///
/// Opaque: an S3 entity tag, or the digest of a local file's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(Arc<str>);

impl Version {
    /// A version as the store spells it.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The version of a store that has no entity tags of its own: the digest of the bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::new(blake3::hash(bytes).to_hex().as_str())
    }

    /// The version as the store spells it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The condition every write carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The key must be absent.
    Create,
    /// The key must hold exactly this version.
    Replace(Version),
}

/// The bytes of a write.
#[derive(Clone, Debug)]
pub enum Body {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A file on local disk, streamed; it must not change while it is being sent.
    File {
        /// Where the file is.
        path: PathBuf,
        /// How many of its bytes are sent, from the first on.
        len: u64,
    },
}

impl Body {
    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// When an object was written and when it was read, both by the store's own clock.
///
/// Their difference is an age that no host's clock can falsify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When the object was written.
    pub modified: SystemTime,
    /// When the server answered, by the same clock.
    pub now: SystemTime,
}

impl Stamp {
    /// How old the object was when it was read; zero if it claims to be from the future.
    pub fn age(&self) -> Duration {
        self.now.duration_since(self.modified).unwrap_or_default()
    }
}

/// A whole object.
#[derive(Clone, Debug)]
pub struct Object {
    /// The whole object.
    pub bytes: Bytes,
    /// The version that a replacement must name.
    pub version: Version,
    /// When it was written, and when it was read.
    pub stamp: Stamp,
}

impl Object {
    /// The object, unless it has more than `max_bytes`: for stores that have it in memory anyway.
    #[cfg(any(test, feature = "test-support"))]
    pub fn within(self, key: &Key, max_bytes: u64) -> Result<Self> {
        let bytes = self.bytes.len() as u64;
        if bytes <= max_bytes {
            return Ok(self);
        }
        let version = self.version.to_string();
        Err(BucketError::TooLarge { key: key.to_string(), bytes, max_bytes, version })
    }
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key of the object.
    pub key: Key,
    /// How many bytes it has.
    pub size: u64,
    /// When it was written, by the server's clock.
    pub modified: SystemTime,
}

/// How far below the prefix a listing looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every object below the prefix.
    All,
    /// Objects directly below it, and the names of the folders there.
    Children,
}

/// A part of a listing, in no promised order.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The objects of this part.
    pub entries: Vec<Entry>,
    /// With [`Depth::Children`]: folders below the prefix, each ending in a slash. Every
    /// folder that holds an object is there; some servers show one a while longer.
    pub folders: Vec<Prefix>,
    /// Where the next page starts; `None` after the last one.
    pub next: Option<String>,
}

/// Whether a conditional delete could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Yes,
    /// This store has no conditional delete; nothing was done.
    Unsupported,
}

/// The known facts about a server, for messages and for the probe's verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Where it is reached, which tells it from others.
    pub place: Option<String>,
    /// As the server calls itself.
    pub name: Option<String>,
    /// How it wants an entity tag written, once that is known.
    pub if_match: Option<IfMatch>,
}

/// A result whose error a bucket tells.
pub type Result<T, E = BucketError> = std::result::Result<T, E>;

/// One method of a bucket; a put is told apart by its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// [`Bucket::get`].
    Get,
    /// [`Bucket::get_range`].
    GetRange,
    /// [`Bucket::put`] of an object that must not exist.
    Create,
    /// [`Bucket::put`] of an object whose version is known.
    Replace,
    /// [`Bucket::list`].
    List,
    /// [`Bucket::delete`].
    Delete,
    /// [`Bucket::delete_if`].
    DeleteIf,
}

impl Verb {
    /// The verb of a put on this condition.
    pub fn of_write(write: &Write) -> Self {
        match write {
            Write::Create => Self::Create,
            Write::Replace(_) => Self::Replace,
        }
    }

    /// Every verb.
    pub const ALL: [Self; 7] =
        [Self::Get, Self::GetRange, Self::Create, Self::Replace, Self::List, Self::Delete, Self::DeleteIf];

    /// The word that metrics have for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetRange => "get_range",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::List => "list",
            Self::Delete => "delete",
            Self::DeleteIf => "delete_if",
        }
    }

    /// Whether the call changes nothing.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::GetRange | Self::List)
    }
}

/// Keys to bytes. See the module header for the promises of an implementation.
#[async_trait]
pub trait Bucket: Send + Sync + fmt::Debug {
    /// A person's name for this store, for messages.
    fn describe(&self) -> String;

    /// The facts learnt about the server so far.
    fn server(&self) -> ServerFacts {
        ServerFacts::default()
    }

    /// Takes a probe's word for how the server wants to be asked. The verdict must be on this
    /// very server; see [`Verdict::is_on`].
    fn trust(&self, _verdict: &Verdict) {}

    /// Whether a body is refused that does not fit this checksum. Writes to `key`, which must
    /// be absent, and leaves the object there.
    async fn checks(&self, _key: &Key, _checksum: Checksum) -> Result<bool> {
        Ok(false)
    }

    /// How long a caller that may send a write again should go on doing so.
    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy::BRIEF
    }

    /// How many answers of the store had to be waited for so far, one after another. Nobody
    /// counts unless requests are sent again if need be.
    fn round_trips(&self) -> u64 {
        0
    }

    /// The object as an open file, where objects are files of this host: a caller that reads many
    /// parts of it need not ask for each. `None` if every read is a request.
    fn file(&self, _key: &Key) -> Option<Result<File>> {
        None
    }

    /// A URL at which anybody can fetch the object for as long as `lifetime`, without a login of his own.
    /// `None` if the store is not reached in such a way. Nobody looks whether the object exists.
    async fn link(&self, _key: &Key, _lifetime: Duration) -> Result<Option<String>> {
        Ok(None)
    }

    /// The whole object, or [`BucketError::TooLarge`] if it has more than `max_bytes`, of which no
    /// more is taken into memory.
    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object>;

    /// Exactly the bytes of `range`, or [`BucketError::Truncated`]. An empty range is
    /// empty without asking the store.
    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes>;

    /// Writes an object if `write` allows it, and tells its new version.
    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version>;

    /// One page below `prefix`; `cursor` is the `next` of the page before.
    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page>;

    /// Removes the object; a missing one counts as removed.
    async fn delete(&self, key: &Key) -> Result<()>;

    /// Removes exactly this version, where the store can.
    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted>;
}
