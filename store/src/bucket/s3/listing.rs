//! Turns an answer to ListObjectsV2 into a `Page`.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;

use super::{S3Bucket, errors::Asked, headers::time};
use crate::bucket::{Entry, Key, Page, Prefix, Result};

impl S3Bucket {
    /// Names that no key can have are not ours and are left out.
    pub(super) fn page(&self, asked: &Asked, output: ListObjectsV2Output) -> Result<Page> {
        let mut page = Page::default();
        for object in output.contents() {
            let Some(key) = object.key().and_then(|name| self.below(name)) else { continue };
            match Key::new(key) {
                Ok(key) => page.entries.push(Entry {
                    key,
                    size: object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
                    modified: time(object.last_modified()),
                }),
                Err(error) => tracing::debug!(%error, "a foreign object in the listing"),
            }
        }
        for folder in output.common_prefixes() {
            let Some(folder) = folder.prefix().and_then(|name| self.below(name)) else { continue };
            match Prefix::new(folder) {
                Ok(folder) => page.folders.push(folder),
                Err(error) => tracing::debug!(%error, "a foreign folder in the listing"),
            }
        }
        if output.is_truncated() == Some(true) {
            // Without it the rest would silently be missing.
            let next = output.next_continuation_token.ok_or_else(|| {
                asked.rejected("it cut a listing short without saying where it continues".into())
            })?;
            page.next = Some(next);
        }
        Ok(page)
    }

    fn below<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(self.config.prefix.as_str())
    }
}
