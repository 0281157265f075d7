//! `contract` plays programs that know only the contract.

use serde_json::{Value, json};
use store::{
    bucket::{BucketError, Key, Version, Write},
    catalog::clock::HostClock,
    format::layout,
};

use super::host::Host;

/// How often one tries to flip.
const CONTRACT_TRIES: u32 = 3;

impl Host {
    /// By its own clock, which is all the contract asks for.
    pub(super) async fn write_by_contract(
        &self,
        prefix: &str,
        locks: bool,
    ) -> Result<&'static str, BucketError> {
        let clock = HostClock::ahead_by_ms(self.ahead_ms);
        if locks && !self.lock_by_contract(clock.unix_ms()).await? {
            return Ok("locked out");
        }
        let key = layout::latest(&self.lineage);
        for _ in 0..CONTRACT_TRIES {
            let (version, before) = match self.read_json(&key).await? {
                Some((version, before)) => (Some(version), before),
                None => (None, Value::Null),
            };
            if before["active_sha256_prefix"] == prefix {
                return Ok("flipped");
            }
            let next = json!({
                "version": 1,
                "active_sha256_prefix": prefix,
                "active_archive_key": layout::archive(&self.lineage, prefix),
                "active_manifest_key": layout::manifest(&self.lineage, prefix),
                // No two programs write the same bytes.
                "flipped_at_ms": clock.unix_ms() + self.process as u64,
                "flipped_from_sha256_prefix": before["active_sha256_prefix"].as_str().unwrap_or_default(),
            });
            let write = version.map_or(Write::Create, Write::Replace);
            if self.store.bucket.put(&key, next.to_string().into_bytes().into(), write).await.is_ok() {
                return Ok("flipped");
            }
        }
        Ok("gave up")
    }

    async fn lock_by_contract(&self, now_ms: u64) -> Result<bool, BucketError> {
        let key = layout::lock(&self.lineage);
        let found = self.read_json(&key).await?;
        if found.as_ref().is_some_and(|(_, lock)| lock["expires_at_ms"].as_u64() > Some(now_ms)) {
            return Ok(false);
        }
        let lock = json!({
            "version": 1,
            "holder_run_id": format!("contract-{}", self.process),
            "holder_host": "elsewhere",
            "holder_host_run_id": "",
            "acquired_at_ms": now_ms,
            "renewed_at_ms": now_ms,
            "expires_at_ms": now_ms + 300_000,
            "renewal_count": 0,
        });
        let write = found.map_or(Write::Create, |(version, _)| Write::Replace(version));
        Ok(self.store.bucket.put(&key, lock.to_string().into_bytes().into(), write).await.is_ok())
    }

    async fn read_json(&self, key: &Key) -> Result<Option<(Version, Value)>, BucketError> {
        match self.store.bucket.get(key, u64::MAX).await {
            Ok(object) => Ok(Some((object.version, serde_json::from_slice(&object.bytes).unwrap()))),
            Err(BucketError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
