//! `Server` holds the state that all requests share.

use std::{path::PathBuf, sync::Arc};

use axum::{body::Bytes, http::HeaderValue};
use engine::{Engine, interrupt::Interrupt};
use store::catalog::clock;

use crate::{
    concurrency_limit::ConcurrencyLimit,
    kept_answers::KeptAnswers,
    live_jobs::LiveJobs,
    lock_queues::LockQueues,
    login::{EndedLogins, LoginKey},
    mounts::Mounts,
    overview_reads::OverviewReads,
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
/// How many trees of snapshots may be listed or compared at once. Each is held in memory meanwhile.
const MAX_BROWSED: usize = 16;
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
/// How many containers may be stored at once. Each is copied to this host's disk.
const MAX_CONTAINERS: usize = 4;
/// How many projects may be saved at once. Each is copied, too.
const MAX_SAVED: usize = 4;
/// How many jobs may be in progress at once. A collection takes up to 256 MiB of memory.
const MAX_JOBS: usize = 2;

/// A page of snapshots as it is answered, and the entity tag of the pointer.
pub(crate) type Listed = (Bytes, HeaderValue);

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) tokens: TokenFile,
    /// None if connections are not encrypted.
    pub(crate) tls: Option<Tls>,
    /// Signs the cookies of the page.
    pub(crate) login_key: LoginKey,
    /// The cookies whose users have logged out.
    pub(crate) ended_logins: EndedLogins,
    /// Summaries of all tenants, from which the page is answered.
    pub(crate) overview: Arc<OverviewReads>,
    pub(crate) rates: Rates,
    pub(crate) work: UnfinishedWork,
    pub(crate) replays: Arc<KeptAnswers>,
    /// Lists that several callers ask for at once.
    pub(crate) lists: Arc<SharedReads<Result<Listed, Refusal>>>,
    pub(crate) readiness: Readiness<Verdict>,
    /// The same for all servers with the same settings.
    pub(crate) configuration: String,
    pub(crate) requests: ConcurrencyLimit,
    pub(crate) waiting: ConcurrencyLimit,
    pub(crate) queues: Arc<LockQueues>,
    pub(crate) browsed: ConcurrencyLimit,
    pub(crate) downloads: ConcurrencyLimit,
    pub(crate) made: ConcurrencyLimit,
    pub(crate) subscribers: ConcurrencyLimit,
    pub(crate) uploads: ConcurrencyLimit,
    pub(crate) loads: ConcurrencyLimit,
    pub(crate) jobs: LiveJobs,
    pub(crate) job_room: ConcurrencyLimit,
    /// Whether it does jobs, and takes turns at periodic ones.
    pub(crate) does_jobs: bool,
    /// Names this server among all of the store: its host, and a name of its own.
    pub(crate) name: String,
    /// Makes mounts on this host, if it is to.
    pub(crate) mounts: Option<Arc<Mounts>>,
    /// The folder of the workspaces that it offers, if it is to.
    pub(crate) workspaces: Option<PathBuf>,
    /// The Docker daemon whose containers it stores, if it is to.
    pub(crate) containers: Option<String>,
    pub(crate) storing: ConcurrencyLimit,
    /// The folder with the files of the projects that it saves, if it is to.
    pub(crate) projects: Option<PathBuf>,
    pub(crate) saving: ConcurrencyLimit,
    /// The users of this host that need no token.
    pub(crate) socket_users: Vec<SocketUser>,
    /// Raised when the server is to stop.
    pub(crate) stopping: Interrupt,
    /// Raised when the time for requests to end is over: what keeps services or containers at rest is given up.
    pub(crate) ending: Interrupt,
}

/// The work of a server on its host besides answering.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) does_jobs: bool,
    pub(crate) mounts: Option<Mounts>,
    pub(crate) workspaces: Option<PathBuf>,
    pub(crate) containers: Option<String>,
    pub(crate) projects: Option<PathBuf>,
    pub(crate) socket_users: Vec<SocketUser>,
}

impl Server {
    pub(crate) fn new(
        engine: Engine,
        (tokens, tls, login_key): (TokenFile, Option<Tls>, LoginKey),
        rates: Rates,
        Host { does_jobs, mounts, workspaces, containers, projects, socket_users }: Host,
        stopping: Interrupt,
    ) -> Self {
        let host = engine.settings.host_name().unwrap_or_default();
        Self {
            name: format!("{host}/{}", clock::new_record_id()),
            configuration: engine.settings.digest(),
            engine,
            tokens,
            tls,
            login_key,
            ended_logins: EndedLogins::default(),
            overview: Arc::default(),
            rates,
            work: UnfinishedWork::default(),
            replays: Arc::default(),
            lists: Arc::default(),
            readiness: Readiness::default(),
            requests: ConcurrencyLimit::new("requests in progress", MAX_REQUESTS),
            waiting: ConcurrencyLimit::new("callers that wait for a lock", MAX_WAITING),
            queues: Arc::default(),
            browsed: ConcurrencyLimit::new("trees to look at", MAX_BROWSED),
            downloads: ConcurrencyLimit::new("downloads in progress", MAX_DOWNLOADS),
            made: ConcurrencyLimit::new("archives to make", MAX_MADE),
            subscribers: ConcurrencyLimit::new("callers that follow events", MAX_SUBSCRIBERS),
            uploads: ConcurrencyLimit::new("archives that arrive", MAX_UPLOADS),
            loads: ConcurrencyLimit::new("loads in progress", MAX_LOADS),
            jobs: LiveJobs::default(),
            job_room: ConcurrencyLimit::new("jobs in progress", MAX_JOBS),
            does_jobs,
            mounts: mounts.map(Arc::new),
            workspaces,
            containers,
            storing: ConcurrencyLimit::new("containers to store", MAX_CONTAINERS),
            projects,
            saving: ConcurrencyLimit::new("projects to save", MAX_SAVED),
            socket_users,
            stopping,
            ending: Interrupt::new(),
        }
    }
}
