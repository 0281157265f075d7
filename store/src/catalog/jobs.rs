//! Keeps the jobs of the store as a whole: one document for each, which any server reads.

use std::{collections::HashMap, time::Duration};

use futures::{Stream, StreamExt, stream};

use super::{cas, clock, records::list_all, store::Store};
use crate::{
    Error, Result,
    bucket::{BucketError, Depth, Version, put_unique},
    format::{
        job::{Job, JobState},
        layout, limits,
    },
    id::{self, JobId},
};

const REQUESTS_AT_ONCE: usize = 16;
const ATTEMPTS: u32 = 8;
/// How often a server writes that a job of its own goes on.
pub const RENEW_AFTER: Duration = Duration::from_secs(10);
/// A job whose document is older than this has lost its server.
pub const LOST_AFTER: Duration = Duration::from_secs(60);
/// How long a lock must have been expired before it is taken away, as the contract has it.
pub const REAP_GRACE: Duration = Duration::from_secs(60);
/// So many jobs are kept.
pub const KEPT: usize = 200;
/// So many more may be there before it is looked for old ones, since all must be read for that.
const SPARE: usize = 50;

/// A job as the store has it.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// The document.
    pub job: Job,
    /// The version that a replacement must name.
    pub version: Version,
    /// How long ago it was written, by the store's clock.
    pub age: Duration,
}

impl StoredJob {
    /// Whether its server has died before it came to an end.
    pub fn is_lost(&self) -> bool {
        self.job.state == JobState::Running && self.age > LOST_AFTER
    }
}

/// An id for a new job; ids that are made later sort later.
pub fn new_id() -> JobId {
    JobId::from_parts(clock::unix_ms(), id::random())
}

/// Writes down that a job begins.
pub async fn begin(store: &Store, job: &Job) -> Result<StoredJob> {
    let key = layout::job(job.id);
    let bytes = job.encode_readable().map_err(|error| error.of(&key))?;
    put_unique(&**store.bucket(), &key, bytes.into()).await?;
    get(store, job.id).await?.ok_or_else(|| Error::NotFound { what: format!("job {}", job.id) })
}

/// Changes a job, beside other writes at the same time, unless `change` says that there is nothing to change.
/// Returns the job as it is then; `None` if there is none.
pub async fn change(
    store: &Store,
    id: JobId,
    change: impl Fn(&mut Job) -> bool,
) -> Result<Option<StoredJob>> {
    let key = layout::job(id);
    for _ in 0..ATTEMPTS {
        let Some(mut found) = get(store, id).await? else { return Ok(None) };
        if !change(&mut found.job) {
            return Ok(Some(found));
        }
        found.job.revision += 1;
        let written = found.job.encode_readable().map_err(|error| error.of(&key))?;
        let bytes = written.clone().into();
        if let Some(version) = cas::replace(&**store.bucket(), &key, bytes, found.version).await? {
            // An outcome that is too long was left out.
            let job = Job::decode(&written).map_err(|error| error.of(&key))?;
            return Ok(Some(StoredJob { job, version, age: Duration::ZERO }));
        }
    }
    Err(Error::Conflict { what: format!("job {id}") })
}

