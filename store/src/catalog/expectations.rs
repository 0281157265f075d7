//! Reads the expectations of a profile, and changes them by compare-and-swap.

use super::{cas, clock};
use crate::{
    Error, ErrorKind, Result,
    bucket::{BucketError, Version, Write},
    content::TenantStore,
    format::{event::Actor, expectations::Expectations, layout, limits},
    name::ProfileName,
};

const ATTEMPTS: u32 = 5;

/// The expectations of a profile; `None` if nobody has ever set any.
pub async fn read(store: &TenantStore, name: &ProfileName) -> Result<Option<Expectations>> {
    let Some((bytes, _)) = get(store, name).await? else { return Ok(None) };
    decode(name, &bytes).map(Some)
}

/// The outcome of a change.
#[derive(Clone, Debug)]
pub struct ExpectationsChange {
    /// The expectations after it.
    pub expectations: Expectations,
    /// Whether anything was different before.
    pub changed: bool,
}

/// Changes the expectations, beside other changes at the same time. `change` says whether it did
/// anything. If `anew`, it begins with nothing, even if there is a document, readable or not.
pub async fn change(
    store: &TenantStore,
    name: &ProfileName,
    by: &Actor,
    anew: bool,
    change: impl Fn(&mut Expectations) -> Result<bool>,
) -> Result<ExpectationsChange> {
    let key = layout::expectations(name);
    for _ in 0..ATTEMPTS {
        let found = get(store, name).await?;
        let (before, version) = match found {
            Some((bytes, version)) => (Some(decode(name, &bytes)), Some(version)),
            None => (None, None),
        };
        let before = match before.transpose() {
            Err(error) if anew && is_unreadable(&error) => None,
            before => before?,
        };
        let mut next = before.clone().unwrap_or_else(|| Expectations::new(name, by.clone()));
        if anew {
            (next.cookies, next.origins, next.files) = Default::default();
        }
        let told = change(&mut next)?;
        let is_new = before.is_none() && version.is_some();
        if !(told || is_new || anew && before.is_some_and(|before| !before.is_empty())) {
            return Ok(ExpectationsChange { expectations: next, changed: false });
        }
        next.revision += 1;
        next.changed_at_ms = clock::unix_ms();
        next.by = by.clone();
        let bytes = next.encode_readable().map_err(|error| error.of(&key))?;
        if put(store, name, bytes, version).await? {
            return Ok(ExpectationsChange { expectations: next, changed: true });
        }
    }
    Err(Error::Conflict { what: format!("what is expected of {name}") })
}

/// Whether a document is there and says nothing that can be understood.
pub fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat)
}

async fn get(store: &TenantStore, name: &ProfileName) -> Result<Option<(bytes::Bytes, Version)>> {
    match store.bucket.get(&layout::expectations(name), limits::EXPECTATIONS).await {
        Ok(object) => Ok(Some((object.bytes, object.version))),
        Err(BucketError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn decode(name: &ProfileName, bytes: &[u8]) -> Result<Expectations> {
    let key = layout::expectations(name);
    let found = Expectations::decode(bytes).map_err(|error| error.of(&key))?;
    if found.tenant_id != name.tenant || found.profile_id != name.profile {
        return Err(Error::damaged(&key, "it is about another profile"));
    }
    Ok(found)
}

/// Whether it was written; else somebody else was first.
async fn put(
    store: &TenantStore,
    name: &ProfileName,
    bytes: Vec<u8>,
    version: Option<Version>,
) -> Result<bool> {
    let (bucket, key) = (&*store.bucket, layout::expectations(name));
    if let Some(version) = version {
        return Ok(cas::replace(bucket, &key, bytes.into(), version).await?.is_some());
    }
    let bytes = bytes::Bytes::from(bytes);
    let mut attempts = bucket.retry_policy().start();
    loop {
        match bucket.put(&key, bytes.clone().into(), Write::Create).await {
            Ok(_) => return Ok(true),
            // Perhaps ours, from an earlier delivery.
            Err(BucketError::AlreadyExists { .. }) => {
                let now = get(store, name).await?;
                return Ok(now.is_some_and(|(now, _)| now == bytes));
            }
            Err(error) if error.is_retryable() && attempts.again(&error).await => {}
            Err(error) => return Err(error.into()),
        }
    }
}
