//! These tests put objects larger than any reader could hold where small documents belong.

use std::{fs, fs::File, path::Path, sync::Arc};

use store::{
    bucket::{Bucket, BucketError, S3Bucket, Write},
    format::{layout, limits},
};
use tests::{binary::Host, server::SeaweedFs};

use super::{ACME, GLOBEX, Neighbours, fill};

const HUGE: u64 = 20 << 30;
/// Of address space: enough for every command, and far from enough for the object.
pub(super) const MEMORY: u64 = 4 << 30;
const ULID: &str = "01J00000000000000000000000";

/// Takes up no room on the disk.
pub(super) fn swell(path: &Path) {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().set_len(HUGE).unwrap();
}

#[test]
fn an_object_of_20_gb_costs_its_readers_no_memory() {
    let record = |neighbours: &Neighbours| {
        let path = neighbours.record("acme/alice/131");
        path.strip_prefix(neighbours.path("store/objects")).unwrap().to_str().unwrap().to_owned()
    };
    let named = |key: &str| {
        let key = key.to_owned();
        move |_: &Neighbours| key.clone()
    };
    type Name = Box<dyn Fn(&Neighbours) -> String>;
    let lineage = "snapshots/acme/alice/131";
    let cases: [(Name, u64, &[&str]); 7] = [
        (
            Box::new(named("content/acme/tenant.json")),
            limits::CONFIG,
            &[
                "list acme",
                "stats acme",
                "gc acme",
                "reap acme",
                "retention plan acme",
                "verify acme/alice",
                "restore acme/alice OUT",
            ],
        ),
        (Box::new(record), limits::RECORD, &["gc acme", "verify acme/alice", "restore acme/alice OUT"]),
        (
            Box::new(named(&format!("{lineage}/latest.json"))),
            limits::POINTER,
            &["restore acme/alice OUT", "gc acme"],
        ),
        (
            Box::new(named(&format!("{lineage}/lock.json"))),
            limits::LOCK,
            &["lock show acme/alice", "snapshot SOURCE acme/alice"],
        ),
        (Box::new(named(&format!("content/acme/pins/{ULID}"))), limits::PIN, &["gc acme"]),
        (
            Box::new(named(&format!("content/acme/condemned/{ULID}"))),
            limits::CONDEMNED,
            &["gc acme", "snapshot SOURCE acme/alice"],
        ),
        (Box::new(named(&format!("content/acme/index/{ULID}"))), limits::INDEX, &["verify acme/alice"]),
    ];
    for (object, limit, commands) in cases {
        let neighbours = Neighbours::new();
        let key = object(&neighbours);
        swell(&neighbours.path("store/objects").join(&key));
        fs::write(neighbours.source.join("Default/new"), tests::tree::noise(200_000, 3)).unwrap();
        let host = neighbours.host.clone().within_memory(MEMORY);
        let (out, source) = (neighbours.path("out"), neighbours.source.clone());
        for command in commands {
            let words = command.split(' ').map(|word| match word {
                "OUT" => out.to_str().unwrap(),
                "SOURCE" => source.to_str().unwrap(),
                word => word,
            });
            let ended = host.run(words);
            assert_eq!(ended.code, Some(10), "{key}: {command}: {ended:#?}");
            let told = format!("{}{}", ended.document, ended.stderr);
            assert!(told.contains(&key) && told.contains(&limit.to_string()), "{command}: {ended:#?}");
        }
        host.verify(GLOBEX, &["--read-data"]);
        host.snapshot(&source, GLOBEX);
    }
}

/// What is only a hint, or only told, keeps nobody from anything.
#[test]
fn hints_and_events_that_are_too_large_are_passed_over() {
    let neighbours = Neighbours::new();
    let host = neighbours.host.clone().within_memory(MEMORY);
    let objects = neighbours.path("store/objects");
    let event = format!("snapshots/acme/alice/131/events/{ULID}.json");
    swell(&objects.join(format!("content/acme/index/{ULID}")));
    swell(&objects.join(&event));
    fs::write(neighbours.source.join("Default/new"), tests::tree::noise(200_000, 3)).unwrap();
    host.snapshot(&neighbours.source, ACME);
    host.restore(ACME, &neighbours.path("out"));
    let ended = host.run(["log", ACME]);
    assert!(ended.code.is_some(), "{ended:#?}");
    assert!(format!("{}{}", ended.document, ended.stderr).contains(&event), "{ended:#?}");
    host.succeed(["gc", "acme"]);
}

/// The server says how long it is before it sends any of it, and whoever knows better puts something
/// sound in its place.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_on_a_server_is_named_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    let server = SeaweedFs::start().await;
    let config = server.config();
    let host = Host::s3(&dir.path().join("home"), &config);
    host.snapshot(&source, ACME);
    host.snapshot(&source, GLOBEX);
    fs::write(source.join("new"), "new").unwrap();
    let bucket: Arc<dyn Bucket> = Arc::new(S3Bucket::open(config).await);
    let lineage: store::name::Lineage =
        store::name::Lineage { name: ACME.parse().unwrap(), chrome_major: "131".parse().unwrap() };
    let swell = async |key: &store::bucket::Key| {
        bucket.delete(key).await.unwrap();
        bucket.put(key, vec![b' '; 40 << 20].into(), Write::Create).await.unwrap();
    };

    let pointer = layout::latest(&lineage);
    swell(&pointer).await;
    match bucket.get(&pointer, limits::POINTER).await {
        Err(BucketError::TooLarge { bytes, .. }) => assert_eq!(bytes, 40 << 20),
        answer => panic!("{:?}", answer.map(drop)),
    }
    let error = host.fail(10, ["restore", ACME, dir.path().join("out").to_str().unwrap()]);
    assert!(error["message"].as_str().unwrap().contains(pointer.as_str()), "{error}");
    let listed = host.succeed(["list", ACME]);
    let prefix = listed["snapshots"][0]["sha256_prefix"].as_str().unwrap().to_owned();
    host.succeed(["rollback", ACME, "--sha", &prefix, "--force", "--confirm"]);
    host.restore(ACME, &dir.path().join("out"));

    let lock = layout::lock(&lineage);
    swell(&lock).await;
    host.fail(10, ["lock", "show", ACME]);
    host.succeed(["force-unlock", ACME, "--reason", "too large", "--confirm"]);
    host.snapshot(&source, ACME);

    let listed = host.succeed(["list", ACME]);
    let record = listed["snapshots"].as_array().unwrap().iter().find(|snapshot| snapshot["current"] != true);
    let record = record.unwrap()["record"].as_str().unwrap().to_owned();
    swell(&layout::record(&lineage, record.parse().unwrap())).await;
    host.fail(10, ["gc", "acme"]);
    host.succeed([
        "delete",
        ACME,
        "--chrome-major",
        "131",
        "--sha",
        &record,
        "--damaged",
        "--confirm",
        "--reason",
        "too large",
    ]);
    host.succeed(["gc", "acme"]);

    swell(&layout::tenant_config(&lineage.name.tenant)).await;
    let error = host.fail(10, ["stats", "acme"]);
    assert!(error["message"].as_str().unwrap().contains("content/acme/tenant.json"), "{error}");
    host.verify(GLOBEX, &["--read-data"]);
}
