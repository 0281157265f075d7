//! Asks for settings of the bucket itself that change what deleting means. Only asked for by a diagnosis:
//! nothing else depends on them.

use aws_sdk_s3::types::{BucketVersioningStatus, ObjectLockEnabled};

use super::{S3Bucket, errors::Condition};
use crate::bucket::{BucketError, Result};

/// The bucket's own settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// Deleted and replaced objects are kept, and paid for, as old versions.
    pub versioned: bool,
    /// Objects may refuse to be deleted.
    pub object_lock: bool,
}

impl S3Bucket {
    /// Asks whether the bucket keeps versions and locks objects. A server that does not know such a setting
    /// does not have it.
    pub async fn settings(&self) -> Result<BucketSettings> {
        let asked = self.asked_about("the bucket's settings", Condition::None);
        let versioning = self.client.get_bucket_versioning().bucket(&self.config.bucket).send();
        let lock = self.client.get_object_lock_configuration().bucket(&self.config.bucket).send();
        let (versioning, lock) = tokio::join!(versioning, lock);
        let status = match versioning.map_err(|error| asked.failed(error)) {
            Ok(versioning) => versioning.status,
            Err(BucketError::Rejected { reason, .. }) if reason.starts_with("NotImplemented") => None,
            Err(error) => return Err(error),
        };
        let lock = lock.ok().and_then(|lock| lock.object_lock_configuration);
        Ok(BucketSettings {
            versioned: status == Some(BucketVersioningStatus::Enabled),
            object_lock: lock
                .is_some_and(|lock| lock.object_lock_enabled() == Some(&ObjectLockEnabled::Enabled)),
        })
    }
}
