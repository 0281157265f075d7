//! `serve` runs a server from its start to its end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use engine::{Engine, failure::Failure, host::signals, interrupt::Interrupt, outcome::Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Error, ErrorKind};
use volumes::project::recover;

use crate::{
    connections,
    listen::Listen,
    login::LoginKey,
    metrics_turns,
    mounts::{Mounts, MountsAt},
    rates::Rates,
    schedules,
    server_state::{Host, Server},
    tls::{Tls, TlsFiles},
    tokens::TokenFile,
    users::SocketUser,
};

/// Asks for a server.
#[derive(Clone, Debug)]
pub struct ServeRequest {
    /// Where it is reached.
    pub listen: Listen,
    /// The file with its tokens.
    pub tokens: PathBuf,
    /// The file with the key of the page's cookies; without it, a new key for as long as the server runs.
    pub login_key: Option<PathBuf>,
    /// The files for TLS; without them connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// How many requests a token, or an address without one, may send in a second.
    pub rate: u32,
    /// Whether it does jobs, and takes turns at periodic ones.
    pub does_jobs: bool,
    /// Where it makes mounts for callers that may not mount.
    pub mounts: Option<MountsAt>,
    /// The folder of the workspaces that it offers to agents.
    pub workspaces: Option<PathBuf>,
    /// The address of the Docker daemon whose containers it stores.
    pub containers: Option<String>,
    /// The folder with the files of the projects that it saves.
    pub projects: Option<PathBuf>,
    /// The users of this host that need no token at a socket in the file system.
    pub socket_users: Vec<SocketUser>,
    /// How long requests may take to end when it is told to stop.
    pub drain: Duration,
}

/// A server that has ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ServeOutcome {
    /// Its address.
    pub listen: String,
    /// Every request that had begun was answered; if not, the command fails.
    pub drained: bool,
}

impl Outcome for ServeOutcome {}

/// How long a server looks after what dead commands have left before it listens. The next command tries again.
const RECOVERS: Duration = Duration::from_secs(10);
/// How long work that is given up may take to let services and containers go on.
const RESUMES: Duration = Duration::from_secs(10);

const WORKSPACES: &str = "--workspaces takes the directory in which the workspaces lie";
const PROJECTS: &str =
    "--projects takes the directory with a directory of each tenant, in which its project files lie";

/// The folder without links in its path, as the workspaces below it know themselves.
fn directory(folder: &Path, hint: &str) -> Result<PathBuf, Failure> {
    let found = folder.canonicalize().map_err(|error| Error::io("cannot read", folder, error))?;
    match found.is_dir() {
        true => Ok(found),
        false => Err(Failure::usage(format!("{} is no directory", folder.display())).hint(hint)),
    }
}

/// Serves until the process is told to end, then finishes the requests under way.
pub async fn serve(engine: Engine, request: &ServeRequest) -> Result<ServeOutcome, Failure> {
    let stopping = Interrupt::new();
    // From here on a signal stops the server, and does not end the process.
    let stopped = signals::told_to_end();
    let tokens = TokenFile::open(&request.tokens)?;
    let login_key = LoginKey::open(request.login_key.as_deref())?;
    let tls = request.tls.as_ref().map(Tls::open).transpose()?;
    if tls.is_some() && matches!(request.listen, Listen::Socket(_)) {
        return Err(Failure::usage("a socket in the file system is not encrypted")
            .hint("leave --tls-cert and --tls-key out, or listen on an address"));
    }
    if request.containers.is_some() || request.projects.is_some() {
        let recovering = recover::recover_all(&engine, request.projects.as_deref());
        if tokio::time::timeout(RECOVERS, recovering).await.is_err() {
            engine.warn("what dead commands have left could not be undone yet; the next command tries again");
        }
    }
    let bound = match request.listen.bind(!request.socket_users.is_empty()).await {
        Ok(listener) => listener.place().map(|place| (listener, place)),
        Err(error) => Err(error),
    };
    let (listener, place) = bound.map_err(|error| {
        Failure::new(ErrorKind::Io, format!("cannot listen on {}: {error}", request.listen))
    })?;
    let is_exposed = place.is_exposed() && tls.is_none();
    let place = place.url(tls.is_some());
    if is_exposed {
        engine.warn(&format!(
            "requests to {place} are not encrypted: anybody on the way can read tokens; --tls-cert and --tls-key encrypt them"
        ));
    }
    let knows_certificates = request.tls.as_ref().is_some_and(|files| files.client_authorities.is_some());
    if tokens.count() == 0 && !knows_certificates {
        engine.warn("there is no token, so nobody is let in; `pstore token new` makes one");
    }
    engine.say(&format!("listening on {place}"));
    let host = Host {
        does_jobs: request.does_jobs,
        workspaces: request.workspaces.as_deref().map(|folder| directory(folder, WORKSPACES)).transpose()?,
        containers: request.containers.clone(),
        projects: request.projects.as_deref().map(|folder| directory(folder, PROJECTS)).transpose()?,
        mounts: request.mounts.as_ref().map(Mounts::open).transpose()?,
        socket_users: request.socket_users.clone(),
    };
    let (serving, rates) = (engine.clone().serving(), Rates::new(request.rate));
    let server = Arc::new(Server::new(serving, (tokens, tls, login_key), rates, host, stopping.clone()));
    if request.does_jobs {
        schedules::begin(&server);
    }
    metrics_turns::begin(&server);
    server.overview.begin(&server.engine, stopping.clone());
    let until = async {
        stopped.await;
        engine.say("told to stop; requests that have begun are brought to their end");
        stopping.raise();
    };
    let is_drained = connections::serve(listener, &server, until, request.drain).await;
    let is_done = tokio::time::timeout(request.drain, server.work.all_ended()).await.is_ok();
    if !is_done {
        // A process that ends would leave services and containers at rest.
        server.ending.raise();
        let _ = tokio::time::timeout(RESUMES, server.work.all_ended()).await;
    }
    if !(is_drained && is_done) {
        let message = format!("some requests had not ended after {} s", request.drain.as_secs());
        return Err(Failure::new(ErrorKind::Interrupted, message)
            .hint("look at the audit lines of the log for what became of changes; --drain waits longer"));
    }
    Ok(ServeOutcome { listen: place, drained: true })
}
