//! These tests run the program behind a bad network: whatever becomes of its requests, every command ends well or
//! says what is open, nothing that was stored is lost, and the store stays whole.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use store::bucket::S3Config;
use tests::{
    binary::Host,
    mount_fixture::{ALICE, MountFixture},
    proxy::{FaultPlan, FaultyProxy, NetworkFault},
    server::SeaweedFs,
    tree::{assert_same, look_at, noise},
};

/// How often a command may be run again before it must have succeeded.
const ATTEMPTS: usize = 8;

/// What a command may end with when answers are lost: no definite answer, or stored and the
/// pointer not moved or not known to be; held by oneself, when taking it was not answered.
const OPEN: [i32; 6] = [14, 20, 21, 24, 25, 28];

fn fill(root: &Path, generation: u64) {
    fs::create_dir_all(root.join("Default")).unwrap();
    fs::write(root.join("Default/History"), noise(900_000, generation)).unwrap();
    fs::write(root.join("Default/Cookies"), noise(200_000, 99)).unwrap();
    fs::write(root.join("generation"), generation.to_string()).unwrap();
}

/// Runs a command until it succeeds, which must be soon.
#[track_caller]
fn insist(host: &Host, arguments: &[&str]) -> Value {
    for _ in 0..ATTEMPTS {
        let ended = host.run(arguments);
        match ended.code {
            Some(0) => return ended.document,
            Some(code) => assert!(OPEN.contains(&code), "{arguments:?}: {ended:#?}"),
            None => panic!("{arguments:?}: {ended:#?}"),
        }
    }
    panic!("{arguments:?} does not succeed");
}

/// All that touches the bucket, behind a network on which this goes wrong.
fn survives(config: &S3Config, plan: FaultPlan) -> (u64, u64) {
    let proxy = FaultyProxy::before(config, FaultPlan::none());
    let fixture = MountFixture::s3(&proxy.through(config));
    let calm = fixture.another("calm");
    let source = fixture.path("source");
    fill(&source, 0);
    calm.snapshot(&source, ALICE);
    let host = fixture.host.clone().with("PSTORE_RETRY_SECONDS", "5");
    let directory = source.to_str().unwrap();

    proxy.set(plan.clone());
    let mut kept = look_at(&source);
    for generation in 1..=2 {
        fill(&source, generation);
        insist(&host, &["snapshot", directory, ALICE, "--chrome-major", "131", "--wait", "10"]);
        kept = look_at(&source);
    }
    let restored = fixture.path("restored");
    insist(&host, &["restore", ALICE, restored.to_str().unwrap(), "--force"]);
    assert_same(&source, &restored);
    let acquire = ["lock", "acquire", ALICE, "--chrome-major", "131", "--ttl", "5", "--wait", "10"];
    let held = insist(&host, &acquire);
    let token = held["token"].as_str().unwrap();
    insist(&host, &["lock", "release", ALICE, "--chrome-major", "131", "--token", token]);

    let place = fixture.mountpoint.to_str().unwrap();
    insist(&host, &["mount", ALICE, place, "--chrome-major", "131", "--wait", "10"]);
    assert_eq!(look_at(&fixture.mountpoint), kept);
    fill(&fixture.mountpoint, 3);
    insist(&host, &["commit", place]);
    fill(&fixture.mountpoint, 4);
    kept = look_at(&fixture.mountpoint);
    insist(&host, &["unmount", place, "--commit"]);
    insist(&host, &["gc", "acme", "--grace", "0"]);
    insist(&host, &["verify", ALICE]);

    proxy.set(FaultPlan::none());
    calm.verify(ALICE, &["--read-data", "--no-cache"]);
    let last = fixture.path("last");
    calm.restore(ALICE, &last);
    assert_eq!(look_at(&last), kept);
    // Nothing is in the way of whoever comes next.
    fill(&source, 5);
    insist(&calm, &["snapshot", directory, ALICE, "--chrome-major", "131", "--wait", "30"]);
    (proxy.requests(), proxy.faults())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_goes_wrong_on_the_way_nothing_is_lost() {
    let server = SeaweedFs::shared().await;
    thread::scope(|scope| {
        let courses = NetworkFault::ALL.map(|(name, fault)| {
            let (config, plan) = (server.config(), FaultPlan { seed: 1, ..FaultPlan::none() }.with(fault, 4));
            let course = move || survives(&config, plan);
            thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, course).unwrap()
        });
        for course in courses {
            let name = course.thread().name().unwrap().to_owned();
            let (requests, faults) = course.join().unwrap_or_else(|_| panic!("{name}"));
            println!("{name}: {faults} of {requests} requests");
            assert!(faults >= 10, "{name}: only {faults} of {requests} requests");
        }
    });
}

