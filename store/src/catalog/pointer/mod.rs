//! Reads and moves `latest.json`.
//!
//! A flip always reads in this order: the pointer, then the record it will point at, which
//! must be live, then the lock, which must be ours; then it replaces the very version it
//! has read. A deletion does it the other way round (it takes the record out first and
//! touches the pointer after), so one of the two always sees the other.
//!
//! An answer that is lost is not guessed at: every pointer remembers the ids of the last
//! flips, so a writer can tell whether its own was among them.

mod archive;
mod claim;
mod emptied;
mod flip;
mod intended_flip;
mod link_foreign;
mod operator_move;
mod successor;
mod swap;

pub(in crate::catalog) use claim::GrantedLock;
pub use flip::{SeenPointer, VerifiedFlip};
pub use intended_flip::{Fate, IntendedFlip};
pub use operator_move::Move;

use super::lineage_handle::LineageHandle;
use crate::{
    Result,
    bucket::{Bucket, BucketError, Version},
    content::TenantStore,
    format::{
        FormatError, layout, limits,
        pointer::{Claim, Pointer},
    },
    id::FlipId,
    name::Lineage,
};

/// How often a flip is tried before it is left to the operator.
pub const ATTEMPTS: u32 = 3;

/// A pointer as it was read.
#[derive(Clone, Debug)]
pub struct VersionedPointer {
    /// The pointer itself.
    pub pointer: Pointer,
    /// The version that a replacement must name.
    pub version: Version,
    pub(super) bytes: bytes::Bytes,
    /// Not so if something else than a pointer was there: then `pointer` names nothing.
    is_readable: bool,
}

impl VersionedPointer {
    pub(super) fn lease(&self) -> Option<&Claim> {
        self.pointer.block()?.lease.as_ref()
    }
}

/// The lineage's pointer, if it has one.
pub async fn read(store: &TenantStore, lineage: &Lineage) -> Result<Option<VersionedPointer>> {
    read_from(&*store.bucket, lineage).await
}

/// As [`read`], before anything is known of the tenant.
pub async fn read_from(bucket: &dyn Bucket, lineage: &Lineage) -> Result<Option<VersionedPointer>> {
    let key = layout::latest(lineage);
    match bucket.get(&key, limits::POINTER).await {
        Ok(object) => {
            let pointer = Pointer::decode(&object.bytes).map_err(|error| error.of(&key))?;
            Ok(Some(VersionedPointer {
                pointer,
                version: object.version,
                bytes: object.bytes,
                is_readable: true,
            }))
        }
        Err(BucketError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The outcome of a flip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flip {
    /// The pointer names another snapshot now.
    Flipped {
        /// The short name of the snapshot it named before. Empty if it named none.
        from: String,
        /// The write that moved it.
        flip_id: FlipId,
    },
    /// The pointer was there already.
    Unchanged,
}

impl LineageHandle {
    /// The pointer, if there is one.
    pub async fn pointer(&self) -> Result<Option<VersionedPointer>> {
        read(&self.store, &self.lineage).await
    }

    /// The pointer, or the damaged object in its place, for an operator who decides to replace it.
    /// A pointer of a newer pstore is not damaged.
    async fn pointer_or_damage(&self) -> Result<Option<VersionedPointer>> {
        let key = layout::latest(&self.lineage);
        let object = match self.store.bucket.get(&key, limits::POINTER).await {
            Ok(object) => object,
            Err(BucketError::NotFound { .. }) => return Ok(None),
            Err(BucketError::TooLarge { version, .. }) => {
                // Its version stands for its bytes: both tell it from any other.
                let bytes = version.clone().into();
                let (pointer, version) = (successor::empty(&self.lineage), Version::new(version));
                return Ok(Some(VersionedPointer { pointer, version, bytes, is_readable: false }));
            }
            Err(error) => return Err(error.into()),
        };
        let (pointer, is_readable) = match Pointer::decode(&object.bytes) {
            Ok(pointer) => (pointer, true),
            Err(FormatError::Malformed(_)) => (successor::empty(&self.lineage), false),
            Err(error) => return Err(error.of(&key)),
        };
        Ok(Some(VersionedPointer { pointer, version: object.version, bytes: object.bytes, is_readable }))
    }
}
