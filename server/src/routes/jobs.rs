//! `jobs` begins, shows and ends the work that keeps a store in order: `reap`, `retention`, `gc` and `verify`.

use std::time::Duration;

use axum::http::Method;
use engine::{failure::Failure, location::Purpose, outcome::ActorFields};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{
    ErrorKind,
    catalog::jobs::{self, StoredJob},
    format::job::{Job, JobState},
    id::JobId,
    name::Tenant,
};

use crate::{
    call::{Answer, Call, answer},
    jobs::{JobKind, JobRequest, start},
    live_jobs::{JobLine, JobProgress, LiveJob},
    route::{Access::Token, Route, Sent::Document},
    schemas::{received, sent},
    tokens::Role,
};

/// How many jobs are listed, if nothing is said.
const LISTED: usize = 20;

pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "list_jobs",
        Method::GET,
        "/v1/jobs",
        Token(Role::Operate),
        "Lists the jobs of all servers, the newest first",
        Document(sent::<JobList>),
        |call| Box::pin(list(call)),
    )
    .query(received::<JobsQuery>),
    Route::new(
        "show_job",
        Method::GET,
        "/v1/jobs/{job_id}",
        Token(Role::Operate),
        "Shows a job: how far it is, what it has said, what came of it",
        Document(sent::<JobOutcome>),
        |call| Box::pin(show(call)),
    ),
    Route::new(
        "cancel_job",
        Method::DELETE,
        "/v1/jobs/{job_id}",
        Token(Role::Operate),
        "Ends a job, whichever server does it",
        Document(sent::<JobOutcome>),
        |call| Box::pin(cancel(call)),
    ),
    Route::new(
        "start_reap",
        Method::POST,
        "/v1/jobs/reap",
        Token(Role::Operate),
        "Takes away locks that expired some time ago",
        Document(sent::<JobOutcome>),
        |call| Box::pin(reap(call)),
    )
    .body(received::<ReapBody>),
    Route::new(
        "start_retention",
        Method::POST,
        "/v1/jobs/retention",
        Token(Role::Operate),
        "Removes the snapshots that the rules of the settings do not keep; only a dry run goes without the role `admin`",
        Document(sent::<JobOutcome>),
        |call| Box::pin(retention(call)),
    )
    .body(received::<JobBody>),
    Route::new(
        "start_gc",
        Method::POST,
        "/v1/jobs/gc",
        Token(Role::Operate),
        "Deletes content that nothing needs; only a dry run goes without the role `admin`",
        Document(sent::<JobOutcome>),
        |call| Box::pin(gc(call)),
    )
    .body(received::<JobBody>),
    Route::new(
        "start_verify",
        Method::POST,
        "/v1/jobs/verify",
        Token(Role::Operate),
        "Checks that stored snapshots are whole",
        Document(sent::<JobOutcome>),
        |call| Box::pin(verify(call)),
    )
    .body(received::<VerifyBody>),
];

/// Chooses among jobs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsQuery {
    /// How many at most, from 1 to 200; 20 if it is not said.
    pub limit: Option<usize>,
}

/// The tenant of a job, and whether it only plans.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBody {
    /// For this tenant alone; for all if it is not said, which needs a token for all.
    pub tenant_id: Option<Tenant>,
    /// Only tell the plan, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// How locks are taken away.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReapBody {
    /// For this tenant alone; for all if it is not said, which needs a token for all.
    pub tenant_id: Option<Tenant>,
    /// Only tell the plan, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// How long a lock must have been expired; 60 if it is not said.
    pub grace_seconds: Option<u64>,
}

/// How snapshots are checked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyBody {
    /// For this tenant alone; for all if it is not said, which needs a token for all.
    pub tenant_id: Option<Tenant>,
    /// Repair nothing, even with `repair`.
    #[serde(default)]
    pub dry_run: bool,
    /// Look for content in its place, and read none of it.
    #[serde(default)]
    pub structure: bool,
    /// Read one of so many parts of the content, another one each day; all of it if it is not said.
    pub read_data: Option<u64>,
    /// Repair damage from other copies, and mark the snapshots that stay damaged. It needs the role `admin`.
    #[serde(default)]
    pub repair: bool,
}

/// How far a job has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShownState {
    /// A server works on it.
    Running,
    /// All is done, and well.
    Done,
    /// It failed, or its findings are bad.
    Failed,
    /// Somebody has ended it, or its server was told to stop.
    Cancelled,
    /// Its server died before it came to an end.
    Lost,
}

