//! These tests have runs wait for one profile: on one host and on two, each gets its turn and no work is lost.
//!
//! `PSTORE_WAITING_RUNS` says how many runs there are; eight are under way at a time.

use std::{
    collections::BTreeSet,
    env, fs, slice,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use tests::{
    binary::Host,
    mount_fixture::{ALICE, MountFixture},
    server::SeaweedFs,
};

/// How many runs wait at a time.
const WAITERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn eight_waiters_on_one_host_all_get_their_turn() {
    let fixture = MountFixture::s3(&SeaweedFs::shared().await.config());
    take_turns(&fixture, slice::from_ref(&fixture.host));
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_waiters_on_two_hosts_all_get_their_turn() {
    let fixture = MountFixture::s3(&SeaweedFs::shared().await.config());
    take_turns(&fixture, &[fixture.host.clone(), fixture.another("two")]);
}

/// Each run adds a line to one file. The profile has every line at the end, once.
fn take_turns(fixture: &MountFixture, hosts: &[Host]) {
    let runs = env::var("PSTORE_WAITING_RUNS").map_or(WAITERS, |text| text.parse().unwrap());
    let tmp = fixture.place("tmp");
    let begun = AtomicUsize::new(0);
    thread::scope(|scope| {
        for waiter in 0..WAITERS {
            let host = hosts[waiter % hosts.len()].clone().with("TMPDIR", tmp.to_str().unwrap());
            let begun = &begun;
            scope.spawn(move || {
                loop {
                    let number = begun.fetch_add(1, Ordering::SeqCst);
                    if number >= runs {
                        return;
                    }
                    let script = format!("echo {number} >> $0/file");
                    let command = ["--", "sh", "-c", &script, "{profile}"];
                    let run = ["run", ALICE, "--chrome-major", "131", "--wait", "1800"];
                    let ended = host.run([&run[..], &command].concat());
                    let failed = &ended.document["snapshot_failed"];
                    assert_eq!((ended.code, failed), (Some(0), &false.into()), "run {number}: {ended:#?}");
                }
            });
        }
    });
    let out = fixture.path("out");
    fixture.host.restore(ALICE, &out);
    let text = fs::read_to_string(out.join("file")).unwrap();
    let lines: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!((lines.len(), lines.into_iter().collect()), (runs, (0..runs).collect::<BTreeSet<_>>()));
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0, "a run left its directory behind");
}
