//! `chain` has many writers move one pointer, and tells whether their moves form one chain.
//!
//! Every pointer remembers the writes before it. The writers' views of that, put
//! together, tell the order of all writes, in spite of any clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use store::{
    Error,
    bucket::{Bucket, S3Config},
    catalog::{
        events,
        lock::Terms,
        pointer::{Flip, Move},
        records,
    },
    format::{event::EventKind, pointer::Pointer},
    id::RecordId,
};

use crate::store_fixture::StoreFixture;

/// Longer than all others together need.
const WAIT: Duration = Duration::from_secs(300);
const TERMS: Terms = Terms { ttl: Duration::from_secs(300), with_process: false };

/// Moves the pointer so many times, in turn as a holder of the lock and as an operator.
/// Returns the moves as lines of JSON.
pub async fn move_about(bucket: Arc<dyn Bucket>, name: &str, rounds: usize) -> Vec<Value> {
    let fixture = StoreFixture::open(bucket, None).await;
    let records = records::live(&fixture.store, &fixture.lineage).await.unwrap();
    let records: Vec<RecordId> = records.into_iter().map(|record| record.record).collect();
    let mut lines = Vec::new();
    for round in 0..rounds {
        let answer = if round % 2 == 0 {
            with_lock(&fixture, name, &records, &mut lines).await
        } else {
            let target = any(&records, None);
            fixture
                .handle(name)
                .point(&Move { target, reason: "chain".to_owned(), force: true, only_from: None })
                .await
        };
        lines.push(match answer {
            Ok(Flip::Flipped { flip_id, .. }) => json!({ "moved": flip_id }),
            Ok(Flip::Unchanged) => json!({ "unchanged": true }),
            Err(error @ Error::PointerUnknown { .. }) => json!({ "unknown": error.to_string() }),
            Err(error) => json!({ "lost": format!("{:?}", error.kind()), "said": error.to_string() }),
        });
        lines.extend(fixture.handle(name).pointer().await.unwrap().map(|read| seen(&read.pointer)));
    }
    lines
}

async fn with_lock(
    fixture: &StoreFixture,
    name: &str,
    records: &[RecordId],
    lines: &mut Vec<Value>,
) -> store::Result<Flip> {
    let hold = fixture.handle(name).acquire(TERMS, WAIT).await?;
    lines.push(seen(&hold.pointer().await));
    // Some are slow, and lose to an operator.
    tokio::time::sleep(Duration::from_millis(u64::from(getrandom::u32().unwrap() % 30))).await;
    let answer = hold.flip(any(records, hold.base().await)).await;
    hold.release().await?;
    answer
}

fn any(records: &[RecordId], but: Option<RecordId>) -> RecordId {
    let others: Vec<RecordId> = records.iter().copied().filter(|record| Some(*record) != but).collect();
    others[getrandom::u32().unwrap() as usize % others.len()]
}

fn seen(pointer: &Pointer) -> Value {
    let block = pointer.block().unwrap();
    let ids: Vec<String> = block.recent.iter().chain([&block.flip_id]).map(ToString::to_string).collect();
    json!({ "seen": ids })
}

