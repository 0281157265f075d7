//! `init` makes a store.

use schemars::JsonSchema;
use serde::Serialize;
use store::{catalog::store::Made, format::config::Chunking, id::StoreId};

use crate::{Engine, failure::Failure, outcome::Outcome};

/// Makes a store where there is none.
#[derive(Clone, Debug)]
pub struct InitRequest {
    /// How content is cut and compressed in a new store.
    pub chunking: Chunking,
}

/// Whether the store is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InitChange {
    /// The store was made now.
    Created,
    /// The store was there before.
    Existing,
}

/// The store that is there now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InitOutcome {
    /// Whether the store is new.
    pub outcome: InitChange,
    /// Where the store is.
    pub store: String,
    /// The store's id.
    pub store_id: StoreId,
    /// When the store was made.
    pub created_at_ms: u64,
    /// The program that made it.
    pub writer: String,
}

impl Outcome for InitOutcome {}

impl Engine {
    /// Makes a store, unless there is one.
    #[crate::boxed]
    pub async fn init(&self, request: &InitRequest) -> Result<InitOutcome, Failure> {
        let store = self.store_to_make().await?;
        let (config, made) = store.init(request.chunking.clone()).await?;
        Ok(InitOutcome {
            outcome: match made {
                Made::New => InitChange::Created,
                Made::Existing => InitChange::Existing,
            },
            store: self.location.shown(),
            store_id: config.store_id,
            created_at_ms: config.created_at_ms,
            writer: config.writer,
        })
    }
}
