//! `tags` gives snapshots names, and takes them away.

use engine::{failure::Failure, verbs::tag::TagRequest};

use super::snapshots::LineageQuery;
use crate::call::{Answer, Call, answer};

/// What stands where a snapshot's name would stand in the paths of other routes.
const WORDS_OF_ROUTES: [&str; 4] = ["events", "force-unlock", "leases", "rollback"];

pub(super) async fn tag(call: Call) -> Answer {
    let tag = call.segment("tag")?;
    if WORDS_OF_ROUTES.contains(&tag) {
        let message = format!("no snapshot can be called {tag}: a path of the server has that word");
        return Err(Failure::usage(message).hint("choose another name").into());
    }
    answer(&call.engine.tag(&request(&call)?).await?)
}

pub(super) async fn untag(call: Call) -> Answer {
    answer(&call.engine.untag(&request(&call)?).await?)
}

fn request(call: &Call) -> Result<TagRequest, Failure> {
    let query: LineageQuery = call.query()?;
    Ok(TagRequest {
        snapshot: call.snapshot(query.chrome_major_version)?,
        tag: call.segment("tag")?.to_owned(),
        actor: call.actor(),
    })
}