/// How often each writer moves the pointer: `PSTORE_CHAIN_ROUNDS`, or this often.
pub fn rounds(otherwise: usize) -> usize {
    env::var("PSTORE_CHAIN_ROUNDS").ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// Where the processes find a store.
pub fn on_directory(root: &Path) -> [String; 2] {
    ["local".to_owned(), root.to_str().unwrap().to_owned()]
}

pub fn on_server(config: &S3Config) -> [String; 6] {
    let keys = config.credentials.clone().unwrap();
    let (endpoint, prefix) = (config.endpoint.clone().unwrap(), config.prefix.to_string());
    ["s3".to_owned(), endpoint, config.bucket.clone(), prefix, keys.access_key_id, keys.secret_access_key]
}

/// Starts the processes (`pointer-flipper`), waits for them, and compares.
pub async fn race(
    program: &str,
    bucket: Arc<dyn Bucket>,
    writers: usize,
    rounds: usize,
    place: &[String],
) -> Tally {
    let fixture = StoreFixture::open(bucket, None).await;
    fixture.snapshots(5).await;
    let first = fixture.handle("test").pointer().await.unwrap().unwrap().pointer;
    let start = |number: usize| -> Child {
        let mut command = Command::new(program);
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
    let tally = verify(&fixture, &first, &reports).await;
    eprintln!("{tally:?} of {}", writers * rounds);
    let lost: BTreeSet<&str> = reports.iter().filter_map(|line| line["lost"].as_str()).collect();
    eprintln!("the losers said: {lost:?}");
    for kind in lost {
        // In words of the domain: never that something is damaged or denied.
        let known = ["PointerMoved", "PointerNotFlipped", "LockLost", "LockHeld", "Conflict"];
        assert!(known.contains(&kind), "{kind}");
    }
    tally
}

/// How it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub moved: usize,
    pub lost: usize,
    pub unknown: usize,
}

/// Makes sure that the reports, the log and the pointer agree, and
/// that the moves are one chain that begins at the pointer `first`.
pub async fn verify(fixture: &StoreFixture, first: &Pointer, reports: &[Value]) -> Tally {
    let of = |name: &str| reports.iter().filter(|line| !line[name].is_null()).count();
    let tally = Tally { moved: of("moved"), lost: of("lost"), unknown: of("unknown") };
    let last = fixture.handle("reader").pointer().await.unwrap().unwrap().pointer;

    let mut before: BTreeMap<String, String> = BTreeMap::new();
    let mut after: BTreeMap<String, String> = BTreeMap::new();
    let mut lists: Vec<Value> = reports.iter().map(|line| line["seen"].clone()).collect();
    lists.push(seen(&last)["seen"].clone());
    for list in lists.iter().filter_map(Value::as_array) {
        for pair in list.windows(2) {
            let [one, two] = [&pair[0], &pair[1]].map(|id| id.as_str().unwrap().to_owned());
            for (map, key, value) in [(&mut before, &two, &one), (&mut after, &one, &two)] {
                let known = map.entry(key.clone()).or_insert_with(|| value.clone());
                assert_eq!(known, value, "the chain forks at {key}");
            }
        }
    }

    let log = events::log(&fixture.store, &fixture.lineage, None).await.unwrap();
    let log: Vec<_> = log.into_iter().map(Result::unwrap).collect();
    let moves: BTreeMap<String, _> =
        log.iter().filter_map(|event| Some((event.flip_id?.to_string(), event))).collect();
    assert!(log.iter().all(|event| !matches!(event.kind, EventKind::ForeignFlip | EventKind::ForeignFork)));

    let start = first.block().unwrap().flip_id.to_string();
    let mut order = vec![last.block().unwrap().flip_id.to_string()];
    while order.last() != Some(&start) {
        let id = order.last().unwrap();
        order.push(before.get(id).unwrap_or_else(|| panic!("nobody saw what was before {id}")).clone());
    }
    order.pop();
    order.reverse();

    let mut at = first.active_sha256_prefix.clone();
    let mut in_chain = BTreeSet::new();
    for id in order {
        let Some(event) = moves.get(&id) else { continue };
        assert_eq!(event.from_sha256_prefix.as_ref(), Some(&at), "{event:?} does not follow the move before");
        at = event.to_sha256_prefix.clone().unwrap();
        in_chain.insert(id);
    }
    assert_eq!(last.active_sha256_prefix, at);
    let moved: BTreeSet<String> =
        reports.iter().filter_map(|line| Some(line["moved"].as_str()?.to_owned())).collect();
    assert_eq!(moved.len(), tally.moved, "a move was reported twice");
    assert!(moved.is_subset(&in_chain), "a move was reported and is lost");
    let unreported = in_chain.difference(&moved).count();
    assert!(unreported <= tally.unknown, "{unreported} moves were made that nobody reported");
    tally
}
