//! `pstore init`

use serde_json::json;
use store::{catalog::store::Made, format::config::Chunking};

use super::Context;
use crate::{answer::Answer, failure::Failure, time};

pub(super) async fn run(context: Context, chunking: Chunking) -> Result<Answer, Failure> {
    let store = context.store_to_make().await?;
    let (config, made) = store.init(chunking).await?;
    let url = context.location.shown();
    let (outcome, text) = match made {
        Made::New => ("created", format!("Made a store at {url}\n")),
        Made::Existing => {
            ("existing", format!("There is a store at {url} since {} UTC\n", time::utc(config.created_at_ms)))
        }
    };
    let document = json!({
        "outcome": outcome,
        "store": url,
        "store_id": config.store_id,
        "created_at_ms": config.created_at_ms,
        "writer": config.writer,
    });
    Ok(Answer::new(document, text))
}
