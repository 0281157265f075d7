//! `snapshots` has the five routes of the contract: list, show, roll back, delete, and take a lock away.

use std::{fmt::Display, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, header},
};
use engine::{
    failure::Failure,
    interrupt::Interrupt,
    names::{Scope, SnapshotName, Subject},
    verbs::{
        delete::{DeleteOutcome, DeleteRequest, DeletedSnapshot},
        force_unlock::{ForceUnlockOutcome, ForceUnlockRequest, Unlocking},
        list::{ListOutcome, ListRequest, SnapshotList, SnapshotRow},
        rollback::{Rollback, RollbackOutcome, RollbackRequest},
        show::{ShowOutcome, ShowRequest},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{ErrorKind, name::ChromeMajor};

use crate::{
    call::{Answer, Call, IF_MATCH, answer, answer_change},
    observer::RequestObserver,
    problem::Refusal,
    route::{Access::Tenant, Route, Sent::Document},
    schemas::{received, sent},
    server_state::Listed,
    tokens::Role,
};

/// How many snapshots a page has, if nothing is said.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

/// Chooses among the Chrome versions of a profile.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineageQuery {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
}

/// Chooses the listed snapshots.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// Of this major version of Chrome; of all if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// How many snapshots at most, from 1 to 1000; 100 if it is not said.
    pub limit: Option<usize>,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// One page of the snapshots of a profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SnapshotPage {
    /// The pointers, and the snapshots of this page.
    #[serde(flatten)]
    pub list: SnapshotList,
    /// Asks for the page after this one, as `after`; none if this is the last.
    pub next: Option<String>,
}

/// Names the snapshot to be the current one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackBody {
    /// The first digits of its id; or a tag, `latest~1` or a time, as after the `@` on a command line.
    pub sha_prefix: String,
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// Why; it is written into the log.
    #[serde(default)]
    pub reason: String,
    /// Do it; otherwise only tell the plan.
    #[serde(default)]
    pub confirm: bool,
    /// Even while somebody holds the lock, and even over a pointer that is damaged. It needs the role
    /// `admin`.
    #[serde(default)]
    pub force: bool,
}

/// How a snapshot is deleted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteQuery {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// Why; it is written into the log.
    #[serde(default)]
    pub reason: String,
    /// Even if it is tagged.
    #[serde(default)]
    pub tagged: bool,
}

/// Why a lock is taken away.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceUnlockBody {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// Why; it is written into the log.
    pub reason: String,
    /// Do it; otherwise only tell the plan.
    #[serde(default)]
    pub confirm: bool,
}

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "list_snapshots",
        Method::GET,
        profile!(""),
        Tenant(Role::Read),
        "Lists the snapshots of a profile, page by page",
        Document(sent::<SnapshotPage>),
        |call| Box::pin(list(call)),
    )
    .query(received::<ListQuery>),
    Route::new(
        "show_snapshot",
        Method::GET,
        profile!("/{sha_prefix}"),
        Tenant(Role::Read),
        "Shows what is known of one snapshot",
        Document(sent::<ShowOutcome>),
        |call| Box::pin(show(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "rollback",
        Method::POST,
        profile!("/rollback"),
        Tenant(Role::Operate),
        "Makes another snapshot the current one; without `confirm`, says what would change",
        Document(sent::<RollbackOutcome>),
        |call| Box::pin(rollback(call)),
    )
    .told()
    .headers(&[IF_MATCH])
    .body(received::<RollbackBody>),
    Route::new(
        "delete_snapshot",
        Method::DELETE,
        profile!("/{sha_prefix}"),
        Tenant(Role::Admin),
        "Deletes one snapshot that is neither the current one nor the only one",
        Document(sent::<DeletedSnapshot>),
        |call| Box::pin(delete(call)),
    )
    .told()
    .query(received::<DeleteQuery>),
    Route::new(
        "force_unlock",
        Method::POST,
        profile!("/force-unlock"),
        Tenant(Role::Admin),
        "Takes the lock of a profile away; without `confirm`, says from whom",
        Document(sent::<ForceUnlockOutcome>),
        |call| Box::pin(force_unlock(call)),
    )
    .told()
    .body(received::<ForceUnlockBody>),
];

async fn list(call: Call) -> Answer {
    let (looks, place) = (Arc::clone(&call.server.lists), call.uri.to_string());
    let (body, current) = looks.share(place, listed(call)).await?;
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ETAG, current);
    Ok(response)
}

