//! These tests run several programs at once on one store, which they also have to make: each one succeeds or says
//! what is left to do, and every flip is built on the one before.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use store::{
    bucket::{Access, Bucket, Key, LocalBucket, S3Bucket},
    catalog::pointer::Move,
};
use tests::{
    binary::{self, Host},
    server::SeaweedFs,
    store_fixture::StoreFixture,
    tree::{assert_same, look_at},
};

use super::writers::fill;

const WRITERS: u64 = 6;
const SHARED: &str = "acme/alice";

struct Writer {
    host: Host,
    source: PathBuf,
    profile: String,
}

/// The moves of a profile's pointer that were told of: from what to what.
#[derive(Default)]
struct Flips(BTreeMap<String, String>);

impl Flips {
    fn told(&mut self, document: &Value) {
        assert_eq!(document["pointer"], "flipped", "{document:#}");
        let text = |field: &str| document[field].as_str().unwrap().to_owned();
        let (from, to) = (text("flipped_from_sha256_prefix"), text("active_sha256_prefix"));
        let other = self.0.insert(from.clone(), to.clone());
        assert_eq!(other, None, "two flips from {from:?}: the other one is lost");
    }

    /// Follows them from nothing to `active`. None may be left over.
    fn lead_to(&self, active: &str) {
        let mut at = "";
        let mut steps = 0;
        while let Some(next) = self.0.get(at) {
            at = next;
            steps += 1;
            assert!(steps <= self.0.len(), "they go round in circles: {:?}", self.0);
        }
        assert_eq!((at, steps), (active, self.0.len()), "{:?}", self.0);
    }
}

/// Checks what the round has left of one profile.
async fn examine(
    bucket: &dyn Bucket,
    reader: &Host,
    profile: &str,
    writers: &[&Writer],
    flips: &Flips,
    out: &Path,
) {
    reader.verify(profile, &[]);
    let list = reader.succeed(["list", profile]);
    let key = Key::new(format!("snapshots/{profile}/131/latest.json")).unwrap();
    let pointer: Value = serde_json::from_slice(&bucket.get(&key, u64::MAX).await.unwrap().bytes).unwrap();
    let active = pointer["active_sha256_prefix"].as_str().unwrap();
    assert_eq!(list["active_sha256_prefix"], active);
    let known: Vec<&Value> =
        list["snapshots"].as_array().unwrap().iter().map(|snapshot| &snapshot["sha256_prefix"]).collect();
    let from = &pointer["flipped_from_sha256_prefix"];
    assert!(from == "" || known.contains(&from), "it was flipped from {from}, which is none of {known:?}");
    flips.lead_to(active);

    reader.restore(profile, out);
    let restored = look_at(out);
    let whose = writers.iter().find(|writer| look_at(&writer.source) == restored);
    assert!(whose.is_some(), "{profile} is no writer's directory");
    fs::remove_dir_all(out).unwrap();
}

