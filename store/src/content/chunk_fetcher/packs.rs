//! Reads packs that are files of this host, in place.

use std::{cell::RefCell, fs::File, io, num::NonZeroU64, os::unix::fs::FileExt, sync::Arc};

use parking_lot::Mutex;

use rustix::fs::Advice;

use crate::{
    Error, Result,
    bucket::BucketError,
    content::{
        TenantStore,
        chunk::{Chunk, Piece},
        reader::{Want, plan},
    },
    error::IoContext,
    format::layout,
    id::{ChunkId, PackId},
};

/// How many packs are held open. One that is collected meanwhile stays readable.
const OPEN: usize = 64;

#[derive(Debug)]
pub(super) struct Packs {
    store: TenantStore,
    /// The one used last is last.
    open: Mutex<Vec<(PackId, Arc<File>)>>,
}

impl Packs {
    /// `None` if the store's objects are not files.
    pub fn of(store: &TenantStore) -> Option<Self> {
        store.bucket.file(&layout::tenant_config(&store.tenant))?.ok()?;
        Some(Self { store: store.clone(), open: Mutex::default() })
    }

    /// Gives each piece's chunk to `each`, with the piece's number.
    pub fn read(
        &self,
        pieces: impl Iterator<Item = (usize, Piece)>,
        mut each: impl FnMut(usize, ChunkId, Chunk),
    ) -> Result<()> {
        thread_local! {
            static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let wants = pieces.map(|(purpose, piece)| {
            let Piece { id, raw_len, location } = piece;
            Want { id, raw_len, location, purpose }
        });
        for fetch in plan(wants) {
            let file = self.file(fetch.pack)?;
            let len = (fetch.end - fetch.start) as usize;
            STORED.with_borrow_mut(|buffer| {
                if buffer.len() < len {
                    buffer.resize(len, 0);
                }
                let stored = &mut buffer[..len];
                let key = || layout::pack(&self.store.tenant, fetch.pack);
                match file.read_exact_at(stored, fetch.start) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Err(Error::damaged(key(), format!("it ends before byte {}", fetch.end)));
                    }
                    read => read.at("cannot read", key().as_str())?,
                }
                for want in &fetch.wants {
                    let frame = fetch.stored(want, stored);
                    let chunk =
                        Chunk::check(self.store.key(), &want.id, want.location.codec, frame, want.raw_len)
                            .map_err(|error| Error::damaged(format!("pack {}", fetch.pack), error))?;
                    each(want.purpose, want.id, chunk);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Asks the kernel to read ahead. Only a hint, so it may fail.
    pub fn will_need(&self, pieces: &[Piece]) {
        let wants = pieces.iter().map(|piece| {
            let Piece { id, raw_len, location } = *piece;
            Want { id, raw_len, location, purpose: () }
        });
        for fetch in plan(wants) {
            let Ok(file) = self.file(fetch.pack) else { continue };
            let len = NonZeroU64::new(fetch.end - fetch.start);
            let _ = rustix::fs::fadvise(&*file, fetch.start, len, Advice::WillNeed);
        }
    }

    fn file(&self, pack: PackId) -> Result<Arc<File>> {
        let mut open = self.open.lock();
        if let Some(at) = open.iter().rposition(|(id, _)| *id == pack) {
            let found = open.remove(at);
            let file = Arc::clone(&found.1);
            open.push(found);
            return Ok(file);
        }
        let key = layout::pack(&self.store.tenant, pack);
        let file = match self.store.bucket.file(&key) {
            Some(Ok(file)) => Arc::new(file),
            Some(Err(BucketError::NotFound { key })) => {
                return Err(Error::Missing { object: key, by: "a snapshot needs it" });
            }
            Some(Err(error)) => return Err(error.into()),
            None => return Err(Error::Internal { what: format!("{key} is not a file any more") }),
        };
        if open.len() == OPEN {
            open.remove(0);
        }
        open.push((pack, Arc::clone(&file)));
        Ok(file)
    }
}