/// One page, as it is answered, and the entity tag of the pointer. It may be for several callers, so it goes on
/// though one of them leaves.
async fn listed(call: Call) -> Result<Listed, Refusal> {
    let query: ListQuery = call.query()?;
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Failure::usage(format!("limit takes a number from 1 to {MAX_PAGE}")).into());
    }
    let request = ListRequest {
        scope: Some(Scope::Profile(call.profile()?)),
        chrome_major: query.chrome_major_version,
        expiry: false,
    };
    let observer = Arc::new(RequestObserver { request_id: call.request_id.clone() });
    let engine = call.server.engine.for_request(observer, Interrupt::new());
    let ListOutcome::Snapshots(list) = engine.list(&request).await? else {
        return Err(Failure::internal("the snapshots of a profile were asked for").into());
    };
    let unwritable = |error: &dyn Display| Failure::internal(format!("the list cannot be sent: {error}"));
    let current = HeaderValue::from_str(&format!("\"{}\"", list.active_sha256_prefix));
    let current = current.map_err(|error| unwritable(&error))?;
    let page = page(list, query.after.as_deref(), limit)?;
    Ok((serde_json::to_vec(&page).map_err(|error| unwritable(&error))?.into(), current))
}

/// The snapshots that follow `after`.
fn page(mut list: SnapshotList, after: Option<&str>, limit: usize) -> Result<SnapshotPage, Failure> {
    let first = match after {
        None => 0,
        Some(after) => match list.snapshots.iter().position(|row| cursor(row) == after) {
            Some(last) => last + 1,
            None => {
                let message = format!("no snapshot is called {after:?} any more, so none comes after it");
                return Err(Failure::new(ErrorKind::Conflict, message)
                    .hint("begin with the first page again: leave `after` out"));
            }
        },
    };
    let mut snapshots = list.snapshots.split_off(first);
    let is_last = snapshots.len() <= limit;
    snapshots.truncate(limit);
    let next = snapshots.last().filter(|_| !is_last).map(cursor);
    list.snapshots = snapshots;
    Ok(SnapshotPage { list, next })
}

/// Names a row, and no other: by its record, or by the digest of its archive.
fn cursor(row: &SnapshotRow) -> String {
    match row.record {
        Some(record) => format!("{}:{record}", row.chrome_major_version),
        None => format!("{}:{}", row.chrome_major_version, row.sha256_prefix),
    }
}

async fn show(call: Call) -> Answer {
    let query: LineageQuery = call.query()?;
    let snapshot = call.snapshot(query.chrome_major_version)?;
    answer(&call.engine.show(&ShowRequest { snapshot }).await?)
}

async fn rollback(call: Call) -> Answer {
    let body: RollbackBody = call.document()?;
    if body.force {
        // It takes the lock away from its holder.
        call.require_role(Role::Admin, "`force`")?;
    }
    let request = RollbackRequest {
        snapshot: call.named(&body.sha_prefix, body.chrome_major_version)?,
        actor: call.actor(),
        reason: body.reason,
        confirm: body.confirm,
        force: body.force,
        only_from: call.if_match()?,
    };
    let outcome = call.engine.rollback(&request).await;
    let outcome = outcome.map_err(|failure| call.unmatched(failure))?;
    answer_change(&outcome, outcome.outcome == Rollback::RolledBack)
}

async fn delete(call: Call) -> Answer {
    let query: DeleteQuery = call.query()?;
    let chosen = call.snapshot_by_id(query.chrome_major_version)?;
    let request = DeleteRequest {
        name: Subject::Snapshot(SnapshotName::current(call.profile()?)),
        chrome_major: chosen.chrome_major,
        sha: chosen.sha,
        all: false,
        ignore_session: Vec::new(),
        tombstone: false,
        actor: call.actor(),
        reason: query.reason,
        tagged: query.tagged,
        damaged: false,
        confirm: false,
    };
    match call.engine.delete(&request).await? {
        DeleteOutcome::Snapshot(deleted) => answer(&deleted),
        DeleteOutcome::All(_) => Err(Failure::internal("one snapshot was to be deleted").into()),
    }
}

async fn force_unlock(call: Call) -> Answer {
    let body: ForceUnlockBody = call.document()?;
    let request = ForceUnlockRequest {
        lineage: call.lineage(body.chrome_major_version)?,
        actor: call.actor(),
        reason: body.reason,
        confirm: body.confirm,
    };
    let outcome = call.engine.force_unlock(&request).await?;
    answer_change(&outcome, outcome.outcome == Unlocking::OperatorForce)
}
