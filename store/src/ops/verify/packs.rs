//! Checks the packs that snapshots need, and their directories.

use futures::{StreamExt, stream};

use super::{Check, REQUESTS_AT_ONCE, findings::is_loss};
use crate::{
    Error, Result,
    bucket::Depth,
    catalog::records::list_all,
    format::{
        layout,
        pack::{self, Directory, PackEntry},
    },
    id::{PackId, PackSeq},
};

impl Check<'_> {
    pub(super) async fn list_packs(&mut self) -> Result<()> {
        let (packs, _) =
            list_all(&*self.store.bucket, &layout::packs(&self.store.tenant), Depth::All).await?;
        self.sizes =
            packs.iter().filter_map(|entry| Some((entry.key.name().parse().ok()?, entry.size))).collect();
        Ok(())
    }

    /// Reads those that were not read yet, or had to go since.
    pub(super) async fn read_directories(
        &mut self,
        packs: impl Iterator<Item = PackId>,
        name: &str,
    ) -> Result<()> {
        let this = &*self;
        let unread: Vec<PackId> = packs.filter(|pack| this.directories.lacks(pack)).collect();
        let read: Vec<_> = stream::iter(unread)
            .map(|id| async move { (id, this.read_directory(id).await) })
            .buffered(REQUESTS_AT_ONCE)
            .collect()
            .await;
        for (id, directory) in read {
            let directory = match directory {
                Ok(directory) => Some(directory.entries),
                Err(error) => {
                    if is_loss(&error) {
                        self.lost.add_pack(id);
                    }
                    self.findings.damaged(error, name, None)?;
                    None
                }
            };
            self.directories.insert(id, directory);
        }
        Ok(())
    }

    async fn read_directory(&self, id: PackId) -> Result<Directory> {
        let key = layout::pack(&self.store.tenant, id);
        let Some(&len) = self.sizes.get(&id) else {
            return Err(Error::Missing { object: key.to_string(), by: "a snapshot needs it" });
        };
        let head = self.store.pack_range(id, 0, len.min(pack::HEADER_LEN as u64)).await?;
        pack::check_header(&head).map_err(|error| error.of(&key))?;
        let (directory, offset) = self.store.pack_directory(id, len).await?;
        if id.seq == PackSeq::Meta {
            let frames = self.store.pack_range(id, 0, offset).await?;
            let whole = |entry: &&PackEntry| {
                let end = entry.offset.saturating_add(entry.stored_len.into());
                let stored = frames.get(entry.offset as usize..end as usize);
                stored.is_some_and(|stored| crc32c::crc32c(stored) == entry.crc)
            };
            if let Some(entry) = directory.entries.iter().find(|entry| !whole(entry)) {
                return Err(Error::damaged(key, changed(entry.offset)));
            }
        }
        Ok(directory)
    }
}

pub(super) fn changed(offset: u64) -> String {
    format!("its frame at {offset} is not as it was written")
}
