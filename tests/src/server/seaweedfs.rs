//! `SeaweedFs` starts SeaweedFS, which honours every condition, and limits credentials to prefixes.

use std::{
    collections::HashSet,
    env,
    fs::{self, File},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use store::bucket::{Prefix, S3Config};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::process::Process;

const BUCKET: &str = "pstore";
const SECRET: &str = "a-secret-only-for-tests";
/// The log of a server, below its folder.
const TALK: &str = "talk";
/// Its messages when gateway and filer have learnt the keepers of the locks. Until then the gateway may
/// check a condition under one lock and the filer another one under another, and two writers win.
const LOCKS_ARE_KNOWN: [&str; 2] = ["LockRing: s3@", "LockRing: applying master ring update"];

/// Users of the bucket, each of whom may do everything below its tenant's two prefixes, and nothing else.
const TENANTS: [&str; 2] = ["acme", "globex"];
const READER: &str = "reader";

/// Whether requests must be signed, by whom and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Guarded,
    Open,
}

/// A running server.
#[derive(Debug)]
pub struct SeaweedFs {
    // Before the folder: a server must end before its files go.
    process: Option<Process>,
    folder: TempDir,
    arguments: Vec<String>,
    endpoint: String,
}

impl SeaweedFs {
    /// One for all tests of this process; each works below a prefix of its own.
    pub async fn shared() -> Arc<Self> {
        static SHARED: OnceCell<Arc<SeaweedFs>> = OnceCell::const_new();
        Arc::clone(SHARED.get_or_init(|| async { Arc::new(Self::start().await) }).await)
    }

    pub async fn start() -> Self {
        Self::start_with(Door::Guarded).await
    }

    /// One that asks nobody who he is, and so does not mind when he says that he has asked: a host
    /// whose clock is wrong by days is refused by any other.
    pub async fn start_unguarded() -> Self {
        Self::start_with(Door::Open).await
    }

    /// A port that was free may be taken a moment later, so a start is tried again.
    async fn start_with(door: Door) -> Self {
        let mut reason = String::new();
        for _ in 0..3 {
            match Self::try_start(door).await {
                Ok(server) => return server,
                Err(error) => reason = error,
            }
        }
        panic!("SeaweedFS does not start: {reason}");
    }

    async fn try_start(door: Door) -> Result<Self, String> {
        remove_dead_sockets();
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let access = folder.path().join("access.json");
        fs::create_dir(&data).unwrap();
        fs::write(&access, identities().to_string()).unwrap();
        let port = super::free_port();
        let mut arguments = told(&folder);
        arguments.extend(["mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"].map(Into::into));
        for service in ["master", "volume", "filer", "admin"] {
            arguments.push(format!("-{service}.port={}", super::free_port()));
        }
        for off in ["-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"] {
            arguments.push(off.into());
        }
        arguments.push(format!("-s3.port={port}"));
        arguments.push(format!("-dir={}", data.display()));
        if door == Door::Guarded {
            arguments.push(format!("-s3.config={}", access.display()));
        }
        let mut server =
            Self { process: None, folder, arguments, endpoint: format!("http://127.0.0.1:{port}") };
        server.run().await?;
        Ok(server)
    }

    /// One that is started by a line that a person would type in `folder`, on ports that are free. Its
    /// keys are in the line.
    pub async fn start_by(line: &str, folder: TempDir, config: impl Fn(&str) -> S3Config) -> Self {
        remove_dead_sockets();
        let port = super::free_port();
        let ports = ["master", "volume", "filer", "admin"]
            .map(|service| format!("-{service}.port={}", super::free_port()));
        let program = format!("exec weed {} ", told(&folder).join(" "));
        let line = format!("{} {} -s3.port={port}", line.replace("weed ", &program), ports.join(" "));
        let line = format!("{line} -s3.port.iceberg=0 -s3.port.lance=0 -webdav=false -admin.ui=false");
        let tools = super::program("weed").parent().unwrap().display().to_string();
        let process = Process::spawn_with(Path::new("sh"), |command| {
            let path = format!("{tools}:{}", env::var("PATH").unwrap());
            command.args(["-c", &line]).current_dir(folder.path()).env("PATH", path);
            heard(command, folder.path());
        });
        let endpoint = format!("http://127.0.0.1:{port}");
        super::ready(&config(&endpoint), || process.runs()).await.unwrap();
        locks_are_known(folder.path()).await.unwrap();
        Self { process: Some(process), folder, arguments: Vec::new(), endpoint }
    }