/// The part of a job that every server knows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JobSummary {
    /// Names the job.
    pub job_id: JobId,
    /// The work: `reap`, `retention`, `gc` or `verify`.
    pub kind: String,
    /// For this tenant alone; for all without it.
    pub tenant_id: Option<Tenant>,
    /// Whether nothing is to be changed.
    pub dry_run: bool,
    /// The schedule that it was due by, if nobody has asked for it.
    pub schedule: Option<String>,
    /// The caller or server that asked for it.
    pub by: ActorFields,
    /// The server that does it.
    pub server: String,
    /// How far it has got.
    pub state: ShownState,
    /// Whether somebody has asked for its end.
    pub cancel: bool,
    /// When it began, by the clock of its server's host.
    pub begun_at_ms: u64,
    /// When it ended, by the same clock.
    pub ended_at_ms: Option<u64>,
    /// The failure of a job that failed.
    pub failure: Option<FailureFields>,
}

/// The failure of a job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FailureFields {
    /// The kind of failure, in the words of the exit codes.
    pub kind: String,
    /// The failure, in a sentence.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
}

/// Jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JobList {
    /// The newest first.
    pub jobs: Vec<JobSummary>,
    /// How many could not be read.
    pub unreadable: u64,
}

/// A job with all that is known of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JobOutcome {
    /// The part that every server knows.
    #[serde(flatten)]
    pub job: JobSummary,
    /// How far it is. Only the server that does it knows that, and the log.
    pub progress: Option<JobProgress>,
    /// Its messages, the oldest first; the last 500 lines.
    pub log: Vec<JobLine>,
    /// The outcome, as `pstore reap`, `retention`, `gc` or `verify` prints it with `--json`. It is left out if it
    /// is longer than 2 MiB.
    pub outcome: Option<Value>,
}

impl JobSummary {
    fn of(job: &Job, is_lost: bool) -> Self {
        let state = match job.state {
            JobState::Running if is_lost => ShownState::Lost,
            JobState::Running => ShownState::Running,
            JobState::Done => ShownState::Done,
            JobState::Failed => ShownState::Failed,
            JobState::Cancelled => ShownState::Cancelled,
        };
        let failure = job.failure.as_ref().map(|failure| FailureFields {
            kind: failure.kind.clone(),
            message: failure.message.clone(),
            hint: failure.hint.clone(),
        });
        Self {
            job_id: job.id,
            kind: job.kind.clone(),
            tenant_id: job.tenant_id.clone(),
            dry_run: job.dry_run,
            schedule: job.schedule.clone(),
            by: (&job.by).into(),
            server: job.server.clone(),
            state,
            cancel: job.cancel,
            begun_at_ms: job.begun_at_ms,
            ended_at_ms: job.ended_at_ms,
            failure,
        }
    }
}

impl From<&LiveJob> for JobOutcome {
    fn from(live: &LiveJob) -> Self {
        let job = live.document();
        Self {
            job: JobSummary::of(&job, false),
            progress: live.progress(),
            log: live.lines(),
            outcome: job.outcome,
        }
    }
}

impl From<StoredJob> for JobOutcome {
    fn from(stored: StoredJob) -> Self {
        let job = JobSummary::of(&stored.job, stored.is_lost());
        Self { job, progress: None, log: Vec::new(), outcome: stored.job.outcome }
    }
}

async fn list(call: Call) -> Answer {
    let query: JobsQuery = call.query()?;
    let limit = query.limit.unwrap_or(LISTED);
    if !(1..=jobs::KEPT).contains(&limit) {
        return Err(Failure::usage(format!("limit takes a number from 1 to {}", jobs::KEPT)).into());
    }
    // Whoever may change a store is told the time by it, which says whether a job is lost.
    let store = call.engine.store(Purpose::Change).await?;
    let (mut shown, mut unreadable) = (Vec::new(), 0);
    let wanted = |job: &Job| is_for(&call, job.tenant_id.as_ref());
    for found in jobs::list(&store, limit, wanted).await.map_err(Failure::from)? {
        match found {
            Ok(found) => shown.push(JobSummary::of(&found.job, found.is_lost())),
            Err(error) => {
                call.engine.warn(&error.to_string());
                unreadable += 1;
            }
        }
    }
    answer(&JobList { jobs: shown, unreadable })
}

