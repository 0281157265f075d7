//! `Relocator` follows chunks that are moved to other packs while somebody reads them.
//!
//! A pack that is gone is no damage yet: a repack may have moved its chunks. So a reader that
//! misses one reads the record once more, and goes on at the locations found there. If they are
//! the same, the chunks are lost.

use std::{borrow::Cow, fmt, sync::Arc};

use parking_lot::RwLock;

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    TenantStore,
    chunk::{Locations, Piece},
    reader::{Fetch, Want, plan},
};
use crate::{Error, Result, format::table::Location, id::ChunkId};

/// How often it is asked again for one read, before a missed chunk counts as lost.
pub(crate) const LOOKS: u32 = 3;

/// Knows where the chunks of a snapshot are now.
#[async_trait]
pub trait Relocate: Send + Sync + fmt::Debug {
    /// Of all its chunks. Fails with [`Error::NotFound`] if the snapshot was deleted.
    async fn locations(&self) -> Result<Locations>;
}

/// Where chunks are, if they are no longer where they were when the reading began.
#[derive(Debug, Default)]
pub struct Relocator {
    relocate: Option<Arc<dyn Relocate>>,
    /// Empty until something was missed.
    moved: RwLock<Arc<Locations>>,
    looking: tokio::sync::Mutex<()>,
}

impl Relocator {
    /// Asks `relocate` where chunks are that are no longer where they were.
    pub fn new(relocate: Arc<dyn Relocate>) -> Self {
        Self { relocate: Some(relocate), ..Self::default() }
    }

    /// Whether missed chunks can be looked for.
    pub(crate) fn can_follow(&self) -> bool {
        self.relocate.is_some()
    }

    /// The locations that are known now.
    pub fn known(&self) -> Arc<Locations> {
        Arc::clone(&self.moved.read())
    }

    /// Asks where the chunks are, after something was `missing` that was looked for where
    /// `known` said. Fails with that if nobody can tell.
    pub(crate) async fn look_again(&self, known: &Arc<Locations>, missing: Error) -> Result<()> {
        let Some(relocate) = &self.relocate else { return Err(missing) };
        let _one_at_a_time = self.looking.lock().await;
        if !Arc::ptr_eq(&self.known(), known) {
            // Somebody else has asked meanwhile.
            return Ok(());
        }
        tracing::info!(error = %missing, "looking for chunks that may have been moved");
        let locations = Arc::new(relocate.locations().await?);
        *self.moved.write() = locations;
        Ok(())
    }
}

impl Relocator {
    /// Fetches the chunks of `fetch` from where they are, if they are no longer where they were.
    pub async fn fetch<T: Clone>(
        &self,
        store: &TenantStore,
        fetch: Fetch<T>,
    ) -> Result<Vec<(Fetch<T>, Bytes)>> {
        let mut looks = 0;
        'again: loop {
            let known = self.known();
            let wants = fetch.wants.iter().cloned();
            let wants = wants.map(|want| Want { location: place(&known, &want.id, want.location), ..want });
            let mut fetched = Vec::new();
            for fetch in plan(wants) {
                match store.pack_range(fetch.pack, fetch.start, fetch.end).await {
                    Ok(bytes) => fetched.push((fetch, bytes)),
                    Err(missing @ Error::Missing { .. }) if looks < LOOKS => {
                        self.look_again(&known, missing).await?;
                        looks += 1;
                        continue 'again;
                    }
                    Err(error) => return Err(error),
                }
            }
            return Ok(fetched);
        }
    }
}

/// The known location of a chunk, else the one where it was.
fn place(known: &Locations, id: &ChunkId, was: Location) -> Location {
    known.get(id).copied().unwrap_or(was)
}

/// The pieces, at their known locations.
pub fn placed<'a>(known: &Locations, pieces: &'a [Piece]) -> Cow<'a, [Piece]> {
    if known.is_empty() {
        return Cow::Borrowed(pieces);
    }
    let moved = |piece: &Piece| Piece { location: place(known, &piece.id, piece.location), ..*piece };
    Cow::Owned(pieces.iter().map(moved).collect())
}
