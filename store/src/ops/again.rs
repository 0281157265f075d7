//! Chunks of the base that are still there and may not be referred to: stored again.
//!
//! A commit that a collection ran beside may have published references to packs which that
//! collection had just emptied. They are pardoned in time; until then nothing may refer to
//! them anew, so whoever builds on that commit takes their frames into packs of its own.

use std::sync::Arc;

use futures::StreamExt;

use crate::{
    Result,
    content::{
        TenantStore,
        ingest::Ingested,
        packer::Packer,
        reader::{Verified, Want},
        upload::Uploader,
        workers::blocking,
    },
};

/// Copies the frames of `wants`, each checked against its id, into packs of this write.
pub(super) async fn store_again(
    store: &TenantStore,
    uploader: &Arc<Uploader>,
    wants: Vec<Want<()>>,
) -> Result<Ingested> {
    let mut stored = Ingested::default();
    let target = store.chunking().pack_bytes as usize;
    let mut packer = Packer::with_capacity(0);
    let mut fetched = store.fetched(wants);
    while let Some((fetch, bytes)) = fetched.next().await {
        let bytes = bytes?;
        for want in &fetch.wants {
            stored.new_chunks += 1;
            stored.new_bytes += u64::from(want.raw_len);
        }
        let (key, uploader) = (*store.key(), Arc::clone(uploader));
        packer = blocking(move || {
            for want in &fetch.wants {
                let frame = fetch.stored(want, &bytes);
                let codec = want.location.codec;
                Verified::check(&key, &want.id, codec, frame, want.raw_len)?;
                packer.copy(&want.entry(codec, frame), frame);
            }
            if packer.len() < target {
                return Ok(packer);
            }
            uploader.submit(packer, uploader.wait_for_place()?)?;
            Ok(Packer::with_capacity(target + target / 16))
        })
        .await?;
    }
    if !packer.is_empty() {
        let uploader = Arc::clone(uploader);
        blocking(move || uploader.submit(packer, uploader.wait_for_place()?)).await?;
    }
    Ok(stored)
}