async fn show(call: Call) -> Answer {
    let (id, found) = found(&call).await?;
    match call.server.jobs.find(id) {
        Some(live) => answer(&JobOutcome::from(&*live)),
        None => answer(&JobOutcome::from(found)),
    }
}

async fn cancel(call: Call) -> Answer {
    let (id, found) = found(&call).await?;
    if found.job.state != JobState::Running || found.is_lost() {
        let message = format!("job {id} has ended, so that nobody can end it");
        return Err(Failure::new(ErrorKind::Conflict, message).into());
    }
    let store = call.engine.store(Purpose::Change).await?;
    let ask = |job: &mut Job| job.state == JobState::Running && !std::mem::replace(&mut job.cancel, true);
    let changed = jobs::change(&store, id, ask).await.map_err(Failure::from)?;
    // Another server sees it within seconds, in the document.
    if let Some(live) = call.server.jobs.find(id) {
        live.interrupt.raise();
    }
    match changed {
        Some(changed) => answer(&JobOutcome::from(changed)),
        None => Err(no_job(id).into()),
    }
}

/// The job that the path names, if the caller may see it.
async fn found(call: &Call) -> Result<(JobId, StoredJob), Failure> {
    let typed = call.segment("job_id")?;
    let id: JobId = typed.parse().map_err(|error: store::id::InvalidId| Failure::usage(error.to_string()))?;
    let store = call.engine.store(Purpose::Change).await?;
    let found = jobs::get(&store, id).await?;
    let found = found.filter(|found| is_for(call, found.job.tenant_id.as_ref()));
    found.map(|found| (id, found)).ok_or_else(|| no_job(id))
}

fn no_job(id: JobId) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("there is no job {id}"))
        .hint("`GET /v1/jobs` lists those there are")
}

/// Whether the caller may see jobs of this tenant, or of all.
fn is_for(call: &Call, tenant: Option<&Tenant>) -> bool {
    call.require_tenant(tenant).is_ok()
}

async fn reap(call: Call) -> Answer {
    let body: ReapBody = call.document()?;
    let grace = body.grace_seconds.map_or(jobs::REAP_GRACE, Duration::from_secs);
    begin(call, JobKind::Reap { grace }, body.tenant_id, body.dry_run).await
}

async fn retention(call: Call) -> Answer {
    let body: JobBody = call.document()?;
    if !body.dry_run {
        call.require_role(Role::Admin, "removing snapshots")?;
    }
    begin(call, JobKind::Retention, body.tenant_id, body.dry_run).await
}

async fn gc(call: Call) -> Answer {
    let body: JobBody = call.document()?;
    if !body.dry_run {
        call.require_role(Role::Admin, "deleting content")?;
    }
    begin(call, JobKind::Gc, body.tenant_id, body.dry_run).await
}

async fn verify(call: Call) -> Answer {
    let body: VerifyBody = call.document()?;
    if body.repair && !body.dry_run {
        call.require_role(Role::Admin, "`repair`")?;
    }
    if body.read_data == Some(0) || body.structure && body.read_data.is_some() {
        let message = "read_data takes a number of parts from 1 on, and goes without structure";
        return Err(Failure::usage(message).into());
    }
    let work = JobKind::Verify { reads_content: !body.structure, parts: body.read_data, repair: body.repair };
    begin(call, work, body.tenant_id, body.dry_run).await
}

async fn begin(call: Call, work: JobKind, tenant: Option<Tenant>, dry_run: bool) -> Answer {
    call.require_tenant(tenant.as_ref())?;
    if !call.server.does_jobs {
        let failure = Failure::new(ErrorKind::Unavailable, "this server does no jobs");
        return Err(failure.hint("ask another server of the store").into());
    }
    let room = match &tenant {
        Some(tenant) => {
            // One that is not there is said at once, and is no job.
            call.engine.tenant_or_tombstone(tenant, Purpose::Read).await?;
            call.server.job_room.take_for(tenant)?
        }
        None => call.server.job_room.take()?,
    };
    let request = JobRequest {
        id: jobs::new_id(),
        work,
        tenant,
        dry_run,
        actor: call.actor(),
        schedule: None,
        request_id: call.request_id.clone(),
    };
    answer(&JobOutcome::from(&*start(&call.server, request, room).await?))
}
