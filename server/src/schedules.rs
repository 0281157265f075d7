//! `schedules` does the periodic jobs, in turns with all other servers of the store.

use std::{sync::Arc, time::Duration};

use engine::{failure::Failure, location::Purpose, names::ActorName, settings::Schedules};
use store::{
    catalog::{
        jobs::{self, RENEW_AFTER},
        schedules::{self, NOT_BEGUN, STOPPED, Turn},
        store::Store,
    },
    format::job::{Job, JobState},
    id,
};

use crate::{
    jobs::{JobKind, JobRequest, start},
    live_jobs::LiveJob,
    server_state::Server,
};

/// How long to wait when there is no room, when another server is at it, or after a failure.
const AGAIN: Duration = Duration::from_secs(30);
/// Servers that were started together do not ask together for ever.
const MOST_JITTER: Duration = Duration::from_secs(5);

/// A periodic job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    work: JobKind,
    /// How far turns are apart; `None` if it is switched off.
    pub(crate) every: Option<Duration>,
}

/// All there are, as the settings have them.
pub(crate) fn plans(settings: &Schedules) -> [Plan; 4] {
    let verify = JobKind::Verify { reads_content: true, parts: Some(settings.verify_parts), repair: false };
    [
        (JobKind::Reap { grace: jobs::REAP_GRACE }, settings.reap),
        (JobKind::Retention, settings.retention),
        (JobKind::Gc, settings.gc),
        (verify, settings.verify),
    ]
    .map(|(work, every)| Plan { name: work.kind(), work, every })
}

/// Keeps every plan that is switched on, until the server stops.
pub(crate) fn begin(server: &Arc<Server>) {
    for plan in plans(&server.engine.settings.schedules()) {
        if let Some(every) = plan.every {
            tokio::spawn(keep(Arc::clone(server), plan, every));
        }
    }
}

async fn keep(server: Arc<Server>, plan: Plan, every: Duration) {
    loop {
        let pause = take_turn(&server, &plan, every).await.unwrap_or_else(|failure| {
            tracing::warn!("the schedule of {} could not be kept: {}", plan.name, failure.message);
            AGAIN.min(every)
        });
        tokio::select! {
            () = tokio::time::sleep(pause + jitter(every)) => {}
            () = server.stopping.raised() => return,
        }
    }
}

/// Does the work if it is due and no other server does. How long to wait until one should look again.
async fn take_turn(server: &Arc<Server>, plan: &Plan, every: Duration) -> Result<Duration, Failure> {
    let store = server.engine.store(Purpose::Change).await?;
    if store.config().await?.is_none() {
        return Err(server.engine.location.no_store());
    }
    let seen = schedules::get_or_make(&store, plan.name).await?;
    let due_in = seen.due_in(every);
    if !due_in.is_zero() {
        return Ok(due_in);
    }
    let Ok(room) = server.job_room.take() else { return Ok(AGAIN.min(every)) };
    let id = jobs::new_id();
    let Some(turn) = schedules::take(&store, seen, every, &server.name, id).await? else {
        return Ok(AGAIN.min(every));
    };
    let actor = ActorName {
        run_id: Some(format!("schedule {}", plan.name)),
        host: None,
        host_run_id: server.name.clone(),
    };
    let request = JobRequest {
        id,
        work: plan.work.clone(),
        tenant: None,
        dry_run: false,
        actor,
        schedule: Some(plan.name.to_owned()),
        request_id: id.to_string(),
    };
    match start(server, request, room).await {
        Ok(job) => {
            until_ended(&store, &turn, &job).await;
            schedules::end(&store, &turn, outcome(&job.document())).await?;
        }
        Err(failure) => {
            schedules::end(&store, &turn, NOT_BEGUN).await?;
            return Err(failure);
        }
    }
    // When the next is due goes by when this one began.
    Ok(Duration::ZERO)
}

/// The result of a turn. One that nobody has ended on purpose is done anew, and before its time.
fn outcome(job: &Job) -> &'static str {
    match job.state {
        JobState::Cancelled if !job.cancel => STOPPED,
        state => state.as_str(),
    }
}

/// Waits for the end of a job. If another server has taken the next turn, this one was away too long, and ends.
async fn until_ended(store: &Store, turn: &Turn, job: &LiveJob) {
    let mut ended = std::pin::pin!(job.ended.raised());
    loop {
        tokio::select! {
            () = &mut ended => return,
            () = tokio::time::sleep(RENEW_AFTER) => {}
        }
        if let Ok(false) = schedules::is_ours(store, turn).await {
            tracing::warn!("another server has taken the turn of job {}", job.id);
            job.interrupt.raise();
        }
    }
}

fn jitter(every: Duration) -> Duration {
    let share = f64::from(u32::from_le_bytes(id::random())) / f64::from(u32::MAX);
    MOST_JITTER.min(every / 10).mul_f64(share)
}

#[cfg(test)]
mod tests {
    use store::format::event::Actor;

    use super::*;

    #[test]
    fn jitter_is_small_beside_the_time_between_turns() {
        for every in [1, 300, 86_400].map(Duration::from_secs) {
            assert!((0..100).all(|_| jitter(every) <= MOST_JITTER.min(every / 10)));
        }
    }

    #[test]
    fn a_turn_that_nobody_has_ended_on_purpose_was_not_done() {
        let mut job = Job::new(jobs::new_id(), "gc", Actor::default(), "here", 1);
        job.state = JobState::Cancelled;
        assert_eq!(outcome(&job), STOPPED);
        job.cancel = true;
        assert_eq!(outcome(&job), "cancelled");
        job.state = JobState::Done;
        assert_eq!(outcome(&job), "done");
    }

    #[test]
    fn what_is_set_to_never_has_no_turns() {
        let settings = Schedules { reap: Some(Duration::from_secs(5)), ..Schedules::default() };
        let kept: Vec<&str> =
            plans(&settings).iter().filter(|plan| plan.every.is_some()).map(|plan| plan.name).collect();
        assert_eq!(kept, ["reap"]);
    }
}
