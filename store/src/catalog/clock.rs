//! Tells the time: this host's clock serves what people read, the store's decides. Nothing
//! that keeps data safe depends on a host's.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{
    content::TenantStore,
    format::{layout, limits},
    id,
    id::{EventId, RecordId, StoreId},
};

/// The time of this host's clock, in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    to_unix_ms(SystemTime::now())
}

/// A time in milliseconds since 1970.
pub fn to_unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time of the store's clock, as the answers so far tell it. If none has, as when the tenant has
/// just been made, the store is asked; `None` if that fails.
pub(crate) async fn of_store(store: &TenantStore) -> Option<u64> {
    if store.clock.now().is_none() {
        let asked = store.bucket.get(&layout::tenant_config(&store.tenant), limits::CONFIG).await;
        asked.ok().inspect(|object| store.clock.learn(object.stamp.now));
    }
    store.clock.now().map(to_unix_ms)
}

/// A host's clock; in tests one that is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostClock {
    ahead_ms: i64,
}

impl HostClock {
    /// A clock that is wrong by so much.
    #[cfg(any(test, feature = "test-support"))]
    pub fn ahead_by_ms(ahead_ms: i64) -> Self {
        Self { ahead_ms }
    }

    /// The time of this clock, in milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        unix_ms().saturating_add_signed(self.ahead_ms)
    }
}

/// An id for a new write; ids that are made later sort later.
pub fn new_record_id() -> RecordId {
    #[cfg(any(test, feature = "test-support"))]
    if let Some(id) = counted::next() {
        return id;
    }
    RecordId::from_parts(unix_ms(), id::random())
}

pub(crate) fn new_event_id(at_ms: u64) -> EventId {
    #[cfg(any(test, feature = "test-support"))]
    if let Some(id) = counted::next() {
        return EventId::from_bytes(id.to_bytes());
    }
    EventId::from_parts(at_ms, id::random())
}

/// Ids that are the same in every run.
#[cfg(any(test, feature = "test-support"))]
pub mod counted {
    use std::cell::Cell;

    use super::{RecordId, unix_ms};

    thread_local! {
        static NEXT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From now on the ids of this thread are counted, from one on.
    pub fn begin() {
        NEXT.set(Some(1));
    }

    /// Ids are made of time and chance again.
    pub fn end() {
        NEXT.set(None);
    }

    pub(super) fn next() -> Option<RecordId> {
        let number = NEXT.get()?;
        NEXT.set(Some(number + 1));
        let mut random = [0; 10];
        random[..8].copy_from_slice(&number.to_be_bytes());
        // In a day that is to come, so that they are newer than any other.
        Some(RecordId::from_parts(unix_ms() / 86_400_000 * 86_400_000 + 2 * 86_400_000, random))
    }
}

pub(crate) fn new_store_id() -> StoreId {
    StoreId::from_parts(unix_ms(), id::random())
}