/// One job.
pub async fn get(store: &Store, id: JobId) -> Result<Option<StoredJob>> {
    let key = layout::job(id);
    let object = match store.bucket().get(&key, limits::JOB).await {
        Ok(object) => object,
        Err(BucketError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let job = Job::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if job.id != id {
        return Err(Error::damaged(&key, "it is another job"));
    }
    Ok(Some(StoredJob { job, version: object.version, age: object.stamp.age() }))
}

/// Up to `most` jobs that are `wanted`, the newest first, without their outcomes, which may be long. One that cannot
/// be read comes as an error and takes no other with it.
pub async fn list(
    store: &Store,
    most: usize,
    wanted: impl Fn(&Job) -> bool,
) -> Result<Vec<Result<StoredJob>>> {
    let mut found = std::pin::pin!(read_all(store, ids(store).await?));
    let (mut listed, mut count) = (Vec::new(), 0);
    while let Some(next) = found.next().await {
        match next {
            Ok(job) if !wanted(&job.job) => continue,
            Ok(_) => count += 1,
            Err(_) => {}
        }
        listed.push(next);
        if count == most {
            break;
        }
    }
    Ok(listed)
}

/// Removes old jobs once there are too many. Callers who have asked for most of one kind lose their oldest,
/// so that frequent jobs take no room from nightly ones, and no tenant from another. A job that goes on
/// stays.
pub async fn sweep(store: &Store) -> Result<()> {
    let ids = ids(store).await?;
    let mut count = ids.len();
    if count <= KEPT + SPARE {
        return Ok(());
    }
    let mut groups: HashMap<_, Vec<(Duration, JobId)>> = HashMap::new();
    let mut found = std::pin::pin!(read_all(store, ids));
    while let Some(next) = found.next().await {
        // One that cannot be read is left to people.
        let Ok(StoredJob { job, age, .. }) = &next else { continue };
        if job.state != JobState::Running || *age > LOST_AFTER {
            let group = (job.tenant_id.clone(), job.kind.clone(), job.schedule.clone());
            groups.entry(group).or_default().push((*age, job.id));
        }
    }
    // By the store's clock, the oldest last: the ids go by the clocks of hosts.
    groups.values_mut().for_each(|group| group.sort_unstable());
    while count > KEPT {
        let largest = groups.values_mut().max_by_key(|group| group.len());
        let Some((_, id)) = largest.and_then(Vec::pop) else { break };
        store.bucket().delete(&layout::job(id)).await?;
        count -= 1;
    }
    Ok(())
}

/// These jobs, without their outcomes. One that is gone was old, and swept meanwhile.
fn read_all(store: &Store, ids: Vec<JobId>) -> impl Stream<Item = Result<StoredJob>> {
    let read = stream::iter(ids).map(move |id| async move {
        let mut found = get(store, id).await;
        if let Ok(Some(found)) = &mut found {
            found.job.outcome = None;
        }
        found.transpose()
    });
    read.buffered(REQUESTS_AT_ONCE).filter_map(|found| async { found })
}

/// The newest first.
async fn ids(store: &Store) -> Result<Vec<JobId>> {
    let (entries, _) = list_all(&**store.bucket(), &layout::jobs(), Depth::All).await?;
    let mut ids: Vec<JobId> = entries.iter().filter_map(|entry| layout::job_of(&entry.key)).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{bucket::MemoryBucket, format::event::Actor};

    /// A job that began at this time, and is done unless `goes_on`.
    async fn begun(store: &Store, at: u64, kind: &str, tenant: Option<&str>, goes_on: bool) -> JobId {
        let job = Job {
            tenant_id: tenant.map(|tenant| tenant.parse().unwrap()),
            state: if goes_on { JobState::Running } else { JobState::Done },
            outcome: Some(serde_json::json!({})),
            ..Job::new(JobId::from_parts(at, [0; 10]), kind, Actor::default(), "here", at)
        };
        begin(store, &job).await.unwrap();
        job.id
    }

    #[tokio::test]
    async fn jobs_are_kept_the_newest_first_and_those_who_have_most_lose_theirs() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        let verify = begun(&store, 1, "verify", None, true).await;
        let of_other = begun(&store, 2, "reap", Some("other"), false).await;
        for at in 10..10 + (KEPT + SPARE) as u64 {
            begun(&store, at, "reap", Some("acme"), false).await;
        }
        // A server whose clock is behind has just begun this one.
        let behind = begun(&store, 3, "gc", None, false).await;
        sweep(&store).await.unwrap();
        let listed = list(&store, usize::MAX, |_| true).await.unwrap();
        let ids: Vec<JobId> = listed.iter().map(|job| job.as_ref().unwrap().job.id).collect();
        assert_eq!(ids.len(), KEPT);
        assert_eq!(ids[KEPT - 3..], [behind, of_other, verify]);
        assert!(ids.is_sorted_by(|a, b| a > b));
        assert!(listed.iter().all(|job| job.as_ref().unwrap().job.outcome.is_none()));
        let few = list(&store, 2, |job| job.kind != "reap").await.unwrap();
        assert_eq!(few.iter().map(|job| job.as_ref().unwrap().job.id).collect::<Vec<_>>(), [behind, verify]);
    }

    #[tokio::test]
    async fn a_job_that_goes_on_stays_however_many_there_are() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        for at in 0..(KEPT + SPARE + 1) as u64 {
            begun(&store, at, "gc", None, true).await;
        }
        sweep(&store).await.unwrap();
        assert_eq!(list(&store, usize::MAX, |_| true).await.unwrap().len(), KEPT + SPARE + 1);
    }

    #[tokio::test]
    async fn who_changes_a_job_at_the_same_time_loses_nothing() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        let id = new_id();
        begin(&store, &Job::new(id, "gc", Actor::default(), "here", 1)).await.unwrap();
        let cancel = change(&store, id, |job| !std::mem::replace(&mut job.cancel, true));
        let end = change(&store, id, |job| {
            job.state = JobState::Done;
            true
        });
        let (first, second) = futures::join!(cancel, end);
        first.unwrap();
        second.unwrap();
        let job = get(&store, id).await.unwrap().unwrap().job;
        assert_eq!((job.cancel, job.state, job.revision), (true, JobState::Done, 2));
        assert!(change(&store, new_id(), |_| true).await.unwrap().is_none());
    }
}
