//! This host's clock, for what people read. Nothing that keeps data safe depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{
    id,
    id::{RecordId, StoreId},
};

pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A host's clock; in tests one that is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostClock {
    ahead_ms: i64,
}

impl HostClock {
    #[cfg(any(test, feature = "test-support"))]
    pub fn ahead_by_ms(ahead_ms: i64) -> Self {
        Self { ahead_ms }
    }

    pub fn unix_ms(self) -> u64 {
        unix_ms().saturating_add_signed(self.ahead_ms)
    }
}

pub fn new_record_id() -> RecordId {
    RecordId::from_parts(unix_ms(), id::random())
}

pub fn new_store_id() -> StoreId {
    StoreId::from_parts(unix_ms(), id::random())
}
