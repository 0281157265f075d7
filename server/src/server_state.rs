//! `Server` holds the state that all requests share.

use std::{collections::HashMap, sync::Arc};

use axum::{
    body::Bytes,
    http::{HeaderValue, StatusCode},
};
use engine::{Engine, failure::Failure, interrupt::Interrupt};
use parking_lot::Mutex;
use store::{ErrorKind, catalog::clock, name::Tenant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    kept_answers::KeptAnswers,
    live_jobs::LiveJobs,
    lock_queues::LockQueues,
    mounts::Mounts,
    problem::Refusal,
    rates::Rates,
    readiness::{Readiness, Verdict},
    shared_reads::SharedReads,
    tls::Tls,
    tokens::TokenFile,
    unfinished_work::UnfinishedWork,
    users::SocketUser,
};

/// How many loads may be judged at once. Each may examine up to 1 GiB on this host's disk.
const MAX_LOADS: usize = 16;
/// How many requests may be in progress at once.
const MAX_REQUESTS: usize = 256;
/// How many of them may wait for a lock, so that they leave room for others.
const MAX_WAITING: usize = 128;
/// How many files and archives may be on their way at once. Each takes up to 40 MiB of memory.
const MAX_DOWNLOADS: usize = 32;
/// How many archives may arrive at once. Each is kept on this host's disk meanwhile.
const MAX_UPLOADS: usize = 8;
/// How many archives may be made at once. Each takes up to 400 MiB, and all processors.
const MAX_MADE: usize = 4;
/// How many may be told of events as they happen. Each costs a listing of its tenants every two seconds.
const MAX_SUBSCRIBERS: usize = 32;
/// How many jobs may be in progress at once. A collection takes up to 256 MiB of memory.
const MAX_JOBS: usize = 2;

/// A page of snapshots as it is answered, and the entity tag of the pointer.
pub(crate) type Listed = (Bytes, HeaderValue);

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) tokens: TokenFile,
    /// None if connections are not encrypted.
    pub(crate) tls: Option<Tls>,
    pub(crate) rates: Rates,
    pub(crate) work: UnfinishedWork,
    pub(crate) replays: Arc<KeptAnswers>,
    /// Lists that several callers ask for at once.
    pub(crate) lists: Arc<SharedReads<Result<Listed, Refusal>>>,
    pub(crate) readiness: Readiness<Verdict>,
    /// The same for all servers with the same settings.
    pub(crate) configuration: String,
    pub(crate) requests: Room,
    pub(crate) waiting: Room,
    pub(crate) queues: Arc<LockQueues>,
    pub(crate) downloads: Room,
    pub(crate) made: Room,
    pub(crate) subscribers: Room,
    pub(crate) uploads: Room,
    pub(crate) loads: Room,
    pub(crate) jobs: LiveJobs,
    pub(crate) job_room: Room,
    /// Whether it does jobs, and takes turns at what is due.
    pub(crate) does_jobs: bool,
    /// Names this server among all of the store: its host, and a name of its own.
    pub(crate) name: String,
    /// Makes mounts on this host, if it is to.
    pub(crate) mounts: Option<Arc<Mounts>>,
    /// The users of this host that need no token.
    pub(crate) socket_users: Vec<SocketUser>,
    /// Raised when the server is to stop.
    pub(crate) stopping: Interrupt,
}

/// What a server is to do on its host besides answering.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) does_jobs: bool,
    pub(crate) mounts: Option<Mounts>,
    pub(crate) socket_users: Vec<SocketUser>,
}

