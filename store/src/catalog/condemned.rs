//! What collections have condemned: packs that nothing may refer to anew.
//!
//! A writer reads these after its own lease exists. A collection that condemns later sees
//! the lease and waits for it; one that condemned earlier is seen here. Either way no
//! reference is made to a pack that is about to go.

use serde::{Deserialize, Serialize};

use super::records::list_all;
use crate::{
    Result,
    bucket::{BucketError, Depth},
    content::TenantStore,
    format::{FormatError, MAJOR, layout},
    id::{PackId, RecordId},
};

/// How far a collection has got. Packs stay barred in every phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Condemned,
    Armed,
    Sweep,
    Swept,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condemned {
    pub version: u64,
    pub phase: Phase,
    pub packs: Vec<PackId>,
    #[serde(default)]
    pub blockers: Vec<RecordId>,
}

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
        let condemned: Condemned = serde_json::from_slice(&object.bytes)
            .map_err(|error| FormatError::Malformed(error.to_string()).of(&entry.key))?;
        if condemned.version != u64::from(MAJOR) {
            let writer = "a newer pstore".to_owned();
            return Err(FormatError::Version { found: condemned.version, writer }.of(&entry.key));
        }
        packs.extend(condemned.packs);
    }
    Ok(packs)
}
