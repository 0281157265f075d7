//! Gives servers turns at periodic jobs: each turn goes to one server.

use std::time::Duration;

use super::{cas, clock, jobs, store::Store};
use crate::{
    Error, ErrorKind, Result,
    bucket::{BucketError, Version, Write},
    format::{job::JobState, layout, limits, schedule::Schedule},
    id::JobId,
};

const ATTEMPTS: u32 = 8;
/// A turn that was not done is due again after such a part of the time between turns.
const SOONER: u64 = 8;
/// A turn that begins so far in the future was taken when the store's clock was wrong.
const MOST_AHEAD_MS: u64 = 300_000;

/// The result of a turn whose server was told to stop before it was done.
pub const STOPPED: &str = "stopped";
/// The result of a turn whose job could not begin.
pub const NOT_BEGUN: &str = "not begun";

/// A schedule as the store has it.
#[derive(Clone, Debug)]
pub struct StoredSchedule {
    /// The document.
    pub schedule: Schedule,
    version: Version,
    /// When it was read, by the store's clock.
    now_ms: u64,
}

impl StoredSchedule {
    /// How long it is until the next turn, if turns are so far apart. One that was not done is due again sooner,
    /// unless its server is still at it, which [`take`] finds out.
    pub fn due_in(&self, every: Duration) -> Duration {
        let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        let was_done =
            self.schedule.outcome.as_deref().is_some_and(|outcome| ![STOPPED, NOT_BEGUN].contains(&outcome));
        let after = if was_done { every } else { every / SOONER };
        let due_ms = match self.schedule.begun_at_ms {
            0 => 0,
            begun if begun > self.now_ms.saturating_add(MOST_AHEAD_MS) => 0,
            begun => begun.saturating_add(after),
        };
        Duration::from_millis(due_ms.saturating_sub(self.now_ms))
    }
}

/// The right to do the work this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    name: String,
    fence: u64,
}

