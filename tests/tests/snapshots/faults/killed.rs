//! These tests kill the program in the middle of each verb.

use std::{
    env, fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use store::bucket::{Access, LocalBucket};
use tests::{
    binary::Host,
    checker::{self, State},
    mount_fixture::{ALICE, MountFixture},
    tree::noise,
};

use crate::faults::fill;

/// Kills a command at some moment of the time it usually takes.
fn kill_during(host: &Host, arguments: &[&str], usual: Duration, seed: u64) {
    let running = host.start(arguments);
    thread::sleep(usual.mul_f64(f64::from(noise(1, seed)[0]) / 220.0));
    running.kill();
}

/// Looks at a store in a directory. Whoever was killed has left nothing that is in the way.
async fn look_at(store: &Path) -> State {
    checker::look(&LocalBucket::open(store, Access::ReadWrite).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_may_be_killed_during_any_verb() {
    let rounds = env::var("PSTORE_KILL_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let fixture = MountFixture::local();
    let (host, source, store) = (&fixture.host, fixture.path("source"), fixture.path("store"));
    let (directory, out) = (source.to_str().unwrap().to_owned(), fixture.path("out").display().to_string());
    let place = fixture.mountpoint.to_str().unwrap();
    let rules = fixture.path("one/.config/pstore");
    fs::create_dir_all(&rules).unwrap();
    fs::write(rules.join("pstore.toml"), "[tenants.acme]\nretention.max_count = 4\n").unwrap();
    fill(&source, 0);
    host.snapshot(&source, ALICE);
    let began = Instant::now();
    fill(&source, 1);
    let first = host.snapshot(&source, ALICE);
    let usual = began.elapsed();
    let sha = first["sha256_prefix"].as_str().unwrap();
    host.succeed(["tag", ALICE, "kept", "--sha", sha]);
    let mut before = look_at(&store).await;
    for round in 0..rounds {
        let snapshot = ["snapshot", &directory, ALICE, "--chrome-major", "131", "--wait", "5"];
        let spare = host.succeed(snapshot)["sha256_prefix"].as_str().unwrap().to_owned();
        fill(&source, 1000 + 2 * round);
        host.succeed(snapshot);
        let mounted = fixture.mount_as(host, &["--wait", "5"]);
        fs::write(fixture.mountpoint.join("in the mount"), noise(200_000, round)).unwrap();
        kill_during(host, &["commit", place], usual, 17 * round);
        fixture.kill(&mounted);
        fixture.mount();
        assert_eq!(fs::read(fixture.mountpoint.join("in the mount")).unwrap(), noise(200_000, round));
        fixture.unmount(&["--commit"]);
        fill(&source, 1001 + 2 * round);
        let verbs: [&[&str]; 10] = [
            &snapshot,
            &["restore", ALICE, &out, "--force"],
            &["tag", ALICE, "another", "--sha", sha],
            &["untag", ALICE, "another", "--sha", sha],
            &["rollback", ALICE, "--sha", sha, "--confirm", "--force"],
            &["lock", "acquire", ALICE, "--chrome-major", "131", "--ttl", "5"],
            &["force-unlock", ALICE, "--reason", "test", "--confirm"],
            &["delete", ALICE, "--sha", &spare],
            &["retention", "apply"],
            &["gc", "acme", "--grace", "0"],
        ];
        for (at, verb) in verbs.iter().enumerate() {
            kill_during(host, verb, usual, 31 * round + at as u64);
            let after = look_at(&store).await;
            eprintln!("round {round}: {verb:?}");
            after.must_be_whole();
            after.must_follow(&before);
            before = after;
        }
        host.run(["force-unlock", ALICE, "--reason", "test", "--confirm"]);
        host.succeed(["reap", "acme", "--grace", "0"]);
        host.verify(ALICE, &["--read-data", "--no-cache"]);
        host.succeed(["show", ALICE, "--sha", sha]);
    }
    fill(&source, 9);
    host.succeed(["snapshot", &directory, ALICE, "--chrome-major", "131", "--wait", "5"]);
    look_at(&store).await.must_be_whole();
}
