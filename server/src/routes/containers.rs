//! `containers` stores containers of the server's host, for agents' frameworks that send what happens to a run.
//!
//! A process that controls a Docker daemon controls its host. So a server does this only if it was started for it, and a caller
//! reaches only containers that carry the label of its tenant: the maker of a container says whose it is.

use std::{collections::BTreeMap, time::Duration};

use axum::http::Method;
use engine::{failure::Failure, names::Scope};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{ErrorKind, name::Tenant};
use volumes::container::{
    self, ContainerListOutcome, ContainerSnapshotOutcome, ContainerSnapshotRequest, SnapshotResult, Trigger,
};

use crate::{
    call::{Answer, Call, answer, answer_change},
    concurrency_limit::Permit,
    problem::Refusal,
    route::{Access, Route, Sent::Document},
    schemas::{received, sent},
    server_state::Server,
    tokens::Role,
};

/// How long a snapshot may take, if nothing is said, and at most.
const TIME_LIMIT_SECONDS: u64 = 60;
const MAX_TIME_LIMIT_SECONDS: u64 = 3600;
/// How long it may wait for another snapshot of the container.
const MAX_WAIT_SECONDS: u64 = 60;

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "list_container_snapshots",
        Method::GET,
        "/v1/container-snapshots/{tenant_id}/{profile_id}",
        Access::Tenant(Role::Read),
        "Lists the snapshots of a container",
        Document(sent::<ContainerListOutcome>),
        |call| Box::pin(list(call)),
    ),
    Route::new(
        "snapshot_container",
        Method::POST,
        "/v1/container-snapshots/{tenant_id}/{profile_id}",
        Access::Tenant(Role::Run),
        "Stores a container of the server's host that has the label `pstore.tenant` of the tenant",
        Document(sent::<ContainerSnapshotOutcome>),
        |call| Box::pin(snapshot(call)),
    )
    .told()
    .long()
    .body(received::<ContainerSnapshotBody>),
];

/// Which container is stored, and when.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerSnapshotBody {
    /// Its name or id at the Docker daemon.
    pub container: String,
    /// The moment of the run; `manual` if it is not said. `before_restore` is said by restores alone.
    #[serde(default)]
    pub trigger: Trigger,
    /// What it is about, for people.
    #[serde(default)]
    pub description: String,
    /// The agent's run.
    pub run_id: Option<String>,
    /// Remarks to find it by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How many seconds to wait for another snapshot of the container, from 0 to 60; 0 if it is not said.
    #[serde(default)]
    pub wait: u64,
    /// How many seconds it may take, from 1 to 3600; 60 if it is not said. Then it is given up, and the container goes on.
    pub time_limit: Option<u64>,
    /// Answer 200 with the outcome `failed` if there is no snapshot, so that a run goes on without it.
    #[serde(default)]
    pub fail_open: bool,
}

/// Room to store one more container of a tenant.
pub(super) fn room(server: &Server, tenant: &Tenant) -> Result<Permit, Refusal> {
    if server.stopping.is_raised() {
        return Err(Failure::new(ErrorKind::Unavailable, "the server stops").into());
    }
    server.storing.take_for(tenant)
}

async fn list(call: Call) -> Answer {
    let scope = Scope::Profile(call.profile()?);
    answer(&container::list(&call.engine, &scope).await?)
}

async fn snapshot(call: Call) -> Answer {
    let body: ContainerSnapshotBody = call.document()?;
    let Some(docker_host) = call.server.containers.clone() else {
        let failure = Failure::new(ErrorKind::NotFound, "this server stores no containers");
        let hint =
            "on a host with Docker, its operator starts it with --containers unix:///var/run/docker.sock";
        return Err(failure.hint(hint).into());
    };
    let limit = body.time_limit.unwrap_or(TIME_LIMIT_SECONDS);
    for (name, value, least, most) in
        [("time_limit", limit, 1, MAX_TIME_LIMIT_SECONDS), ("wait", body.wait, 0, MAX_WAIT_SECONDS)]
    {
        if !(least..=most).contains(&value) {
            return Err(Failure::usage(format!("{name} takes a number from {least} to {most}")).into());
        }
    }
    if body.trigger == Trigger::BeforeRestore {
        return Err(Failure::usage("before_restore is the trigger of restores alone").into());
    }
    let name = call.profile()?;
    let room = room(&call.server, &name.tenant)?;
    let mut actor = call.actor();
    actor.run_id = body.run_id.filter(|id| !id.is_empty()).or(actor.run_id);
    let request = ContainerSnapshotRequest {
        only_of: Some(name.tenant.clone()),
        name: Some(name),
        docker_host: Some(docker_host),
        description: body.description,
        trigger: body.trigger,
        labels: body.labels.into_iter().collect(),
        actor,
        wait: Duration::from_secs(body.wait),
        time_limit: Some(Duration::from_secs(limit)),
        ending: Some(call.server.ending.clone()),
        fail_open: body.fail_open,
        ..ContainerSnapshotRequest::new(body.container)
    };
    // One that only waits ends with its caller. One that has begun is brought to its end, though the server is told to stop meanwhile.
    // When the time for that is over, the container goes on.
    let outcome = container::snapshot(&call.engine, &request).await;
    drop(room);
    let outcome = outcome?;
    answer_change(&outcome, outcome.outcome == SnapshotResult::Stored)
}
