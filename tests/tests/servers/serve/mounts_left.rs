//! These tests have callers go away before they are told of their mounts.

use std::{
    fs,
    io::Write,
    net::Shutdown,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{
    binary::Host,
    proxy::{FaultPlan, FaultyProxy},
    served::{Served, Tokens, request, with_header},
    server::SeaweedFs,
};

use super::captured;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that makes mounts, on a bucket behind a network that can lose requests.
struct Slow {
    proxy: FaultyProxy,
    host: Host,
    server: Served,
    secret: String,
    body: String,
}

impl Slow {
    fn new(proxy: FaultyProxy, host: Host, folder: &Path) -> Self {
        captured(&host, folder, "acme/alice", "first");
        let tokens = Tokens::new(folder);
        let secret = tokens.add(&host, "acme", "run");
        let directory = folder.canonicalize().unwrap().join("mounts");
        fs::create_dir(&directory).unwrap();
        let server = Served::start_with(&host, &tokens.path, &["--mounts", directory.to_str().unwrap()]);
        let body = json!({ "tenant_id": "acme", "profile_id": "alice", "wait": 30 }).to_string();
        Self { proxy, host, server, secret, body }
    }

    fn request(&self) -> String {
        request("POST /v1/mounts", Some(&self.secret), Some(&self.body))
    }

    /// Mounts and unmounts. How many bodies the store was sent for the mount.
    fn mount(&self) -> u64 {
        let before = self.proxy.bodies();
        let made: Value = self.server.send(&self.request()).expect(200);
        let sent = self.proxy.bodies() - before;
        let line = format!("DELETE /v1/mounts/{}", made["mount_id"].as_str().unwrap());
        self.server.call(&line, Some(&self.secret), None).expect(200);
        sent
    }

    /// Sends a request, and goes away while the last that the server does for it is on its way to the store: the event
    /// that tells of the mount, which is there by then.
    fn leave(&self, request: &str, bodies: u64) {
        let most_bodies = Some(self.proxy.bodies() + bodies - 1);
        let vanished = self.proxy.vanished();
        self.proxy.set(FaultPlan { most_bodies, ..FaultPlan::none() });
        let mut stream = self.server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let began = Instant::now();
        while self.proxy.vanished() == vanished {
            assert!(began.elapsed() < PATIENCE, "nothing was lost: {}", self.server.said());
            thread::sleep(Duration::from_millis(2));
        }
        stream.shutdown(Shutdown::Both).unwrap();
        drop(stream);
        self.proxy.set(FaultPlan::none());
    }

    /// Nothing is mounted, and nobody holds the lock.
    #[track_caller]
    fn await_nothing(&self) {
        let began = Instant::now();
        loop {
            let mounts = self.host.succeed(["mounts"])["mounts"].clone();
            let lock = self.host.succeed(["lock", "show", "acme/alice"])["state"].clone();
            if mounts == json!([]) && lock == "free" {
                return;
            }
            let said = self.server.said();
            assert!(began.elapsed() < PATIENCE, "{mounts:#}, the lock is {lock}: {said}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.proxy.set(FaultPlan::none());
        let listed = self.host.run(["mounts", "--json"]).document;
        for mount in listed["mounts"].as_array().into_iter().flatten() {
            if let Some(path) = mount["mountpoint"].as_str() {
                let _ = self.host.run(["unmount", path, "--discard"]);
            }
        }
    }
}

/// With a key the caller could ask again: it has ten seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_mount_ends_if_its_caller_is_gone_before_it_is_told() {
    let bucket = SeaweedFs::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let proxy = FaultyProxy::before(&bucket.config(), FaultPlan::none());
    let host = Host::s3(&folder.path().join("home"), &proxy.through(&bucket.config()))
        .with("PSTORE_SCHEDULES_REAP_SECONDS", "0")
        .with("PSTORE_RETRY_SECONDS", "5");
    let slow = Slow::new(proxy, host, folder.path());
    // The first one also writes what later ones find.
    slow.mount();
    let bodies = slow.mount();
    slow.leave(&slow.request(), bodies);
    slow.await_nothing();
    slow.leave(&with_header(&slow.request(), "Idempotency-Key: key-1"), bodies);
    slow.await_nothing();
    // And whoever stays keeps it.
    slow.mount();
}
