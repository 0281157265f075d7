//! These tests let pstore and a program that knows only the contract take turns on one profile, on a real server:
//! the same lock, the same pointer, and each goes on from what the other has left.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use store::bucket::S3Config;
use tests::{
    binary::Host,
    server::SeaweedFs,
    tree::{Seen, look_at},
};

const ROUNDS: usize = 20;
const PROFILE: &str = "acme/alice";

/// The other program.
struct Other(S3Config);

impl Other {
    fn try_run(&self, verb: &str, directory: &Path) -> Result<Value, String> {
        let keys = self.0.credentials.as_ref().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fleet/contract_only.py");
        let ran = Command::new("python3")
            .arg(script)
            .args([verb, directory.to_str().unwrap()])
            .env("S3_ENDPOINT", self.0.endpoint.as_ref().unwrap())
            .env("S3_BUCKET", &self.0.bucket)
            .env("S3_PREFIX", self.0.prefix.as_str())
            .env("AWS_ACCESS_KEY_ID", &keys.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &keys.secret_access_key)
            .env("RUN_ID", "the-other")
            .output()
            .unwrap();
        if !ran.status.success() {
            return Err(String::from_utf8_lossy(&ran.stderr).into_owned());
        }
        Ok(serde_json::from_slice(&ran.stdout).unwrap())
    }

    #[track_caller]
    fn run(&self, verb: &str, directory: &Path) -> Value {
        self.try_run(verb, directory).unwrap()
    }
}

/// What is there, as exactly as ustar has it.
fn whole_seconds(profile: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut seen = look_at(profile);
    seen.values_mut().for_each(|entry| entry.mtime.1 = 0);
    seen
}

/// What a run leaves in the profile.
fn work(profile: &Path, round: usize, who: &str) {
    fs::create_dir_all(profile.join("Default")).unwrap();
    fs::write(profile.join("Default").join(format!("{who}-{round}")), format!("{who} {round}\n").repeat(999))
        .unwrap();
    fs::write(profile.join("Default/last"), format!("{round}")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_goes_on_from_what_the_other_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf { folder.path().join(name) };
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let host = Host::s3(&place("home"), &config);
    let other = Other(config);
    let (ours, theirs) = (place("ours"), place("theirs"));
    for round in 0..ROUNDS {
        let loaded = other.run("load", &theirs);
        // Its lock keeps us out, as ours keeps it out.
        let held = host.fail(24, ["lock", "acquire", PROFILE, "--chrome-major", "131"]);
        assert_eq!(held["holder_run_id"], "the-other", "{held}");
        let outcome = if round == 0 { "no_prior_state" } else { "success" };
        assert_eq!(loaded["outcome"], outcome, "round {round}: {loaded}");
        if round > 0 {
            assert_eq!(whole_seconds(&ours), whole_seconds(&theirs), "round {round}");
        }
        work(&theirs, round, "other");
        let saved = other.run("save", &theirs);

        let taken = host.succeed(["lock", "acquire", PROFILE, "--chrome-major", "131"]);
        let token = taken["token"].as_str().unwrap();
        let refused = other.try_run("load", &place("never")).unwrap_err();
        assert!(refused.contains("409: held by"), "{refused}");
        let _ = fs::remove_dir_all(&ours);
        let line = ["restore", PROFILE, ours.to_str().unwrap(), "--chrome-major", "131"];
        let loaded = host.succeed(line);
        assert_eq!(
            (&loaded["outcome"], &loaded["sha256_prefix"]),
            (&"success".into(), &saved["sha256_prefix"])
        );
        assert_eq!(whole_seconds(&theirs), whole_seconds(&ours), "round {round}");
        work(&ours, round, "pstore");
        let line =
            ["snapshot", ours.to_str().unwrap(), PROFILE, "--chrome-major", "131", "--lock-token", token];
        // That another program was seen is enough for an archive.
        let kept = host.succeed(line);
        assert_eq!(kept["flipped_from_sha256_prefix"], saved["sha256_prefix"], "round {round}");
        host.succeed(["lock", "release", PROFILE, "--chrome-major", "131", "--token", token]);
    }
    let listed = host.succeed(["list", PROFILE]);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 2 * ROUNDS, "none is lost");
    let log = host.succeed(["log", PROFILE, "--last", "0"]);
    let count = |kind: &str| log["events"].as_array().unwrap().iter().filter(|e| e["kind"] == kind).count();
    assert_eq!((count("foreign_flip"), count("foreign_fork"), count("adopt")), (ROUNDS, 0, ROUNDS));
    host.verify(PROFILE, &[]);
}
