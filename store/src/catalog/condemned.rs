//! What collections have condemned: packs that nothing may refer to anew.
//!
//! A writer reads these after its own lease exists. A collection that condemns later sees
//! the lease and waits for it; one that condemned earlier is seen here. Either way no
//! reference is made to a pack that is about to go.

use super::records::list_all;
use crate::{
    Result,
    bucket::{BucketError, Depth},
    content::TenantStore,
    format::{condemned::Condemned, layout},
    id::PackId,
};

/// All packs that are barred now. One document that cannot be read stops the writer.
pub async fn barred(store: &TenantStore) -> Result<Vec<PackId>> {
    let (entries, _) = list_all(&*store.bucket, &layout::condemned(&store.tenant), Depth::All).await?;
    let mut packs = Vec::new();
    for entry in entries {
        let object = match store.bucket.get(&entry.key).await {
            Ok(object) => object,
            // Its time was over: whatever it named is long gone from every index.
            Err(BucketError::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let condemned = Condemned::decode(&object.bytes).map_err(|error| error.of(&entry.key))?;
        packs.extend(condemned.packs);
    }
    Ok(packs)
}
