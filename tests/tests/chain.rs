//! Sixteen processes that move one pointer: their moves are one chain, none is lost, and
//! who lost knows it.
//!
//! `PSTORE_CHAIN_ROUNDS` is how often each of them does, if not as often as here.

#![allow(clippy::unwrap_used)]

use std::{
    env,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use serde_json::Value;
use store::bucket::{Access, Bucket, LocalBucket, MemoryBucket, S3Bucket};
use tests::{
    chain::{Tally, move_about, verify},
    server::SeaweedFs,
    world::World,
};

const WRITERS: usize = 16;
const RECORDS: usize = 5;

fn rounds(otherwise: usize) -> usize {
    env::var("PSTORE_CHAIN_ROUNDS").ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// Starts the processes, waits for them, and compares.
async fn race(bucket: Arc<dyn Bucket>, writers: usize, rounds: usize, place: &[&str]) -> Tally {
    let world = World::open(bucket, None).await;
    world.snapshots(RECORDS).await;
    let first = world.controls("test").pointer().await.unwrap().unwrap().pointer;
    let start = |number: usize| -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointer-flipper"));
        command.args([rounds.to_string(), format!("writer-{number}")]).args(place);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..writers).map(start).collect();
    let mut reports: Vec<Value> = Vec::new();
    let threads: Vec<_> =
        children.into_iter().map(|child| std::thread::spawn(|| child.wait_with_output().unwrap())).collect();
    for thread in threads {
        let output = thread.join().unwrap();
        assert!(output.status.success(), "a writer failed");
        let text = String::from_utf8(output.stdout).unwrap();
        reports.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    let tally = verify(&world, &first, &reports).await;
    eprintln!("{tally:?} of {}", writers * rounds);
    let lost: std::collections::BTreeSet<&str> =
        reports.iter().filter_map(|line| line["lost"].as_str()).collect();
    eprintln!("the losers said: {lost:?}");
    for kind in lost {
        // In words of the domain: never that something is damaged or denied.
        let known = ["PointerMoved", "PointerNotFlipped", "LockLost", "LockHeld", "Conflict"];
        assert!(known.contains(&kind), "{kind}");
    }
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_processes_on_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let bucket = Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap());
    let tally = race(bucket, WRITERS, rounds(16), &["local", root]).await;
    assert_eq!(tally.unknown, 0);
    assert!(tally.moved > WRITERS, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_tasks_in_memory() {
    let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let world = World::open(Arc::clone(&bucket), None).await;
    world.snapshots(RECORDS).await;
    let first = world.controls("test").pointer().await.unwrap().unwrap().pointer;
    let rounds = rounds(16);
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (bucket, name) = (Arc::clone(&bucket), format!("writer-{writer}"));
            tokio::spawn(async move { move_about(bucket, &name, rounds).await })
        })
        .collect();
    let mut reports = Vec::new();
    for task in tasks {
        reports.extend(task.await.unwrap());
    }
    let tally = verify(&world, &first, &reports).await;
    eprintln!("{tally:?} of {}", WRITERS * rounds);
    assert_eq!(tally.unknown, 0);
    assert!(tally.moved > WRITERS, "{tally:?}");
}

/// On a server whose losers are slow.
#[tokio::test(flavor = "multi_thread")]
async fn processes_on_a_server() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let keys = config.credentials.clone().unwrap();
    let endpoint = config.endpoint.clone().unwrap();
    let prefix = config.prefix.to_string();
    let place = ["s3", &endpoint, &config.bucket, &prefix, &keys.access_key_id, &keys.secret_access_key];
    let bucket = Arc::new(S3Bucket::open(config.clone()).await);
    let tally = race(bucket, WRITERS, rounds(2), &place).await;
    assert!(tally.moved > 0, "{tally:?}");
}
