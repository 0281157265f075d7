//! `Seal` makes a published archive, and so its digest and its name, unlike all others.
//!
//! An archive in the bucket is called by its digest, and a removal that was sent may arrive at
//! any time later: another publication of the same bytes would be lost to it. So a published
//! archive ends with a frame that every decoder of zstd passes over, and that no other
//! publication has: the record, and how many archives of it were given up before.

use crate::{format::record::Record, id::RecordId};

/// The first of the sixteen magic numbers of frames that decoders skip.
const MAGIC: u32 = 0x184d_2a50;
const LEN: u32 = 24;

/// Identifies one publication of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The snapshot that is published.
    pub record: RecordId,
    /// How many archives of it were given up before.
    pub publication: u64,
}

impl Seal {
    /// Of the next publication of `record`.
    pub fn of(record: &Record) -> Self {
        Self { record: record.record, publication: record.publications }
    }

    /// The frame.
    pub fn frame(self) -> Vec<u8> {
        let mut frame = MAGIC.to_le_bytes().to_vec();
        frame.extend(LEN.to_le_bytes());
        frame.extend(self.record.to_bytes());
        frame.extend(self.publication.to_le_bytes());
        frame
    }
}