/// Everything at once, on a link that is slow and far away.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_bad_in_every_way_is_only_slow() {
    let server = SeaweedFs::shared().await;
    let link = FaultPlan { delay: Duration::from_millis(10), bytes_per_second: 4 << 20, ..FaultPlan::none() };
    let plan = NetworkFault::ALL.iter().fold(link, |plan, (_, fault)| plan.with(*fault, 60));
    let (requests, faults) = survives(&server.config(), plan);
    assert!(faults >= 10, "only {faults} of {requests} requests");
}

/// Killed in the middle of writes and started again with what it had.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_comes_back_is_only_a_delay() {
    let mut server = SeaweedFs::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("source"), folder.path().join("out"));
    let host = Host::s3(&folder.path().join("home"), &server.config());
    fill(&source, 0);
    host.snapshot(&source, ALICE);
    for generation in 1..=4 {
        for file in 0..20 {
            fs::write(source.join(format!("{file}")), noise(1_000_000, 100 * generation + file)).unwrap();
        }
        let running = host.start(tests::binary::snapshot(&source, ALICE));
        thread::sleep(Duration::from_millis(150 * generation));
        server.stop();
        server.start_again().await;
        let ended = running.wait();
        assert_eq!((ended.code, &ended.document["pointer"]), (Some(0), &"flipped".into()), "{ended:#?}");
        host.verify(ALICE, &["--read-data", "--no-cache"]);
        host.restore(ALICE, &out);
        assert_same(&source, &out);
        fs::remove_dir_all(&out).unwrap();
    }
}

/// A reader whose bytes do not come ends when it is told to, long before it would be told that they do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_hangs_in_a_mount_ends_when_it_is_told_to() {
    const SOON: Duration = Duration::from_secs(20);
    let server = SeaweedFs::shared().await;
    let proxy = FaultyProxy::before(&server.config(), FaultPlan::none());
    let fixture = MountFixture::s3(&proxy.through(&server.config()));
    let source = fixture.path("source");
    fs::create_dir(&source).unwrap();
    for file in ["one", "two"] {
        fs::write(source.join(file), noise(3_000_000, file.len() as u64)).unwrap();
    }
    fixture.another("writer").snapshot(&source, ALICE);
    fixture.mount();
    proxy.set(FaultPlan { delay: Duration::from_secs(50), ..FaultPlan::none() });
    // One waits for the page cache, the other for the answer itself.
    let script = "case $0 in one) exec cat one;; *) exec dd if=two iflag=direct bs=1M;; esac";
    for (file, signal) in [("one", Signal::INT), ("two", Signal::TERM)] {
        let before = proxy.requests();
        let mut reader = Command::new("sh");
        reader.args(["-c", script, file]).current_dir(&fixture.mountpoint);
        let mut reader = reader.stdout(Stdio::null()).spawn().unwrap();
        while proxy.requests() == before {
            thread::sleep(Duration::from_millis(10));
        }
        let told = Instant::now();
        kill_process(Pid::from_child(&reader), signal).unwrap();
        let status = loop {
            match reader.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(told.elapsed() < SOON, "it does not end"),
            }
            thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.signal(), Some(signal.as_raw()));
        println!("{signal:?} took {:?}", told.elapsed());
    }
    proxy.set(FaultPlan::none());
    fixture.unmount(&["--discard"]);
}
