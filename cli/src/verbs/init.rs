//! `pstore init`

use engine::{failure::Failure, text::time};
use serde_json::json;
use store::{catalog::store::Made, format::config::Chunking};

use super::Engine;
use crate::answer::Answer;

pub(super) async fn run(engine: Engine, chunking: Chunking) -> Result<Answer, Failure> {
    let store = engine.store_to_make().await?;
    let (config, made) = store.init(chunking).await?;
    let url = engine.location.shown();
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