/// The schedule with this name, if there was ever a turn.
pub async fn get(store: &Store, name: &str) -> Result<Option<StoredSchedule>> {
    let key = layout::schedule(name)?;
    let object = match store.bucket().get(&key, limits::SCHEDULE).await {
        Ok(object) => object,
        Err(BucketError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let schedule = Schedule::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if schedule.name != name {
        return Err(Error::damaged(&key, "it is another schedule"));
    }
    let now_ms = clock::to_unix_ms(object.stamp.now);
    Ok(Some(StoredSchedule { schedule, version: object.version, now_ms }))
}

/// As [`get`]; makes one that had no turn yet.
pub async fn get_or_make(store: &Store, name: &str) -> Result<StoredSchedule> {
    let key = layout::schedule(name)?;
    for _ in 0..ATTEMPTS {
        if let Some(found) = get(store, name).await? {
            return Ok(found);
        }
        match store.bucket().put(&key, Schedule::new(name).encode().into(), Write::Create).await {
            Ok(_) | Err(BucketError::AlreadyExists { .. }) => {}
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Conflict { what: format!("the schedule {name}") })
}

/// Takes the turn that is due, for the job `job` of `server`; `None` if it is not due, if another server is
/// at it still, or if another was first.
pub async fn take(
    store: &Store,
    seen: StoredSchedule,
    every: Duration,
    server: &str,
    job: JobId,
) -> Result<Option<Turn>> {
    if !seen.due_in(every).is_zero() || is_under_way(store, &seen).await? {
        return Ok(None);
    }
    let next = Schedule {
        fence: seen.schedule.fence + 1,
        server: server.to_owned(),
        begun_at_ms: seen.now_ms,
        ended_at_ms: None,
        job: Some(job),
        outcome: None,
        ..seen.schedule
    };
    let key = layout::schedule(&next.name)?;
    // The id of the job is nobody else's, so that no bytes come back.
    let taken = cas::replace(&**store.bucket(), &key, next.encode().into(), seen.version).await?;
    Ok(taken.map(|_| Turn { name: next.name, fence: next.fence }))
}

/// Whether a server lives that is at the last turn.
async fn is_under_way(store: &Store, seen: &StoredSchedule) -> Result<bool> {
    let schedule = &seen.schedule;
    let Some(id) = schedule.job.filter(|_| schedule.ended_at_ms.is_none()) else { return Ok(false) };
    match jobs::get(store, id).await {
        Ok(job) => Ok(job.is_some_and(|found| found.job.state == JobState::Running && !found.is_lost())),
        // One that nobody can read holds up nothing for ever. Its server, if it lives, finds out that another has
        // the turn.
        Err(error) if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied) => {
            tracing::warn!(%error, "the job of the last turn of {} cannot be read", schedule.name);
            let is_recent = schedule.begun_at_ms + jobs::LOST_AFTER.as_millis() as u64 > seen.now_ms;
            Ok(is_recent)
        }
        Err(error) => Err(error),
    }
}

/// Whether nobody has taken the turn after this one.
pub async fn is_ours(store: &Store, turn: &Turn) -> Result<bool> {
    Ok(get(store, &turn.name).await?.is_some_and(|found| found.schedule.fence == turn.fence))
}

/// Writes down the outcome of a turn, unless somebody has taken the next one.
pub async fn end(store: &Store, turn: &Turn, outcome: &str) -> Result<()> {
    let key = layout::schedule(&turn.name)?;
    for _ in 0..ATTEMPTS {
        let Some(found) = get(store, &turn.name).await? else { return Ok(()) };
        if found.schedule.fence != turn.fence || found.schedule.ended_at_ms.is_some() {
            return Ok(());
        }
        let ended = Schedule {
            ended_at_ms: Some(clock::unix_ms()),
            outcome: Some(outcome.to_owned()),
            ..found.schedule
        };
        let bytes = ended.encode().into();
        if cas::replace(&**store.bucket(), &key, bytes, found.version).await?.is_some() {
            return Ok(());
        }
    }
    Err(Error::Conflict { what: format!("the schedule {}", turn.name) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::join_all;

    use super::*;
    use crate::{
        bucket::MemoryBucket,
        format::{event::Actor, job::Job},
    };

    const HOUR: Duration = Duration::from_secs(3600);

    async fn taken(store: &Store, every: Duration, server: &str) -> Option<(Turn, JobId)> {
        let seen = get_or_make(store, "gc").await.unwrap();
        let job = jobs::new_id();
        take(store, seen, every, server, job).await.unwrap().map(|turn| (turn, job))
    }

    #[tokio::test]
    async fn a_turn_goes_to_one_server_however_many_ask() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        let asked = join_all((0..8).map(|_| taken(&store, HOUR, "one of many"))).await;
        assert_eq!(asked.iter().flatten().count(), 1);
        // Not before its time.
        assert_eq!(taken(&store, HOUR, "early").await, None);
        // One that nobody has done is due before its time; one that was done is not.
        let seen = get(&store, "gc").await.unwrap().unwrap();
        let due_after = |outcome: Option<&str>| {
            let outcome = outcome.map(ToOwned::to_owned);
            let schedule = Schedule { outcome, ..seen.schedule.clone() };
            StoredSchedule { schedule, ..seen.clone() }.due_in(HOUR)
        };
        for outcome in ["done", "failed", "cancelled"] {
            let due = due_after(Some(outcome));
            assert!(due > HOUR / 2 && due <= HOUR, "{outcome} {due:?}");
        }
        for outcome in [None, Some(STOPPED), Some(NOT_BEGUN)] {
            let due = due_after(outcome);
            assert!(due > HOUR / 16 && due <= HOUR / 8, "{outcome:?} {due:?}");
        }
    }

    /// The clock was ten years ahead when the last turn was taken.
    #[tokio::test]
    async fn a_clock_that_was_wrong_once_delays_no_turn() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        taken(&store, HOUR, "from the future").await.unwrap();
        let mut seen = get(&store, "gc").await.unwrap().unwrap();
        seen.schedule.begun_at_ms += 10 * 365 * 86_400_000;
        seen.schedule.outcome = Some("done".to_owned());
        assert_eq!(seen.due_in(HOUR), Duration::ZERO);
        seen.schedule.begun_at_ms = seen.now_ms + 1000;
        assert!(seen.due_in(HOUR) > HOUR);
    }

    #[tokio::test]
    async fn a_job_that_nobody_can_read_stops_its_schedule_for_a_minute_alone() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        let (_, job) = taken(&store, Duration::ZERO, "first").await.unwrap();
        let bytes = b"no document".to_vec().into();
        store.bucket().put(&layout::job(job), bytes, Write::Create).await.unwrap();
        assert_eq!(taken(&store, Duration::ZERO, "early").await, None);
        let mut seen = get(&store, "gc").await.unwrap().unwrap();
        seen.now_ms += 61_000;
        assert!(take(&store, seen, Duration::ZERO, "second", jobs::new_id()).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_server_that_is_at_it_keeps_its_turn_and_one_that_ended_does_not() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        let (turn, job) = taken(&store, Duration::ZERO, "first").await.unwrap();
        jobs::begin(&store, &Job::new(job, "gc", Actor::default(), "first", 1)).await.unwrap();
        assert_eq!(taken(&store, Duration::ZERO, "second").await, None);
        assert!(is_ours(&store, &turn).await.unwrap());
        end(&store, &turn, "done").await.unwrap();
        let (next, _) = taken(&store, Duration::ZERO, "second").await.unwrap();
        // The one that had the turn before finds out, and changes nothing any more.
        assert!(!is_ours(&store, &turn).await.unwrap() && is_ours(&store, &next).await.unwrap());
        end(&store, &turn, "failed").await.unwrap();
        let seen = get(&store, "gc").await.unwrap().unwrap().schedule;
        assert_eq!((seen.fence, seen.server.as_str(), seen.outcome), (2, "second", None));
    }

    /// Its document was never written: nobody is at it.
    #[tokio::test]
    async fn a_turn_whose_job_never_began_is_given_to_another() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        taken(&store, Duration::ZERO, "dies").await.unwrap();
        assert!(taken(&store, Duration::ZERO, "lives").await.is_some());
    }
}