    /// Ends the server as nothing can be prepared for. What it has stored stays.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again, in its place and with its data.
    pub async fn start_again(&mut self) {
        self.stop();
        self.run().await.unwrap();
    }

    async fn run(&mut self) -> Result<(), String> {
        let process = Process::spawn_with(&super::program("weed"), |command| {
            command.args(&self.arguments);
            heard(command, self.folder.path());
        });
        super::ready(&self.whole_bucket(), || process.runs()).await?;
        locks_are_known(self.folder.path()).await?;
        self.process = Some(process);
        Ok(())
    }

    /// Everything allowed, below a prefix of its own.
    pub fn config(&self) -> S3Config {
        S3Config {
            prefix: Prefix::new(format!("{}/", crate::unique_name())).unwrap(),
            conditional_delete: true,
            ..self.whole_bucket()
        }
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn whole_bucket(&self) -> S3Config {
        super::config(&self.endpoint, BUCKET, "admin", SECRET)
    }

    /// The same place with credentials that may only read.
    pub fn reader(&self, config: &S3Config) -> S3Config {
        let credentials = super::config(&self.endpoint, BUCKET, READER, SECRET).credentials;
        S3Config { credentials, ..config.clone() }
    }

    /// With the credentials of `acme` or `globex`, over the whole bucket.
    pub fn tenant(&self, name: &str) -> S3Config {
        super::config(&self.endpoint, BUCKET, name, SECRET)
    }
}

/// Lets a server write its log at once, and keep it in its folder.
fn told(folder: &TempDir) -> Vec<String> {
    vec![format!("-logdir={}", folder.path().display()), "-alsologtostderr=true".into()]
}

fn heard(command: &mut Command, folder: &Path) {
    command.stderr(File::create(folder.join(TALK)).unwrap());
}

/// Waits until a server honours the conditions of every caller.
async fn locks_are_known(folder: &Path) -> Result<(), String> {
    let deadline = Instant::now() + super::PATIENCE;
    while Instant::now() < deadline {
        let talk = fs::read(folder.join(TALK)).unwrap();
        let talk = String::from_utf8_lossy(&talk);
        if LOCKS_ARE_KNOWN.iter().all(|words| talk.contains(words)) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("the server does not learn who keeps its locks".into())
}

/// With any settings, a server makes sockets here, and those of one that was killed stay. A socket that
/// the kernel does not know is nobody's, unless it is about to be bound.
fn remove_dead_sockets() {
    let Ok(bound) = fs::read_to_string("/proc/net/unix") else { return };
    let bound: HashSet<&str> = bound.lines().filter_map(|line| line.split(' ').next_back()).collect();
    for entry in fs::read_dir("/tmp").unwrap().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let (Some(name), Some(place)) = (name.to_str(), path.to_str()) else { continue };
        let is_socket = name.starts_with("seaweedfs-") && name.ends_with(".sock");
        let is_old = || {
            entry.metadata().is_ok_and(|data| {
                data.modified()
                    .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > Duration::from_secs(60)))
            })
        };
        if is_socket && !bound.contains(place) && is_old() {
            fs::remove_file(path).ok();
        }
    }
}

fn identities() -> serde_json::Value {
    let identity = |name: &str, actions: Vec<String>| {
        json!({
            "name": name,
            "credentials": [{ "accessKey": name, "secretKey": SECRET }],
            "actions": actions,
        })
    };
    let all = ["Admin", "Read", "Write", "List", "Tagging"].map(Into::into).into();
    let mut identities = vec![identity("admin", all)];
    for tenant in TENANTS {
        let mut actions = Vec::new();
        for action in ["Read", "Write", "List"] {
            for folder in ["content", "snapshots"] {
                actions.push(format!("{action}:{BUCKET}/{folder}/{tenant}/*"));
            }
        }
        identities.push(identity(tenant, actions));
    }
    let reading = ["Read", "List"].map(Into::into).into();
    identities.push(identity(READER, reading));
    json!({ "identities": identities })
}