async fn all_end_well(bucket: Arc<dyn Bucket>, host: impl Fn(&Path) -> Host, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let writers: Vec<Writer> = (0..WRITERS)
        .map(|writer| Writer {
            host: host(&dir.path().join(format!("home{writer}"))),
            source: dir.path().join(format!("source{writer}")),
            // Most write to one profile, the others each to their own.
            profile: if writer % 3 == 2 { format!("acme/own{writer}") } else { SHARED.to_owned() },
        })
        .collect();
    let reader = host(&dir.path().join("reader"));
    let mut profiles: BTreeMap<&str, Vec<&Writer>> = BTreeMap::new();
    for writer in &writers {
        profiles.entry(&writer.profile).or_default().push(writer);
    }
    let mut flips: BTreeMap<&str, Flips> = BTreeMap::new();
    let mut outrun = 0;
    for round in 0..rounds {
        for (number, writer) in (0..).zip(&writers) {
            fill(&writer.source, number, round);
        }
        let start = |writer: &Writer| writer.host.start(binary::snapshot(&writer.source, &writer.profile));
        let running: Vec<_> = writers.iter().map(start).collect();
        let ended: Vec<_> = running.into_iter().map(|running| running.wait()).collect();
        for (writer, ended) in writers.iter().zip(ended) {
            let Writer { host, source, profile } = writer;
            let flips = flips.entry(profile).or_default();
            if ended.code == Some(0) {
                assert_eq!(ended.document["outcome"], "stored", "{ended:#?}");
                flips.told(&ended.document);
                continue;
            }
            // Somebody else held the lock; it says who, and waiting helps.
            outrun += 1;
            let error = &ended.document["error"];
            assert_eq!((ended.code, &error["kind"]), (Some(24), &"lock_held".into()), "{ended:#?}");
            assert!(error["holder_run_id"].as_str().unwrap().starts_with("pstore-"), "{error:#}");
            assert!(error["hint"].as_str().unwrap().contains("--wait"), "{error:#}");
            let waiting =
                [&binary::snapshot(source, profile)[..], &["--wait".as_ref(), "60".as_ref()]].concat();
            flips.told(&host.succeed(waiting));
        }
        for (profile, writers) in &profiles {
            examine(&*bucket, &reader, profile, writers, &flips[profile], &dir.path().join("out")).await;
        }
    }
    println!("{outrun} of {} were outrun", rounds * WRITERS);
    for (profile, writers) in profiles {
        reader.verify(profile, &["--read-data"]);
        let count = reader.succeed(["list", profile])["snapshots"].as_array().unwrap().len();
        assert_eq!(count as u64, rounds * writers.len() as u64, "every snapshot of {profile} is there");
    }
    // What a writer's cache remembers of all this is right as well.
    let last = &writers[0];
    last.host.snapshot(&last.source, SHARED);
    let out = dir.path().join("out");
    reader.restore(SHARED, &out);
    assert_same(&last.source, &out);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_directory() {
    let store = tempfile::tempdir().unwrap();
    let bucket = LocalBucket::open(store.path(), Access::Create).unwrap();
    all_end_well(Arc::new(bucket), |home| Host::local(home, store.path()), 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_bucket() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let bucket = S3Bucket::open(config.clone()).await;
    // Made ahead: a server that all of them would try out at once, with races of its own, is
    // slow enough on a small machine to break its own promises.
    let home = tempfile::tempdir().unwrap();
    Host::s3(home.path(), &config).succeed(["init"]);
    all_end_well(Arc::new(bucket), |home| Host::s3(home, &config), 2).await;
}

/// The command that a hint puts between backticks.
fn named(error: &Value) -> Vec<String> {
    let hint = error["hint"].as_str().unwrap();
    let command = hint.split('`').nth(1).unwrap().strip_prefix("pstore ").unwrap();
    command.split(' ').map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn outrun_by_others_it_names_the_command_that_helps() {
    let dir = tempfile::tempdir().unwrap();
    let (place, source, out) = (dir.path().join("store"), dir.path().join("source"), dir.path().join("out"));
    let host = Host::local(&dir.path().join("home"), &place);
    fill(&source, 0, 0);
    host.snapshot(&source, SHARED);
    let fixture =
        StoreFixture::open(Arc::new(LocalBucket::open(&place, Access::ReadWrite).unwrap()), None).await;
    let first = fixture.current().await.unwrap();
    fill(&source, 0, 1);
    host.snapshot(&source, SHARED);
    let second = fixture.current().await.unwrap();

    let handle = fixture.handle("restless");
    let restless = tokio::spawn(async move {
        loop {
            for record in [&first, &second] {
                // It may be outrun in turn.
                let wanted =
                    Move { target: record.record, reason: String::new(), force: true, only_from: None };
                handle.point(&wanted).await.ok();
            }
        }
    });
    // Now and then one gets through.
    let outrun = (2..40).find_map(|round| {
        fill(&source, 0, round);
        let ended = host.run(binary::snapshot(&source, SHARED));
        assert!(matches!(ended.code, Some(0 | 26)), "{ended:#?}");
        (ended.code == Some(26)).then_some(ended)
    });
    restless.abort();
    restless.await.unwrap_err();
    let error = &outrun.expect("some are outrun").document["error"];
    assert_eq!(error["kind"], "pointer_moved");
    host.verify(SHARED, &["--read-data"]);

    let again = host.succeed(named(error));
    assert_eq!(again["outcome"], "rolled_back", "{again:#}");
    host.restore(SHARED, &out);
    assert_same(&source, &out);
}
