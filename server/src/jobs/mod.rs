//! `jobs` does work for whole tenants, or for the store, in the background.
//!
//! A job is a task of its own. A document in the store, which every server shows, has its description, its sign of
//! life and its result. Its log and its progress are in the memory of the server that does it (`live_jobs`).

mod kind;
mod observer;

pub(crate) use self::kind::JobKind;

use std::{panic::AssertUnwindSafe, sync::Arc};

use engine::{
    Engine,
    failure::{Failure, codes},
    interrupt::Interrupt,
    location::Purpose,
    names::ActorName,
};
use futures::FutureExt;
use store::{
    ErrorKind, bucket,
    catalog::{
        clock, events,
        jobs::{self, RENEW_AFTER, StoredJob},
        store::Store,
    },
    format::{
        Unknown,
        event::{Event, EventKind, MAX_REASON_BYTES},
        job::{Job, JobFailure, JobState},
    },
    id::JobId,
    name::Tenant,
};
use tokio::runtime::Handle;

use self::{kind::JobEnd, observer::JobObserver};
use crate::{
    concurrency_limit::Permit,
    live_jobs::{JobLine, LineLevel, LiveJob},
    observer::RequestObserver,
    server_state::Server,
};

/// The work of a job, the tenant it is for, and the caller that asked for it.
#[derive(Clone, Debug)]
pub(crate) struct JobRequest {
    /// Names it from now on.
    pub(crate) id: JobId,
    pub(crate) work: JobKind,
    /// For this tenant alone.
    pub(crate) tenant: Option<Tenant>,
    pub(crate) dry_run: bool,
    pub(crate) actor: ActorName,
    /// The schedule that it is due by.
    pub(crate) schedule: Option<String>,
    /// Names the request in the log.
    pub(crate) request_id: String,
}

/// Begins a job, which takes `room` until its work is done. It goes on by itself.
pub(crate) async fn start(
    server: &Arc<Server>,
    request: JobRequest,
    room: Permit,
) -> Result<Arc<LiveJob>, Failure> {
    let store = server.engine.store(Purpose::Change).await?;
    let by = server.engine.actor(&request.actor);
    let document = Job {
        tenant_id: request.tenant.clone(),
        dry_run: request.dry_run,
        schedule: request.schedule.clone(),
        ..Job::new(request.id, request.work.kind(), by, &server.name, clock::unix_ms())
    };
    // It is in the store before anything is done: a reader finds it, however it ends.
    let begun = jobs::begin(&store, &document).await?;
    let job = Arc::new(LiveJob::new(&begun.job));
    server.jobs.add(&job);
    let (server, live, runtime) = (Arc::clone(server), Arc::clone(&job), Handle::current());
    tokio::spawn(async move {
        let working = Arc::clone(&server);
        // A thread of its own: work that computes for a while holds up no request.
        let thread = tokio::task::spawn_blocking(move || {
            let name = request.request_id.clone();
            let carried_out = carry_out(&working, &store, &live, request, room);
            runtime.block_on(bucket::request_id::for_request(name, carried_out));
        });
        let ended = async move { thread.await.map_err(|error| Failure::internal(error.to_string()).into()) };
        if let Err(refusal) = server.work.finish(ended).await {
            tracing::error!("a job ended with a panic: {}", refusal.failure.message);
        }
    });
    Ok(job)
}

/// Raised when it is dropped: waiters for the end of a job learn of it, however it ended.
struct RaisedAtEnd<'a>(&'a Interrupt);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

async fn carry_out(server: &Server, store: &Store, job: &Arc<LiveJob>, request: JobRequest, room: Permit) {
    let ended_for_all = RaisedAtEnd(&job.ended);
    let log = RequestObserver { request_id: request.request_id };
    let observer = Arc::new(JobObserver { job: Arc::clone(job), log });
    let engine = server.engine.for_request(observer, job.interrupt.clone());
    let work = until_told(&engine, &request.work, request.tenant, request.actor, request.dry_run);
    let ended = tokio::select! {
        ended = caught(work) => ended,
        never = renewed(store, job) => match never {},
        () = server.stopping.raised() => {
            job.interrupt.raise();
            interrupted("the server was told to stop")
        }
    };
    // Whoever sees that it has ended can begin another.
    drop(room);
    write_end(store, job, &ended).await;
    tell_end(server, store, job).await;
    drop(ended_for_all);
    if let Err(error) = jobs::sweep(store).await {
        tracing::warn!("old jobs could not be removed: {error}");
    }
}

/// Does the work; a panic in it is a failure.
async fn caught(work: impl Future<Output = JobEnd>) -> JobEnd {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    ended.unwrap_or_else(|_| {
        let failure = Failure::internal("the job ended with a panic");
        JobEnd { outcome: None, failure: Some(failure) }
    })
}

/// Does the work; ends it when somebody wants that. What can no longer be prevented is finished.
async fn until_told(
    engine: &Engine,
    work: &JobKind,
    tenant: Option<Tenant>,
    actor: ActorName,
    dry_run: bool,
) -> JobEnd {
    let mut work = std::pin::pin!(work.done_by(engine, tenant, actor, dry_run));
    tokio::select! {
        ended = &mut work => return ended,
        () = engine.interrupt.raised() => {}
    }
    match engine.interrupt.point_of_no_return().prevent() {
        true => interrupted("somebody has ended it"),
        false => work.await,
    }
}