impl Server {
    pub(crate) fn new(
        engine: Engine,
        (tokens, tls): (TokenFile, Option<Tls>),
        rates: Rates,
        Host { does_jobs, mounts, socket_users }: Host,
        stopping: Interrupt,
    ) -> Self {
        let host = engine.settings.host_name().unwrap_or_default();
        Self {
            name: format!("{host}/{}", clock::new_record_id()),
            configuration: engine.settings.digest(),
            engine,
            tokens,
            tls,
            rates,
            work: UnfinishedWork::default(),
            replays: Arc::default(),
            lists: Arc::default(),
            readiness: Readiness::default(),
            requests: Room::new("requests in progress", MAX_REQUESTS),
            waiting: Room::new("callers that wait for a lock", MAX_WAITING),
            queues: Arc::default(),
            downloads: Room::new("downloads in progress", MAX_DOWNLOADS),
            made: Room::new("archives to make", MAX_MADE),
            subscribers: Room::new("callers that follow events", MAX_SUBSCRIBERS),
            uploads: Room::new("archives that arrive", MAX_UPLOADS),
            loads: Room::new("loads in progress", MAX_LOADS),
            jobs: LiveJobs::default(),
            job_room: Room::new("jobs in progress", MAX_JOBS),
            does_jobs,
            mounts: mounts.map(Arc::new),
            socket_users,
            stopping,
        }
    }
}

/// Bounds how many of something there are at once, of which one tenant has at most half. Nobody waits for room.
#[derive(Debug)]
pub(crate) struct Room {
    what: &'static str,
    left: Arc<Semaphore>,
    most_of_one: usize,
    of_tenants: Arc<Mutex<HashMap<Tenant, usize>>>,
}

/// Room that a tenant has taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct TenantRoom {
    tenant: Tenant,
    of_tenants: Arc<Mutex<HashMap<Tenant, usize>>>,
    _permit: OwnedSemaphorePermit,
}

impl Room {
    fn new(what: &'static str, most: usize) -> Self {
        let most_of_one = most.div_ceil(2);
        Self { what, left: Arc::new(Semaphore::new(most)), most_of_one, of_tenants: Arc::default() }
    }

    /// Takes room for a tenant until it is dropped; if there is none, or the tenant has its share, the caller is
    /// told to come back.
    pub(crate) fn take_for(&self, tenant: &Tenant) -> Result<TenantRoom, Refusal> {
        let permit = self.take()?;
        let mut of_tenants = self.of_tenants.lock();
        let taken = of_tenants.entry(tenant.clone()).or_default();
        if *taken >= self.most_of_one {
            return Err(full(&format!("the tenant has too many {}", self.what)));
        }
        *taken += 1;
        Ok(TenantRoom { tenant: tenant.clone(), of_tenants: Arc::clone(&self.of_tenants), _permit: permit })
    }

    /// Takes room until the permit is dropped; if there is none, the caller is told to come back.
    pub(crate) fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = Arc::clone(&self.left).try_acquire_owned();
        permit.map_err(|_| full(&format!("the server has too many {}", self.what)))
    }
}

impl Drop for TenantRoom {
    fn drop(&mut self) {
        let mut of_tenants = self.of_tenants.lock();
        if let Some(taken) = of_tenants.get_mut(&self.tenant) {
            *taken -= 1;
            if *taken == 0 {
                of_tenants.remove(&self.tenant);
            }
        }
    }
}

fn full(message: &str) -> Refusal {
    let failure = Failure::new(ErrorKind::Unavailable, message).hint("try again in a few seconds");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_is_taken_is_refused_and_comes_back() {
        let room = Room::new("downloads", 2);
        let taken = [room.take().unwrap(), room.take().unwrap()];
        let refusal = room.take().unwrap_err();
        assert_eq!(refusal.status, 503);
        assert!(refusal.response("id").headers().contains_key("retry-after"));
        drop(taken);
        assert!(room.take().is_ok());
    }

    #[test]
    fn one_tenant_leaves_half_of_the_room_to_others() {
        let room = Room::new("archives", 4);
        let [acme, other] = ["acme", "other"].map(|tenant| tenant.parse::<Tenant>().unwrap());
        let taken = [room.take_for(&acme).unwrap(), room.take_for(&acme).unwrap()];
        assert_eq!(room.take_for(&acme).unwrap_err().status, 503);
        let of_other = room.take_for(&other).unwrap();
        drop(taken);
        assert!(room.take_for(&acme).is_ok());
        drop(of_other);
        assert!(room.of_tenants.lock().is_empty());
    }
}
