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

pub fn new_record_id() -> RecordId {
    RecordId::from_parts(unix_ms(), id::random())
}

pub fn new_store_id() -> StoreId {
    StoreId::from_parts(unix_ms(), id::random())
}
