//! Creates a large object in parts.
//!
//! Only creations come here. Some servers ignore the condition on the completion, so a
//! look at the key comes before it; between that look and the completion another writer
//! could still slip in. Objects this large carry names that are unique to their writer,
//! which is why that is enough, and a replacement is never sent in parts at all.

use aws_sdk_s3::{
    primitives::{ByteStream, Length},
    types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart},
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    Checksum, S3Bucket, client, entity_tag,
    errors::{Condition, told},
};
use crate::bucket::{Body, BucketError, Key, Result, Version};

/// Parts under way at once.
const PARALLEL: usize = 4;

/// No server takes more.
const MAX_PARTS: u64 = 10_000;

impl S3Bucket {
    pub(super) async fn create_in_parts(&self, key: &Key, body: Body) -> Result<Version> {
        let asked = self.asked(key, Condition::Absent);
        let started = self
            .client
            .create_multipart_upload()
            .bucket(&self.config.bucket)
            .key(self.name(key))
            .set_checksum_algorithm(
                (self.checksum() == Checksum::Crc32c).then_some(ChecksumAlgorithm::Crc32C),
            )
            .send()
            .await
            .map_err(|error| asked.failed(error))?;
        let upload = started.upload_id().ok_or_else(|| asked.unavailable("the upload got no id".into()))?;
        let answer = self.upload_and_complete(key, body, upload).await;
        if answer.is_err() {
            self.abort(key, upload).await;
        }
        answer
    }

    async fn upload_and_complete(&self, key: &Key, body: Body, upload: &str) -> Result<Version> {
        let asked = self.asked(key, Condition::Absent);
        let len = body.len();
        let step = self.config.part_bytes.max(len.div_ceil(MAX_PARTS)).max(1);
        let parts = (0..len.div_ceil(step)).map(|index| {
            self.upload_part(key, &body, index * step..len.min((index + 1) * step), upload, index)
        });
        let mut parts: Vec<CompletedPart> =
            stream::iter(parts).buffer_unordered(PARALLEL).try_collect().await?;
        parts.sort_by_key(CompletedPart::part_number);

        if self.head(key).await?.is_some() {
            return Err(BucketError::AlreadyExists { key: key.to_string() });
        }
        let completed = self
            .client
            .complete_multipart_upload()
            .bucket(&self.config.bucket)
            .key(self.name(key))
            .upload_id(upload)
            .if_none_match("*")
            .multipart_upload(CompletedMultipartUpload::builder().set_parts(Some(parts)).build())
            .customize()
            // The server copies the parts together before it answers.
            .config_override(client::patience(&self.config, len))
            .send()
            .await
            .map_err(|error| asked.failed(error))?;
        let tag =
            completed.e_tag().ok_or_else(|| asked.unavailable("the object got no entity tag".into()))?;
        Ok(entity_tag::version(tag))
    }

    /// A part may be sent again without a thought: the same bytes take the same place, and
    /// nobody sees them before the upload is complete.
    async fn upload_part(
        &self,
        key: &Key,
        body: &Body,
        range: std::ops::Range<u64>,
        upload: &str,
        index: u64,
    ) -> Result<CompletedPart> {
        let mut attempts = self.config.part_patience.start();
        loop {
            match self.send_part(key, body, range.clone(), upload, index).await {
                Err(error) if error.is_retryable() && attempts.again(&error).await => {}
                // The upload is gone, not the object.
                Err(BucketError::NotFound { .. }) => {
                    let asked = self.asked(key, Condition::None);
                    return Err(asked.unavailable("the upload was ended by somebody else".into()));
                }
                answer => return answer,
            }
        }
    }

    async fn send_part(
        &self,
        key: &Key,
        body: &Body,
        range: std::ops::Range<u64>,
        upload: &str,
        index: u64,
    ) -> Result<CompletedPart> {
        let asked = self.asked(key, Condition::None);
        let number = index as i32 + 1;
        let len = range.end - range.start;
        let checksum = self.checksum();
        let sum = checksum.of_part(body, range.clone()).await?;
        let crc = sum.clone().filter(|_| checksum == Checksum::Crc32c);
        let bytes = match body {
            Body::Bytes(bytes) => ByteStream::from(bytes.slice(range.start as usize..range.end as usize)),
            Body::File { path, .. } => ByteStream::read_from()
                .path(path)
                .offset(range.start)
                .length(Length::Exact(len))
                .build()
                .await
                .map_err(|error| super::unreadable(path, error))?,
        };
        let part = self
            .client
            .upload_part()
            .bucket(&self.config.bucket)
            .key(self.name(key))
            .upload_id(upload)
            .part_number(number)
            .set_checksum_crc32_c(crc.clone())
            .set_content_md5(sum.filter(|_| checksum == Checksum::ContentMd5))
            .body(bytes)
            .customize()
            .config_override(client::patience(&self.config, len))
            .disable_payload_signing()
            .send()
            .await
            .map_err(|error| asked.failed(error))?;
        let part = CompletedPart::builder().part_number(number).set_e_tag(part.e_tag);
        Ok(part.set_checksum_crc32_c(crc).build())
    }

    /// Aborts an upload. One that cannot be aborted is left to the bucket's life cycle rules.
    async fn abort(&self, key: &Key, upload: &str) {
        let aborted = self
            .client
            .abort_multipart_upload()
            .bucket(&self.config.bucket)
            .key(self.name(key))
            .upload_id(upload)
            .send()
            .await;
        if let Err(error) = aborted {
            tracing::debug!(%key, error = told(&error), "an upload was left behind");
        }
    }
}
