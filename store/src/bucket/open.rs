//! `open` makes a bucket of a URL; a new back-end gets its scheme here.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use super::{Access, Bucket, BucketError, LocalBucket, Result, S3Bucket, S3Config, S3Overrides};

/// Handles that race each other in a probe, each with connections of its own.
const PROBE_HANDLES: usize = 4;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// `file:///absolute/path`, the path taken literally: nothing in it is decoded.
    Directory(PathBuf),
    /// `s3://bucket` or `s3://bucket/prefix`.
    S3 {
        /// The bucket's name.
        bucket: String,
        /// The beginning of all keys; may be empty.
        prefix: super::Prefix,
    },
}

/// Why a text names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStoreUrl {
    /// It begins with no scheme that this code knows.
    #[error("{url:?} names no store: use file:///absolute/path or s3://bucket/prefix")]
    Unknown {
        /// The URL that was given.
        url: String,
    },
    /// A path that depends on the working directory.
    #[error("{url:?} names no directory: after file:// comes an absolute path, as in file:///absolute/path")]
    NotAbsolute {
        /// The URL that was given.
        url: String,
    },
    /// A URL of S3 whose bucket or prefix is invalid.
    #[error(transparent)]
    S3(#[from] super::InvalidS3Url),
}

impl FromStr for StoreUrl {
    type Err = InvalidStoreUrl;

    fn from_str(url: &str) -> Result<Self, InvalidStoreUrl> {
        if let Some(path) = url.strip_prefix("file://") {
            if !path.starts_with('/') || path.contains('\0') {
                return Err(InvalidStoreUrl::NotAbsolute { url: url.to_owned() });
            }
            return Ok(Self::Directory(path.into()));
        }
        if url.starts_with("s3://") {
            let S3Config { bucket, prefix, .. } = S3Config::from_url(url, S3Overrides::default())?;
            return Ok(Self::S3 { bucket, prefix });
        }
        Err(InvalidStoreUrl::Unknown { url: url.to_owned() })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "file://{}", path.display()),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// The settings that a URL leaves open.
#[derive(Clone, Debug)]
pub struct OpenSettings {
    /// For a directory.
    pub access: Access,
    /// For S3.
    pub s3: S3Overrides,
}

impl Default for OpenSettings {
    fn default() -> Self {
        Self { access: Access::ReadWrite, s3: S3Overrides::default() }
    }
}

/// Opens the store without retries or scope; those are wrappers.
pub async fn open(url: &StoreUrl, settings: &OpenSettings) -> Result<Arc<dyn Bucket>> {
    match url {
        StoreUrl::Directory(root) => {
            let (root, access) = (root.clone(), settings.access);
            let opened = tokio::task::spawn_blocking(move || LocalBucket::open(&root, access));
            let bucket = opened.await.map_err(|error| BucketError::Unavailable {
                key: String::new(),
                store: url.to_string(),
                reason: error.to_string(),
            })?;
            Ok(Arc::new(bucket?))
        }
        StoreUrl::S3 { bucket, prefix } => {
            let endpoint = settings.s3.endpoint.as_deref().unwrap_or("https://");
            if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
                return Err(BucketError::Unsuitable {
                    store: url.to_string(),
                    reason: format!("its endpoint {endpoint:?} does not start with http:// or https://"),
                });
            }
            let config = S3Config::new(bucket, prefix.clone()).with(settings.s3.clone());
            Ok(Arc::new(S3Bucket::open(config).await))
        }
    }
}

/// Handles to probe a store through, each with connections of its own.
pub async fn open_for_probe(url: &StoreUrl, settings: &OpenSettings) -> Result<Vec<Arc<dyn Bucket>>> {
    let mut settings = settings.clone();
    // What the probe is to find out must neither be taken for granted nor ruled out.
    settings.s3.if_match = None;
    settings.s3.conditional_delete = true;
    let mut handles = Vec::new();
    for _ in 0..PROBE_HANDLES {
        handles.push(open(url, &settings).await?);
    }
    Ok(handles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{ProbeOptions, probe};

    #[test]
    fn a_store_is_a_directory_or_a_bucket() {
        for good in ["file:///srv/store", "file:///a b%20c", "s3://bucket/", "s3://bucket/a/b/"] {
            assert_eq!(good.parse::<StoreUrl>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "/srv/store",
            "store",
            "file://host/path",
            "file://",
            "file:/a",
            "http://x",
            "S3://b",
            "s3://",
        ] {
            let text = bad.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(text.contains("file://") || text.contains("s3://"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_directory_is_probed_and_opened() {
        let folder = tempfile::tempdir().unwrap();
        let url: StoreUrl = format!("file://{}", folder.path().display()).parse().unwrap();
        let handles = open_for_probe(&url, &OpenSettings::default()).await.unwrap();
        let verdict = probe(&handles, &ProbeOptions::default()).await.unwrap();
        assert!(verdict.ok && verdict.conditional_delete, "{verdict:?}");
        assert!(verdict.is_on(&open(&url, &OpenSettings::default()).await.unwrap().server()));
    }
}
