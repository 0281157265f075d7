//! `Location` knows where the store is, and opens it.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use store::{
    ErrorKind,
    bucket::{
        Access, Bucket, InvalidStoreUrl, MeteredBucket, OpenSettings, RequestMeter, RetryBucket, RetryPolicy,
        S3Bucket, S3Config, S3Overrides, StoreUrl, open, open_for_probe,
    },
    catalog::store::Store,
};

use crate::{
    authorities,
    failure::{DIRECTORY, Failure},
};

/// Where a store is, and how it is reached.
#[derive(Clone, Debug)]
pub struct Location {
    /// The directory or the bucket.
    pub url: StoreUrl,
    s3: S3Overrides,
    /// How long requests are repeated.
    patience: Duration,
    /// The buckets that were opened, if they are to be used again.
    kept: Option<Arc<Mutex<OpenBuckets>>>,
    /// Hears of every request.
    meter: Option<Arc<dyn RequestMeter>>,
}

/// The buckets that are open, each for its purpose.
type OpenBuckets = BTreeMap<Purpose, Arc<dyn Bucket>>;

/// Why a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To read alone.
    Read,
    /// To change something that is there.
    Change,
    /// A local store that is missing is made.
    Write,
}

impl Location {
    /// The store at a URL.
    pub fn new(url: &str, s3: S3Overrides, patience: Duration) -> Result<Self, Failure> {
        let url = url.parse().map_err(|error: InvalidStoreUrl| {
            Failure::usage(error.to_string()).hint("--store or PSTORE_STORE names the store")
        })?;
        Ok(Self { url, s3, patience, kept: None, meter: None })
    }

    /// The store in a directory.
    pub fn local(root: PathBuf, patience: Duration) -> Self {
        let (url, s3) = (StoreUrl::Directory(root), S3Overrides::default());
        Self { url, s3, patience, kept: None, meter: None }
    }

    /// Repeats requests no longer than `most`.
    pub fn with_patience(self, most: Duration) -> Self {
        Self { patience: self.patience.min(most), kept: None, ..self }
    }

    /// Keeps what it opens and uses it again, as a process does that serves many requests: connections
    /// and credentials last from one to the next.
    pub fn kept_open(self) -> Self {
        Self { kept: Some(Arc::default()), ..self }
    }

    /// Tells `meter` of every request.
    pub fn metered(self, meter: Arc<dyn RequestMeter>) -> Self {
        Self { meter: Some(meter), kept: None, ..self }
    }

    /// The same store, with requests of which no meter hears.
    pub fn unmetered(&self) -> Self {
        Self { meter: None, kept: None, ..self.clone() }
    }

    /// How long requests are repeated.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// As messages and JSON show it.
    pub fn shown(&self) -> String {
        self.url.to_string().trim_end_matches('/').to_owned()
    }

    /// Where requests go in the clear, though not to this host: everybody on the way can read them.
    pub fn exposed_to(&self) -> Option<&str> {
        let StoreUrl::S3 { .. } = &self.url else { return None };
        let rest = self.s3.endpoint.as_deref()?.strip_prefix("http://")?;
        let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let host = match authority.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or(address),
            None => authority.split(':').next().unwrap_or(authority),
        };
        let is_here = host.parse::<IpAddr>().map_or_else(
            |_| host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost"),
            |address| address.is_loopback(),
        );
        (!is_here).then_some(authority)
    }

    /// Whether it is a directory that does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self.metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Of the directory; an S3 bucket has none, and is told so by its server.
    fn metadata(&self) -> io::Result<()> {
        match &self.url {
            StoreUrl::Directory(root) => root.metadata().map(drop),
            StoreUrl::S3 { .. } => Ok(()),
        }
    }

    /// A directory that this user may not reach is not one that does not exist.
    fn require_reach(&self) -> Result<(), Failure> {
        match self.metadata() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let message = format!("this user may not reach {}: {error}", self.shown());
                Err(Failure::new(ErrorKind::Denied, message).hint(DIRECTORY))
            }
            _ => Ok(()),
        }
    }

    /// Fails if requests are encrypted and the certificate of no server could be checked.
    fn require_authorities(&self) -> Result<(), Failure> {
        if matches!(self.url, StoreUrl::Directory(_)) || self.is_in_the_clear() || authorities::are_known() {
            return Ok(());
        }
        let message = "this host has no certificates of authorities, by which servers are checked";
        Err(Failure::new(ErrorKind::Unavailable, message).hint(
            "install ca-certificates, bind the host's /etc/ssl/certs into the container, or name a file: SSL_CERT_FILE=…",
        ))
    }

    fn is_in_the_clear(&self) -> bool {
        self.s3.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"))
    }

    /// Whether what was opened is kept, for the requests of others.
    pub fn is_kept_open(&self) -> bool {
        self.kept.is_some()
    }

    /// Says that there is no store. Others are not told where it was looked for.
    pub fn no_store(&self) -> Failure {
        if self.is_kept_open() {
            return Failure::new(ErrorKind::NotFound, "there is no store where the server looks for it")
                .hint("the server's operator makes one with `pstore init`");
        }
        let message = format!("there is no store at {}", self.shown());
        let hint = "the first `pstore snapshot` makes it; --store or PSTORE_STORE names another";
        Failure::new(ErrorKind::NotFound, message).hint(hint)
    }

    /// Refuses a directory that holds the store or lies in it: a snapshot would store
    /// itself, and a restore would replace what it reads from.
    pub fn keep_apart(&self, directory: &Path) -> Result<(), Failure> {
        let StoreUrl::Directory(root) = &self.url else { return Ok(()) };
        let (root, directory) = (resolved(root), resolved(directory));
        if root.starts_with(&directory) || directory.starts_with(&root) {
            let message = format!("{} and the store {} overlap", directory.display(), self.shown());
            return Err(
                Failure::usage(message).hint("choose another directory, or another store with --store")
            );
        }
        Ok(())
    }

    /// The S3 bucket by itself, for what only S3 has.
    #[crate::boxed]
    pub async fn s3(&self) -> Option<S3Bucket> {
        match &self.url {
            StoreUrl::Directory(_) => None,
            StoreUrl::S3 { bucket, prefix } => {
                let config = S3Config::new(bucket, prefix.clone()).with(self.overrides());
                Some(S3Bucket::open(config).await)
            }
        }
    }

    /// Opens the bucket; requests that fail are repeated for a while.
    #[crate::boxed]
    pub async fn bucket(&self, purpose: Purpose) -> Result<Arc<dyn Bucket>, Failure> {
        self.require_reach()?;
        self.require_authorities()?;
        if purpose != Purpose::Write && self.is_missing() {
            return Err(self.no_store());
        }
        if let Some(bucket) = self.kept(purpose) {
            return Ok(bucket);
        }
        let mut bucket = open(&self.url, &self.settings(purpose)).await?;
        if let Some(meter) = &self.meter {
            bucket = Arc::new(MeteredBucket::new(bucket, Arc::clone(meter)));
        }
        let bucket: Arc<dyn Bucket> = Arc::new(RetryBucket::new(bucket, self.policy()));
        if let Some(kept) = &self.kept {
            let mut kept = kept.lock();
            kept.insert(purpose, Arc::clone(&bucket));
        }
        Ok(bucket)
    }

    /// The bucket that was opened before for this purpose, if it was kept.
    fn kept(&self, purpose: Purpose) -> Option<Arc<dyn Bucket>> {
        let kept = self.kept.as_ref()?.lock();
        kept.get(&purpose).cloned()
    }

    /// A store that may have to be made, and so be probed.
    #[crate::boxed]
    pub async fn store_to_make(&self, cache_root: Option<PathBuf>) -> Result<Store, Failure> {
        self.require_authorities()?;
        let handles = open_for_probe(&self.url, &self.settings(Purpose::Write)).await?;
        Ok(Store::new(self.bucket(Purpose::Write).await?, cache_root).with_probe_handles(handles))
    }

    fn settings(&self, purpose: Purpose) -> OpenSettings {
        let access = match purpose {
            Purpose::Read => Access::ReadOnly,
            Purpose::Change => Access::ReadWrite,
            Purpose::Write => Access::Create,
        };
        OpenSettings { access, s3: self.overrides() }
    }

    /// How long anything is sent again: a request, or a part of a large object.
    fn policy(&self) -> RetryPolicy {
        RetryPolicy { deadline: self.patience, ..RetryPolicy::default() }
    }

    fn overrides(&self) -> S3Overrides {
        let is_plain = self.is_in_the_clear() && !authorities::are_known();
        S3Overrides { part_patience: Some(self.policy()), is_plain, ..self.s3.clone() }
    }
}

