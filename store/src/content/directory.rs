//! Reads the directory of a pack.

use super::TenantStore;
use crate::{
    Error, Result,
    format::{
        layout,
        pack::{self, Directory},
    },
    id::PackId,
};

/// Enough for the directory of most packs in one request.
const TAIL_BYTES: u64 = 64 * 1024;

impl TenantStore {
    /// The directory of a pack of `len` bytes, checked, and where it starts.
    pub async fn pack_directory(&self, id: PackId, len: u64) -> Result<(Directory, u64)> {
        let key = layout::pack(&self.tenant, id);
        let start = len.saturating_sub(TAIL_BYTES);
        let tail = self.pack_range(id, start, len).await?;
        let trailer = &tail[tail.len().saturating_sub(pack::TRAILER_LEN)..];
        let offset = pack::directory_offset(trailer, len).map_err(|error| error.of(&key))?;
        let directory = if offset < start {
            let tail = self.pack_range(id, offset, len).await?;
            pack::decode_directory(&tail, len)
        } else {
            pack::decode_directory(&tail[(offset - start) as usize..], len)
        };
        let directory = directory.map_err(|error| error.of(&key))?;
        if directory.pack != id || directory.key != *self.key() {
            return Err(Error::damaged(key, format!("it is pack {}", directory.pack)));
        }
        Ok((directory, offset))
    }
}
