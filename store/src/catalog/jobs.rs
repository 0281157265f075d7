//! Keeps what servers do for the store as a whole: one document for each job, which any of them reads.

use std::time::Duration;

use futures::{StreamExt, stream};

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
/// So many jobs are kept, the newest.
pub const KEPT: usize = 200;

/// A job as the store has it.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// The document.
    pub job: Job,
    /// What a replacement must name.
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

/// Changes a job, whatever others write meanwhile, unless `change` says that there is nothing to change.
/// The job as it is then; `None` if there is none.
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
        let bytes = found.job.encode_readable().map_err(|error| error.of(&key))?;
        if let Some(version) = cas::replace(&**store.bucket(), &key, bytes.into(), found.version).await? {
            return Ok(Some(StoredJob { job: found.job, version, age: Duration::ZERO }));
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

/// The newest jobs, the newest first. One that cannot be read comes as an error and takes no other with it.
pub async fn list(store: &Store, most: usize) -> Result<Vec<Result<StoredJob>>> {
    let ids = ids(store).await?;
    let found: Vec<Result<Option<StoredJob>>> = stream::iter(ids.into_iter().take(most))
        .map(|id| async move { get(store, id).await })
        .buffered(REQUESTS_AT_ONCE)
        .collect()
        .await;
    // One that is gone was old, and swept meanwhile.
    Ok(found.into_iter().filter_map(Result::transpose).collect())
}

/// Removes what is older than the newest [`KEPT`].
pub async fn sweep(store: &Store) -> Result<()> {
    for id in ids(store).await?.into_iter().skip(KEPT) {
        store.bucket().delete(&layout::job(id)).await?;
    }
    Ok(())
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

    #[tokio::test]
    async fn jobs_are_kept_the_newest_first_and_the_oldest_go() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        for at in 0..KEPT as u64 + 3 {
            let job = Job::new(JobId::from_parts(at, [0; 10]), "reap", Actor::default(), "here", at);
            begin(&store, &job).await.unwrap();
        }
        sweep(&store).await.unwrap();
        let jobs = list(&store, usize::MAX).await.unwrap();
        let times: Vec<u64> = jobs.iter().map(|job| job.as_ref().unwrap().job.begun_at_ms).collect();
        assert_eq!(times, (3..KEPT as u64 + 3).rev().collect::<Vec<_>>());
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
