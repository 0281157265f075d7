//! These tests forge trees, records, pointers, pins and condemned documents by lot, and run every reader of them:
//! nothing outside of the target is touched, memory and time are bounded, and nothing panics.
//!
//! `PSTORE_FORGE_SECONDS` is how long it goes on, `PSTORE_FORGE_SEED` where it begins. A failure
//! prints the seed of the round: with that one and 0 seconds it is the first and only one.

use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use tests::{
    binary::{Ended, Host, Limits},
    forge::{Forge, bend::bend},
    mount_fixture::{ALICE, MountFixture},
    tree::look_at,
};

const LIMITS: Limits = Limits { data_bytes: 512 << 20, cpu_seconds: 10 };
/// A defect of the program.
const INTERNAL: i32 = 1;

struct ForgeryScenario {
    fixture: MountFixture,
    host: Host,
}

impl ForgeryScenario {
    fn new() -> Self {
        let fixture = MountFixture::local();
        let (source, outside) = (fixture.path("source"), fixture.path("outside"));
        super::fill(&source);
        fs::write(source.join("Local State"), "{}").unwrap();
        fs::write(source.join("Default/Preferences"), r#"{"profile":{"exit_type":"Crashed"}}"#).unwrap();
        fs::create_dir(&outside).unwrap();
        for name in ["file", "Preferences"] {
            fs::write(outside.join(name), r#"{"profile":{"exit_type":"Crashed"}}"#).unwrap();
        }
        for profile in [ALICE, "globex/bob"] {
            fixture.host.snapshot(&source, profile);
        }
        copy(&fixture.path("store"), &fixture.path("honest"));
        let host = fixture.another("reader").within(LIMITS).with("PSTORE_MAX_PROFILE_BYTES", "64MiB");
        Self { fixture, host }
    }

    fn round(&self, seed: u64) {
        let (store, outside, out) =
            (self.fixture.path("store"), self.fixture.path("outside"), self.fixture.path("out"));
        fs::remove_dir_all(&store).unwrap();
        copy(&self.fixture.path("honest"), &store);
        let mut forge = Forge::of(&store, "acme/alice/131");
        let told = bend(&mut forge, outside.to_str().unwrap(), seed);
        let round = format!("PSTORE_FORGE_SEED={seed}: {told}");
        let globex = |store: &Path| {
            ["content/globex", "snapshots/globex"].map(|below| look_at(&store.join("objects").join(below)))
        };
        let (before, neighbour) = (look_at(&outside), globex(&store));
        let (at, archives) = (out.to_str().unwrap(), self.fixture.path("archives"));
        let mountpoint = self.fixture.mountpoint.to_str().unwrap();
        let load = ["restore", ALICE, at, "--chrome-major", "131", "--normalise-exit"];
        for command in [
            &["restore", ALICE, at][..],
            &load,
            &["mount", ALICE, mountpoint, "--chrome-major", "131", "--normalise-exit", "--no-cache"],
            &["export", ALICE, "-o", archives.to_str().unwrap()],
            &["verify", ALICE, "--no-cache"],
            &["gc", "acme", "--grace", "0"],
        ] {
            let ended = self.run(command, &round);
            let problem = format!("{round}\n{command:?}: {ended:#?}");
            assert_ne!(ended.code, Some(INTERNAL), "{problem}");
            assert!(!ended.stderr.contains("panicked"), "{problem}");
            if ended.code == Some(0) && command[0] == "mount" {
                assert_plain(&self.fixture.mountpoint, &problem);
                self.run(&["unmount", mountpoint, "--discard"], &round);
            }
            assert!(!self.fixture.is_mounted(&self.fixture.mountpoint), "it is still mounted: {problem}");
            if out.exists() {
                assert_plain(&out, &problem);
                store::tree::remove::remove_all(&out).unwrap();
            }
            let _ = fs::remove_dir_all(&archives);
            assert_eq!(look_at(&outside), before, "something outside was touched: {problem}");
        }
        assert_eq!(globex(&store), neighbour, "another tenant was touched: {round}");
    }

    fn run(&self, command: &[&str], round: &str) -> Ended {
        // Shown if it crashes, which nothing here sees.
        println!("{round}\n{command:?}");
        self.host.run(command)
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// Nothing that lends rights is there, at whatever depth.
fn assert_plain(root: &Path, problem: &str) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        // The deepest levels have longer paths than can be asked for.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            assert!(meta.mode() & 0o6000 == 0, "{}: {problem}", entry.path().display());
            if meta.is_dir() && !meta.is_symlink() {
                folders.push(entry.path());
            }
        }
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn whatever_is_forged_harms_its_own_tenant_alone() {
    let (began, scenario) = (Instant::now(), ForgeryScenario::new());
    let lasting = Duration::from_secs(number("PSTORE_FORGE_SECONDS", 20));
    for seed in number("PSTORE_FORGE_SEED", 1).. {
        scenario.round(seed);
        if began.elapsed() >= lasting {
            break;
        }
    }
}
