//! Where the store is.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use store::{
    ErrorKind,
    bucket::{Access, Bucket, LocalBucket, RetryBucket, RetryPolicy, S3Bucket, S3Config, S3Overrides},
};

use crate::failure::Failure;

#[derive(Clone, Debug)]
pub(crate) enum Location {
    Local(PathBuf),
    S3(Box<S3Config>),
}

/// Why a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// A local store that is missing is made.
    Write,
}

impl Location {
    /// Parses `file:///path` (taken as it stands, nothing is unescaped) or `s3://bucket/prefix`.
    pub(crate) fn parse(url: &str, s3: S3Overrides) -> Result<Self, Failure> {
        if let Some(path) = url.strip_prefix("file://") {
            let path = Path::new(path);
            if !path.is_absolute() {
                let message = format!("{url:?} is no store: the path after file:// must be absolute");
                return Err(Failure::usage(message).hint("three slashes: file:///var/lib/pstore"));
            }
            return Ok(Self::Local(path.to_owned()));
        }
        if url.starts_with("s3://") {
            let config = S3Config::from_url(url, s3).map_err(|error| Failure::usage(error.to_string()))?;
            return Ok(Self::S3(Box::new(config)));
        }
        let message = format!("{url:?} is no store: it starts with neither file:// nor s3://");
        Err(Failure::usage(message).hint("for example file:///var/lib/pstore or s3://bucket/prefix"))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Local(root) => format!("file://{}", root.display()),
            Self::S3(config) => config.url().trim_end_matches('/').to_owned(),
        }
    }

    pub(crate) async fn open(&self, purpose: Purpose) -> Result<Arc<dyn Bucket>, Failure> {
        match self {
            Self::Local(root) => Ok(Arc::new(open_local(root.clone(), purpose).await?)),
            Self::S3(config) => {
                let bucket = S3Bucket::open((**config).clone()).await;
                Ok(Arc::new(RetryBucket::new(Arc::new(bucket), RetryPolicy::default())))
            }
        }
    }
}

async fn open_local(root: PathBuf, purpose: Purpose) -> Result<LocalBucket, Failure> {
    let access = match purpose {
        Purpose::Read if !root.exists() => {
            let message = format!("there is no store at file://{}", root.display());
            let hint = "the first `pstore snapshot` makes it; --store or PSTORE_STORE names another";
            return Err(Failure::new(ErrorKind::NotFound, message).hint(hint));
        }
        Purpose::Read => Access::ReadOnly,
        Purpose::Write => Access::Create,
    };
    let opened = tokio::task::spawn_blocking(move || LocalBucket::open(&root, access)).await;
    Ok(opened.map_err(|error| Failure::internal(error.to_string()))??)
}
