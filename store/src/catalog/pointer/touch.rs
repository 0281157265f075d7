//! Changing the pointer's bytes and nothing else.

use super::{Controls, Read, next, swap::Swap};
use crate::Result;

impl Controls {
    /// Replaces `before` by itself in other bytes. `false` if it cannot be said that this
    /// was done: the caller looks again.
    pub(in crate::catalog) async fn touch(&self, before: Option<&Read>) -> Result<bool> {
        self.notice_foreign(before).await;
        Ok(matches!(self.swap(before, &next::touched(&self.lineage, before)).await?, Swap::Applied(_)))
    }
}
