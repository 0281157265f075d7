//! These tests check that the observer hears of every capture, load and lock, with the contract's words.

use std::{fs, sync::Arc, time::Duration};

use parking_lot::Mutex;

use store::format::config::Chunking;
use tempfile::TempDir;

use crate::{
    Engine,
    captures::CheckDepth,
    interrupt::Interrupt,
    loads::LoadOptions,
    names::{ActorName, LineageName, SnapshotChoice},
    observer::{LoadWay, Observation, Observer},
    settings::Overrides,
    verbs::{
        force_unlock::ForceUnlockRequest, init::InitRequest, lock::AcquireLockRequest,
        restore::RestoreRequest, snapshot::SnapshotRequest,
    },
};

/// Writes down what it hears in words.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn observe(&self, observation: &Observation<'_>) {
        let word = match observation {
            Observation::Captured(captured) => {
                assert_eq!(captured.phases.is_none(), captured.failure.is_some());
                assert!(captured.phases.is_none_or(|phases| phases.capture <= captured.elapsed));
                format!("{} captured: {}", captured.profile, captured.outcome.as_str())
            }
            Observation::Loaded(loaded) => {
                if let Some(LoadWay::Copy { download, extract, uncompressed_bytes }) = loaded.way {
                    assert_eq!(uncompressed_bytes, 5);
                    assert!(download + extract <= loaded.elapsed);
                }
                format!("{} loaded: {:?} by {:?}", loaded.profile, loaded.outcome, way(loaded.way))
            }
            Observation::Lock(lineage, event) => format!("{lineage} lock: {event:?}"),
            _ => return,
        };
        self.0.lock().push(word);
    }
}

fn way(way: Option<LoadWay>) -> &'static str {
    match way {
        Some(LoadWay::Copy { .. }) => "copy",
        Some(LoadWay::Mount) => "mount",
        None => "nothing",
    }
}

struct Host {
    folder: TempDir,
    heard: Arc<Heard>,
    engine: Engine,
}

impl Host {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("pstore.toml"), "").unwrap();
        let overrides = Overrides {
            store: Some(format!("file://{}", folder.path().join("store").display())),
            config: Some(folder.path().join("pstore.toml")),
            no_cache: true,
            ..Overrides::default()
        };
        let heard = Arc::new(Heard::default());
        let engine = Engine::open(&overrides, Arc::clone(&heard) as Arc<dyn Observer>, Interrupt::new());
        let engine = engine.unwrap();
        engine.init(&InitRequest { chunking: Chunking::default() }).await.unwrap();
        fs::create_dir(folder.path().join("profile")).unwrap();
        fs::write(folder.path().join("profile/notes"), "first").unwrap();
        Self { folder, heard, engine }
    }

    /// What was heard since the last look.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.0.lock())
    }

    fn capture(&self) -> SnapshotRequest {
        let mut request =
            SnapshotRequest::new(self.folder.path().join("profile"), "acme/alice".parse().unwrap());
        request.chrome_major = Some("131".parse().unwrap());
        request.capture.checks.depth = CheckDepth::None;
        request
    }

    fn load(&self, name: &str, target: &str) -> RestoreRequest {
        let snapshot = SnapshotChoice {
            name: name.parse().unwrap(),
            chrome_major: Some("131".parse().unwrap()),
            sha: None,
        };
        let load = LoadOptions { chrome_version: Some("131.0.0.0".to_owned()), ..LoadOptions::default() };
        let target = self.folder.path().join(target);
        RestoreRequest { load, check: CheckDepth::None, ..RestoreRequest::new(snapshot, target) }
    }
}

fn alice() -> LineageName {
    LineageName { profile: "acme/alice".parse().unwrap(), chrome_major: Some("131".parse().unwrap()) }
}

#[tokio::test]
async fn every_capture_is_heard_of_however_it_ends() {
    let host = Host::new().await;
    host.engine.snapshot(&host.capture()).await.unwrap();
    assert_eq!(host.heard(), ["acme/alice (Chrome 131) lock: Acquired", "acme/alice captured: success"]);
    host.engine.snapshot(&host.capture()).await.unwrap();
    assert_eq!(host.heard().last().unwrap(), "acme/alice captured: skipped");
    let mut nowhere = host.capture();
    nowhere.directory = host.folder.path().join("nowhere");
    host.engine.snapshot(&nowhere).await.unwrap_err();
    assert_eq!(host.heard(), ["acme/alice captured: failed"]);
}

#[tokio::test]
async fn every_load_is_heard_of_however_it_ends() {
    let host = Host::new().await;
    host.engine.snapshot(&host.capture()).await.unwrap();
    host.heard();
    host.engine.restore(&host.load("acme/alice", "out")).await.unwrap();
    assert_eq!(host.heard(), ["acme/alice loaded: Some(Success) by \"copy\""]);
    host.engine.restore(&host.load("acme/bob", "bob")).await.unwrap();
    assert_eq!(host.heard(), ["acme/bob loaded: Some(NoPriorState) by \"nothing\""]);
    host.engine.restore(&host.load("acme/alice", "out")).await.unwrap_err();
    assert_eq!(host.heard(), ["acme/alice loaded: None by \"nothing\""]);
}

#[tokio::test]
async fn every_lock_is_heard_of() {
    let host = Host::new().await;
    host.engine.snapshot(&host.capture()).await.unwrap();
    host.heard();
    let request = AcquireLockRequest {
        lineage: alice(),
        actor: ActorName::default(),
        wait: Duration::ZERO,
        ttl: Some(Duration::from_secs(60)),
    };
    host.engine.acquire_lock(&request).await.unwrap();
    host.engine.acquire_lock(&request).await.unwrap_err();
    fs::write(host.folder.path().join("profile/notes"), "other").unwrap();
    host.engine.snapshot(&host.capture()).await.unwrap_err();
    let unlock = ForceUnlockRequest {
        lineage: alice(),
        actor: ActorName::default(),
        reason: "stuck".to_owned(),
        confirm: true,
    };
    host.engine.force_unlock(&unlock).await.unwrap();
    assert_eq!(
        host.heard(),
        [
            "acme/alice (Chrome 131) lock: Acquired",
            "acme/alice (Chrome 131) lock: Conflict",
            "acme/alice (Chrome 131) lock: Conflict",
            "acme/alice captured: failed",
            "acme/alice (Chrome 131) lock: Evicted(OperatorForce)",
        ]
    );
}
