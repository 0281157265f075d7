//! `tags` adds tags to snapshots, and removes them.

use axum::http::Method;
use engine::{
    failure::Failure,
    verbs::tag::{TagOutcome, TagRequest},
};

use super::snapshots::LineageQuery;
use crate::{
    call::{Answer, Call, answer},
    route::{Access::Tenant, Route, Sent::Document},
    schemas::{received, sent},
    tokens::Role,
};

/// Words in the place of a snapshot's name in the paths of other routes.
const WORDS_OF_ROUTES: [&str; 6] = ["events", "force-unlock", "leases", "loads", "rollback", "uploads"];

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "tag",
        Method::PUT,
        profile!("/{sha_prefix}/tags/{tag}"),
        Tenant(Role::Operate),
        "Gives a snapshot a name, so that it is kept",
        Document(sent::<TagOutcome>),
        |call| Box::pin(tag(call)),
    )
    .told()
    .query(received::<LineageQuery>),
    Route::new(
        "untag",
        Method::DELETE,
        profile!("/{sha_prefix}/tags/{tag}"),
        Tenant(Role::Operate),
        "Takes a name from a snapshot",
        Document(sent::<TagOutcome>),
        |call| Box::pin(untag(call)),
    )
    .told()
    .query(received::<LineageQuery>),
];

async fn tag(call: Call) -> Answer {
    let tag = call.segment("tag")?;
    if WORDS_OF_ROUTES.contains(&tag) {
        let message = format!("no snapshot can be called {tag}: a path of the server has that word");
        return Err(Failure::usage(message).hint("choose another name").into());
    }
    answer(&call.engine.tag(&request(&call)?).await?)
}

async fn untag(call: Call) -> Answer {
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