/// The path with links resolved, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in absolute.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), absolute.strip_prefix(ancestor)) {
            return real.join(rest);
        }
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_leave_this_host_in_the_clear_are_exposed() {
        let exposed = |url: &str, endpoint: Option<&str>| {
            let s3 = S3Overrides { endpoint: endpoint.map(str::to_owned), ..S3Overrides::default() };
            Location::new(url, s3, Duration::ZERO).unwrap().exposed_to().map(str::to_owned)
        };
        for here in [
            "https://store.example",
            "http://127.0.0.1:9000",
            "http://127.8.9.1/",
            "http://localhost:9000",
            "http://s3.LOCALHOST",
            "http://[::1]:9000",
            "http://me:127.0.0.1@localhost",
        ] {
            assert_eq!(exposed("s3://b", Some(here)), None, "{here}");
        }
        for (away, host) in [
            ("http://store.example:9000/path", "store.example:9000"),
            ("http://10.0.0.7", "10.0.0.7"),
            ("http://localhost@store.example", "store.example"),
            ("http://localhost.example", "localhost.example"),
            ("http://[fd00::1]:9000", "[fd00::1]:9000"),
        ] {
            assert_eq!(exposed("s3://b", Some(away)).as_deref(), Some(host));
        }
        assert_eq!(exposed("s3://b", None), None);
        assert_eq!(exposed("file:///x", Some("http://store.example")), None);
    }

    #[tokio::test]
    async fn what_is_kept_open_is_opened_once() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::local(folder.path().to_owned(), Duration::ZERO);
        for (location, is_kept) in [(location.clone(), false), (location.kept_open(), true)] {
            let first = location.bucket(Purpose::Read).await.unwrap();
            let again = location.clone().bucket(Purpose::Read).await.unwrap();
            assert_eq!(Arc::ptr_eq(&first, &again), is_kept);
            let other = location.bucket(Purpose::Change).await.unwrap();
            assert!(!Arc::ptr_eq(&first, &other), "who may only read is not given what may change");
        }
    }

    /// The server that refuses parts is asked no longer than one that refuses anything else.
    #[test]
    fn parts_of_large_objects_are_sent_again_for_as_long_as_requests_are() {
        let patience = Duration::from_secs(7);
        let location = Location::new("s3://bucket/prefix", S3Overrides::default(), patience).unwrap();
        let deadline_at = |location: &Location| {
            let StoreUrl::S3 { bucket, prefix } = &location.url else { panic!("{location:?}") };
            let settings = location.settings(Purpose::Write);
            S3Config::new(bucket, prefix.clone()).with(settings.s3).part_patience.deadline
        };
        assert_eq!(deadline_at(&location), patience);
        let brief = Duration::from_secs(2);
        assert_eq!(deadline_at(&location.with_patience(brief)), brief);
    }
}