fn interrupted(message: &str) -> JobEnd {
    let hint = "what was done is done; the next run goes on";
    JobEnd { outcome: None, failure: Some(Failure::new(ErrorKind::Interrupted, message).hint(hint)) }
}

/// Writes every few seconds that the job goes on, and ends it if its document says so.
async fn renewed(store: &Store, job: &LiveJob) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(RENEW_AFTER).await;
        match jobs::change(store, job.id, |_| true).await {
            Ok(Some(StoredJob { job: document, .. })) => {
                if document.cancel {
                    job.interrupt.raise();
                }
                *job.document.lock() = document;
            }
            Ok(None) => tracing::warn!("the document of job {} is gone", job.id),
            Err(error) => tracing::warn!("the document of job {} could not be renewed: {error}", job.id),
        }
    }
}

async fn write_end(store: &Store, job: &LiveJob, ended: &JobEnd) {
    let state = match &ended.failure {
        None => JobState::Done,
        Some(failure) if failure.kind == ErrorKind::Interrupted => JobState::Cancelled,
        Some(_) => JobState::Failed,
    };
    let failure = ended.failure.as_ref().map(|failure| JobFailure {
        kind: codes::name(failure.kind).to_owned(),
        message: failure.message.clone(),
        hint: failure.hint.clone(),
        unknown: Unknown::new(),
    });
    let at_ms = clock::unix_ms();
    let end = |document: &mut Job| {
        document.state = state;
        document.ended_at_ms = Some(at_ms);
        document.failure = failure.clone();
        document.outcome = ended.outcome.clone();
        true
    };
    let text = match &ended.failure {
        None => format!("job {} is done", job.id),
        Some(failure) => format!("job {} ended: {}", job.id, failure.message),
    };
    match ended.failure {
        None => tracing::info!("{text}"),
        Some(_) => tracing::warn!("{text}"),
    }
    let level = if ended.failure.is_none() { LineLevel::Remark } else { LineLevel::Warning };
    job.say(JobLine { at_ms, level, text });
    let written = jobs::change(store, job.id, end).await;
    // Not before the store has it, so that all servers say the same; but even if the store is away.
    let mut document = job.document.lock();
    match written {
        Ok(Some(stored)) => {
            *document = stored.job;
            return;
        }
        Ok(None) => tracing::warn!("what came of job {} is not stored: its document is gone", job.id),
        Err(error) => tracing::warn!("what came of job {} could not be written: {error}", job.id),
    }
    end(&mut document);
}

/// Tells everybody who follows the events of the tenant, or of the store. What is done for a tenant that was
/// deleted is told among those of the store: nothing new is to lie below the tenant.
async fn tell_end(server: &Server, store: &Store, job: &LiveJob) {
    let document = job.document();
    if is_idle(&document) {
        return;
    }
    let tenant = match &document.tenant_id {
        Some(tenant) => server.engine.tenant(tenant).await.ok().and(Some(tenant)),
        None => None,
    };
    let reason = match &document.failure {
        Some(failure) => format!("{} {}: {}", document.kind, document.state.as_str(), failure.message),
        None => format!("{} {}", document.kind, document.state.as_str()),
    };
    let end = reason.floor_char_boundary(MAX_REASON_BYTES);
    let event = Event {
        reason: reason[..end].to_owned(),
        job: Some(job.id),
        ..events::now(EventKind::Job, document.by)
    };
    if let Err(error) = events::tell(store, tenant, &event).await {
        tracing::warn!("the event of job {} is not stored: {error}", job.id);
    }
}

/// Whether it was due every few minutes, and had nothing to do.
fn is_idle(job: &Job) -> bool {
    let evicted = job.outcome.as_ref().and_then(|outcome| outcome.get("evicted")?.as_array());
    job.schedule.is_some() && job.state == JobState::Done && evicted.is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::format::event::Actor;

    use super::*;

    #[test]
    fn a_sweep_that_found_nothing_is_no_event_unless_somebody_asked_for_it() {
        let mut job = Job::new(jobs::new_id(), "reap", Actor::default(), "here", 1);
        (job.state, job.schedule) = (JobState::Done, Some("reap".to_owned()));
        job.outcome = Some(json!({ "evicted": [] }));
        assert!(is_idle(&job));
        assert!(!is_idle(&Job { schedule: None, ..job.clone() }));
        assert!(!is_idle(&Job { state: JobState::Failed, ..job.clone() }));
        assert!(!is_idle(&Job { outcome: Some(json!({ "evicted": [1] })), ..job.clone() }));
        assert!(!is_idle(&Job { outcome: Some(json!({ "tenants": [] })), ..job }));
    }

    #[tokio::test]
    async fn a_panic_ends_a_job_and_whoever_waits_for_it_is_told() {
        let ended = caught(async { panic!("on purpose") }).await;
        assert_eq!(ended.failure.unwrap().kind, ErrorKind::Internal);
        let interrupt = Interrupt::new();
        let panics = AssertUnwindSafe(async {
            let _ended = RaisedAtEnd(&interrupt);
            panic!("on purpose");
        });
        assert!(panics.catch_unwind().await.is_err() && interrupt.is_raised());
    }
}
