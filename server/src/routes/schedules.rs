//! `schedules` shows the periodic jobs of servers, with the last turn of each and its result.

use std::time::Duration;

use axum::http::Method;
use engine::{failure::Failure, location::Purpose};
use schemars::JsonSchema;
use serde::Serialize;
use store::{catalog::schedules, id::JobId};

use crate::{
    call::{Answer, Call, answer},
    route::{Access::Token, Route, Sent::Document},
    schedules::{Plan, plans},
    schemas::sent,
    tokens::Role,
};

pub(super) static ROUTES: &[Route] = &[Route::new(
    "list_schedules",
    Method::GET,
    "/v1/schedules",
    Token(Role::Operate),
    "Tells what servers do again and again, when they did it last, and what came of it; needs a token for all tenants",
    Document(sent::<ScheduleList>),
    |call| Box::pin(list(call)),
)];

/// The periodic jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleList {
    /// The server that answers.
    pub server: String,
    /// Whether it takes turns: not with `--no-jobs`.
    pub takes_turns: bool,
    /// Each schedule.
    pub schedules: Vec<ScheduleFields>,
}

/// A periodic job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleFields {
    /// The work: `reap`, `retention`, `gc` or `verify`.
    pub name: String,
    /// How far turns are apart, as this server's settings say; none if it is switched off.
    pub every_seconds: Option<u64>,
    /// In how long the next turn is due; 0 if it is, none if it is switched off.
    pub due_in_seconds: Option<u64>,
    /// The last turn, of whichever server; none if there was none.
    pub last: Option<LastTurn>,
}

/// A turn.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LastTurn {
    /// How many there were with this one.
    pub fence: u64,
    /// The server whose turn it was.
    pub server: String,
    /// Its job, as `GET /v1/jobs/{job_id}` shows it.
    pub job_id: Option<JobId>,
    /// When it began, by the store's clock.
    pub begun_at_ms: u64,
    /// When it ended, by the clock of the server's host.
    pub ended_at_ms: Option<u64>,
    /// The state of the job when it ended; `stopped` if its server was told to stop, `not begun` if it could not
    /// begin; none if it has not ended, or if its server died.
    pub outcome: Option<String>,
}

async fn list(call: Call) -> Answer {
    call.require_tenant(None)?;
    let mut shown = Vec::new();
    for plan in plans(&call.engine.settings.schedules()) {
        shown.push(fields(&call, plan).await?);
    }
    let server = &call.server;
    answer(&ScheduleList { server: server.name.clone(), takes_turns: server.does_jobs, schedules: shown })
}

async fn fields(call: &Call, plan: Plan) -> Result<ScheduleFields, Failure> {
    let store = call.engine.store(Purpose::Change).await?;
    let found = schedules::get(&store, plan.name).await?;
    let due_in = plan.every.map(|every| match &found {
        Some(found) => found.due_in(every),
        None => Duration::ZERO,
    });
    let last = found.map(|found| found.schedule).filter(|schedule| schedule.fence > 0);
    Ok(ScheduleFields {
        name: plan.name.to_owned(),
        every_seconds: plan.every.map(|every| every.as_secs()),
        due_in_seconds: due_in.map(|due| due.as_secs()),
        last: last.map(|schedule| LastTurn {
            fence: schedule.fence,
            server: schedule.server,
            job_id: schedule.job,
            begun_at_ms: schedule.begun_at_ms,
            ended_at_ms: schedule.ended_at_ms,
            outcome: schedule.outcome,
        }),
    })
}
