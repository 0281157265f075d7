//! Replaces a document by compare-and-swap, and finds out after a lost answer whether it was replaced. The pointer
//! has a way of its own: `pointer/swap.rs`.

use bytes::Bytes;

use crate::{
    Result,
    bucket::{Bucket, BucketError, Key, Version, Write},
};

/// Replaces `version` by `bytes`; `None` if somebody else has replaced or removed it.
///
/// The same bytes are sent again after a lost answer. That is safe for documents that only
/// move forward: no bytes come back once they were replaced.
pub async fn replace(
    bucket: &dyn Bucket,
    key: &Key,
    bytes: Bytes,
    version: Version,
) -> Result<Option<Version>> {
    let mut attempts = bucket.retry_policy().start();
    loop {
        match bucket.put(key, bytes.clone().into(), Write::Replace(version.clone())).await {
            Ok(version) => return Ok(Some(version)),
            Err(BucketError::VersionMismatch { .. }) => {
                return match bucket.get(key, bytes.len() as u64).await {
                    Ok(object) if object.bytes == bytes => Ok(Some(object.version)),
                    Ok(_) | Err(BucketError::NotFound { .. } | BucketError::TooLarge { .. }) => Ok(None),
                    Err(error) => Err(error.into()),
                };
            }
            Err(error) if error.is_retryable() && attempts.again(&error).await => {}
            Err(error) => return Err(error.into()),
        }
    }
}
