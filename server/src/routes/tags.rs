//! `tags` gives snapshots names, and takes them away.

use engine::verbs::tag::TagRequest;

use super::snapshots::LineageQuery;
use crate::call::{Answer, Call, answer};

pub(super) async fn tag(call: Call) -> Answer {
    answer(&call.engine.tag(&request(&call)?).await?)
}

pub(super) async fn untag(call: Call) -> Answer {
    answer(&call.engine.untag(&request(&call)?).await?)
}

fn request(call: &Call) -> Result<TagRequest, engine::failure::Failure> {
    let query: LineageQuery = call.query()?;
    Ok(TagRequest {
        snapshot: call.snapshot(query.chrome_major_version)?,
        tag: call.segment("tag")?.to_owned(),
        actor: call.actor(),
    })
}
