//! These tests read metrics as a Prometheus does: of servers, of commands that have long ended, and of mounts.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use serde_json::json;
use tests::{
    binary::{Host, program, snapshot},
    prometheus::Prometheus,
    served::{Served, request, with_header},
};

use super::{
    ALICE, Scene, alerts, captured,
    uploads::{digest, exported},
};

/// A scene whose programs report, on a host of this name.
fn reporting() -> Scene {
    let scene = Scene::new();
    let host = scene.host.with("PSTORE_METRICS_REPORTS", "true").with("PSTORE_HOST_NAME", "h");
    // Nobody else takes locks away.
    let host = host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0");
    Scene { host, ..scene }
}

/// What `promtool check metrics` remarks about a text.
fn remarks(text: &str) -> Vec<String> {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("scripts/setup test installs promtool: {error}"));
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ended = promtool.wait_with_output().unwrap();
    let said = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
    said.lines().map(str::to_owned).collect()
}

/// The contract chose these names.
const REMARKS: [&str; 2] = [
    "mantis_profile_archive_size_bytes_histogram metric name should not include type 'histogram'",
    "mantis_profile_uncompressed_size_bytes_histogram metric name should not include type 'histogram'",
];

/// What `pstore metrics` prints on a host.
fn printed(home: &Path, textfiles: &Path) -> String {
    let ran = Command::new(program())
        .arg("metrics")
        .env_clear()
        .env("HOME", home)
        .env("PSTORE_HOST_NAME", "h")
        .env("PSTORE_METRICS_TEXTFILE", textfiles)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn promtool_finds_nothing_but_the_names_of_the_contract() {
    let scene = Scene::new();
    let server = scene.serve();
    let secret = scene.token("*", "read");
    server.call(&format!("GET {ALICE}"), Some(&secret), None).expect(200);
    let told = server.call("GET /metrics", Some(&secret), None);
    assert_eq!(told.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(remarks(&told.text()), REMARKS);
    for name in
        ["pstore_process_cpu_seconds_total ", "pstore_process_start_time_seconds ", "pstore_build_info{"]
    {
        assert!(told.text().contains(&format!("\n{name}")), "{name}: {}", told.text());
    }
    let open = with_header(
        &request("GET /metrics", Some(&secret), None),
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
    );
    let open = server.send(&open);
    assert!(open.header("content-type").unwrap().starts_with("application/openmetrics-text;"), "{open:?}");
    assert!(open.text().ends_with("\n# EOF\n"));
    // On a host, before and after something was counted.
    let textfiles = scene.folder.path().join("textfiles");
    fs::create_dir(&textfiles).unwrap();
    let home = scene.folder.path().join("home");
    assert_eq!(remarks(&printed(&home, &textfiles)), REMARKS);
    let host = scene.host.clone().with("PSTORE_METRICS_TEXTFILE", textfiles.to_str().unwrap());
    captured(&host.with("PSTORE_HOST_NAME", "h"), scene.folder.path(), "acme/alice", "counted");
    let now = printed(&home, &textfiles);
    assert_eq!(remarks(&now), REMARKS);
    assert!(now.contains("mantis_profile_snapshot_total{outcome=\"success\",host=\"h\"} 1\n"), "{now}");
    let counters = |text: &str| -> Vec<String> {
        let lines =
            text.lines().filter(|line| line.starts_with("mantis_") || line.starts_with("pstore_store"));
        lines.map(str::to_owned).collect()
    };
    let kept = fs::read_to_string(textfiles.join("pstore.prom")).unwrap();
    assert_eq!(counters(&kept), counters(&now));
    assert_eq!(remarks(&kept), REMARKS);
}

/// Bytes that cannot be compressed.
fn noise() -> Vec<u8> {
    (0..300_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// What was provoked, and is to be counted.
struct Provoked {
    host: Host,
    folder: PathBuf,
}

impl Provoked {
    fn restore(&self, profile: &str, more: &[&str]) -> serde_json::Value {
        let target = tempfile::tempdir_in(&self.folder).unwrap().keep().join("out");
        let line = [&["restore", profile, target.to_str().unwrap()], more].concat();
        self.host.succeed(line)
    }

    fn object(&self, below: &str) -> PathBuf {
        self.folder.join("store/objects").join(below)
    }

    /// Mounts alice's profile for a moment.
    fn mount(&self, chrome_major: &str, is_fallback: bool) {
        let place = tempfile::tempdir_in(&self.folder).unwrap().keep();
        let at = place.to_str().unwrap();
        let mounted = self.host.succeed(["mount", "acme/alice", at, "--chrome-major", chrome_major]);
        self.host.succeed(["unmount", at]);
        assert_eq!(!mounted["fallback"].is_null(), is_fallback, "{mounted:#}");
    }

    /// Makes the lock of a profile one that has expired long ago: its file tells how old it is.
    fn age_lock(&self, profile: &str) {
        let path = self.object(&format!("snapshots/{profile}/131/lock.json"));
        let lock = fs::File::options().write(true).open(path).unwrap();
        lock.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }
}

/// Two servers tell what a hundred commands, and callers of the servers, have come to.
#[test]
fn a_prometheus_counts_what_was_provoked() {
    let scene = reporting();
    let secret = scene.token("*", "admin");
    let servers = [scene.serve(), scene.serve()];
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus/alerts.yml");
    let targets = servers.each_ref().map(|server| server.address.as_str());
    let prometheus = Prometheus::start(scene.folder.path(), &targets, &secret, &rules);
    let total = |query: &str| format!("sum(max without (instance, job) ({query}))");
    // Before anything has happened, everything is there and 0.
    prometheus.await_value(&total("mantis_profile_load_total{outcome=\"sha_mismatch\",host=\"h\"}"), 0.0);
    let provoked = Provoked { host: scene.host.clone(), folder: scene.folder.path().to_owned() };

    fs::write(provoked.folder.join("source/Blob"), noise()).unwrap();
    for round in 0..20 {
        scene.capture("acme/alice", &format!("round {round}"));
    }
    for _ in 0..5 {
        provoked.host.snapshot(&provoked.folder.join("source"), "acme/alice");
    }
    for _ in 0..20 {
        provoked.host.fail(3, ["snapshot", "/nowhere", "acme/alice", "--chrome-major", "131"]);
    }
    for _ in 0..15 {
        let loaded = provoked.restore("acme/alice", &["--chrome-major", "131"]);
        assert_eq!(loaded["outcome"], "success", "{loaded:#}");
    }
    for _ in 0..3 {
        assert_eq!(provoked.restore("acme/nobody", &["--chrome-major", "131"])["outcome"], "no_prior_state");
    }
    for _ in 0..4 {
        assert_eq!(provoked.restore("acme/alice", &["--chrome-major", "140"])["outcome"], "version_mismatch");
    }
    let small = Provoked {
        host: provoked.host.clone().with("PSTORE_MAX_PROFILE_BYTES", "1"),
        folder: provoked.folder.clone(),
    };
    for _ in 0..3 {
        assert_eq!(small.restore("acme/alice", &["--chrome-major", "131"])["outcome"], "too_large");
    }
    // Through the server.
    for _ in 0..5 {
        let body = json!({ "chrome_major_version": 131 });
        let loaded = servers[0].call(&format!("POST {ALICE}/loads"), Some(&secret), Some(&body)).expect(200);
        assert_eq!(loaded["outcome"], "success");
    }

    // Locks: one is held, and others run into it.
    provoked.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "first", "--ttl", "3600"]);
    for _ in 0..5 {
        provoked.host.fail(24, ["lock", "acquire", "acme/alice", "--run-id", "second"]);
        let lease = json!({ "holder_run_id": "third" });
        servers[1]
            .call(&format!("POST {ALICE}/leases"), Some(&secret), Some(&lease))
            .refused(409, "lock_held");
    }
    for round in 0..6 {
        let force = ["force-unlock", "acme/alice", "--reason", "a test", "--confirm"];
        provoked.host.succeed(force);
        let run = format!("run-{round}");
        provoked.host.succeed(["lock", "acquire", "acme/alice", "--run-id", &run, "--ttl", "5"]);
    }
    for _ in 0..4 {
        provoked.age_lock("acme/alice");
        let swept = provoked.host.succeed(["reap", "--grace", "1"]);
        assert_eq!(swept["evicted"].as_array().unwrap().len(), 1, "{swept:#}");
        provoked.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "again", "--ttl", "5"]);
    }
    // Who comes and finds that a holder has let it expire takes it over.
    for _ in 0..3 {
        provoked.age_lock("acme/alice");
        let taken =
            provoked.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "late", "--ttl", "5"]);
        assert_eq!(taken["outcome"], "forced_expired", "{taken:#}");
    }
    provoked.host.succeed(["force-unlock", "acme/alice", "--reason", "a test", "--confirm"]);
    provoked.host.succeed(["gc", "--grace", "0"]);
    for sha in &scene.shas {
        let (archive, major) = exported(&scene, sha);
        let query = format!("chrome_major_version={major}&sha256={}", digest(&archive));
        let line = format!("POST /v1/profile-snapshots/acme/sent/uploads?{query}");
        servers[0].send_bytes(&request(&line, Some(&secret), None), &archive).expect(200);
    }
    for (chrome_major, is_fallback) in [("131", false), ("131", false), ("140", true)] {
        provoked.mount(chrome_major, is_fallback);
    }

    // A database that is damaged already when it is captured: the snapshot is held back, and then taken all the same.
    let damaged = provoked.folder.join("damaged");
    fs::create_dir_all(damaged.join("Default")).unwrap();
    fs::write(damaged.join("Default/Cookies"), [b"SQLite format 3\0".as_slice(), &[7; 8000]].concat())
        .unwrap();
    let line = snapshot(&damaged, "acme/damaged");
    assert_eq!(provoked.host.run(line).code, Some(29));
    provoked.host.succeed(line.into_iter().chain(["--allow-damaged".as_ref(), "--rescan".as_ref()]));
    for _ in 0..3 {
        let loaded = provoked.restore("acme/damaged", &["--chrome-major", "131"]);
        assert_eq!(loaded["outcome"], "integrity_failed", "{loaded:#}");
    }
    // Stored bytes that are not what was stored, and some that are gone.
    for (tenant, profile, count, outcome) in
        [("acme", "acme/alice", 4, "sha_mismatch"), ("other", "other/bob", 2, "fresh_fallback")]
    {
        for entry in fs::read_dir(provoked.object(&format!("content/{tenant}/packs"))).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            fs::remove_file(&path).unwrap();
            if outcome == "sha_mismatch" {
                fs::write(&path, bytes).unwrap();
            }
        }
        for _ in 0..count {
            let loaded = provoked.restore(profile, &["--chrome-major", "131", "--no-cache"]);
            assert_eq!(loaded["outcome"], outcome, "{loaded:#}");
        }
    }
    let by = |metric: &str, label: &str, value: &str| total(&format!("{metric}{{{label}=\"{value}\"}}"));
    let snapshots = |outcome: &str| by("mantis_profile_snapshot_total", "outcome", outcome);
    let loads = |outcome: &str| by("mantis_profile_load_total", "outcome", outcome);
    let locks = |outcome: &str| by("mantis_profile_lock_acquire_total", "outcome", outcome);
    let evictions = |reason: &str| by("mantis_profile_lock_evict_total", "reason", reason);
    // What was done last arrives last.
    prometheus.await_value(&loads("fresh_fallback"), 2.0);
    for (query, expected) in [
        (snapshots("success"), 23.0),
        (snapshots("skipped"), 6.0),
        (snapshots("failed"), 20.0),
        (loads("success"), 25.0),
        (loads("version_mismatch"), 5.0),
        (loads("too_large"), 3.0),
        (loads("integrity_failed"), 3.0),
        (loads("sha_mismatch"), 4.0),
        (by("pstore_snapshots_held_back_total", "reason", "damaged"), 1.0),
        (total("pstore_first_loads_total"), 3.0),
        // Each capture that began took the lock, and so did each mount; eleven commands did so by themselves. An upload
        // without a lock only looks whether anybody holds it.
        (locks("acquired"), 41.0),
        (locks("conflict_409"), 10.0),
        (locks("forced_expired"), 3.0),
        (evictions("operator_force"), 7.0),
        (evictions("ttl_expired"), 7.0),
        (by("pstore_mounts_total", "outcome", "success"), 2.0),
        (by("pstore_mounts_total", "outcome", "fallback"), 1.0),
        (by("pstore_mounts_total", "outcome", "failed"), 0.0),
        (total("pstore_mount_ready_seconds_count"), 3.0),
        (total("mantis_profile_snapshot_capture_seconds_count"), 27.0),
        (total("mantis_profile_archive_size_bytes_histogram_count"), 23.0),
        (total("mantis_profile_uncompressed_size_bytes_histogram_count"), 23.0),
        (total("mantis_profile_load_download_seconds_count"), 15.0),
        (by("pstore_gc_runs_total", "outcome", "success"), 2.0),
        (by("pstore_gc_runs_total", "outcome", "failed"), 0.0),
    ] {
        prometheus.await_value(&query, expected);
    }
    // Each server tells the same.
    for server in targets {
        let query = format!("sum(mantis_profile_snapshot_total{{instance=\"{server}\"}})");
        prometheus.await_value(&query, 49.0);
    }
    assert!(prometheus.value(&total("pstore_store_requests_total")).unwrap() > 100.0);
    let age = "time() - max(pstore_profile_last_good_snapshot_timestamp_seconds{profile_id=\"alice\"})";
    assert!(prometheus.value(age).is_some_and(|age| (0.0..600.0).contains(&age)));

    // The queries of the dashboard, and the rules.
    for query in alerts::queries() {
        let found = prometheus.query(&query);
        // Nothing is expected of any profile, so none lapses.
        assert!(!found.is_empty() || query.contains("login_lapse"), "{query} finds nothing");
    }
    let rules = prometheus.get("/api/v1/rules");
    let groups = rules["data"]["groups"].as_array().unwrap();
    let rules: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert_eq!(rules.len(), 10);
    assert!(rules.iter().all(|rule| rule["health"] == "ok"), "{rules:#?}");
    for alert in ["PstoreIntegrityFailed", "PstoreShaMismatch", "PstoreLockEvictions", "PstoreFallbacks"] {
        let firing = format!("count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
        prometheus.await_value(&firing, 1.0);
    }
}

/// Neither a directory that cannot be written to nor a store that is away keeps a command from its work.
#[test]
fn what_cannot_be_counted_fails_no_command() {
    let scene = reporting();
    let missing = scene.folder.path().join("missing");
    let host = scene.host.clone().with("PSTORE_METRICS_TEXTFILE", missing.to_str().unwrap());
    let source = scene.folder.path().join("source");
    fs::write(source.join("Preferences"), "once more").unwrap();
    let ran = host.run(tests::binary::snapshot(&source, "acme/alice"));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.stderr.contains("metrics cannot be left in"), "{ran:#?}");
    // With a store that nobody may write to, the report waits on the host.
    let reports = scene.folder.path().join("store/objects/operations/metrics/reports");
    let before = fs::read_dir(&reports).unwrap().count();
    assert_eq!(before, 1);
    fs::remove_dir_all(&reports).unwrap();
    fs::write(&reports, "in the way").unwrap();
    let shown = scene.host.succeed(["list", "acme/alice"]);
    assert!(!shown.is_null());
    fs::remove_file(&reports).unwrap();
    scene.host.succeed(["list", "acme/alice"]);
    let kept: Vec<_> = fs::read_dir(&reports).unwrap().collect();
    assert_eq!(kept.len(), 1);
}

/// The daemon of a mount counts, too: the mount, what is read, and the commit.
#[test]
fn a_mount_is_counted_by_its_daemon() {
    let scene = Scene::new();
    let textfiles = scene.folder.path().join("textfiles");
    fs::create_dir(&textfiles).unwrap();
    let host = scene
        .host
        .clone()
        .with("PSTORE_METRICS_TEXTFILE", textfiles.to_str().unwrap())
        .with("PSTORE_HOST_NAME", "h");
    // Small files are part of what a mount reads when it begins.
    fs::write(scene.folder.path().join("source/Blob"), noise()).unwrap();
    scene.capture("acme/alice", "second");
    let mountpoint = scene.folder.path().join("mnt");
    fs::create_dir(&mountpoint).unwrap();
    let at = mountpoint.to_str().unwrap();
    host.succeed(["mount", "acme/alice", at]);
    assert_eq!(fs::read_to_string(mountpoint.join("Preferences")).unwrap(), "second");
    assert_eq!(fs::read(mountpoint.join("Blob")).unwrap(), noise());
    fs::write(mountpoint.join("Preferences"), "third").unwrap();
    host.succeed(["unmount", at, "--commit"]);
    let file = textfiles.join("pstore.prom");
    let expected = [
        "mantis_profile_load_total{outcome=\"success\",host=\"h\"} 1\n",
        "mantis_profile_snapshot_total{outcome=\"success\",host=\"h\"} 1\n",
        "pstore_mounts_total{outcome=\"success\"} 1\n",
        "pstore_mount_ready_seconds_count 1\n",
        "pstore_commits_total{outcome=\"success\"} 1\n",
    ];
    // The daemon ends a moment after the command has its answer.
    let began = std::time::Instant::now();
    loop {
        let text = fs::read_to_string(&file).unwrap_or_default();
        if expected.iter().all(|line| text.contains(line)) {
            let read = text.lines().find_map(|line| line.strip_prefix("pstore_mount_cached_bytes_total "));
            assert!(read.is_some_and(|read| read.parse::<u64>().unwrap() > 0), "{text}");
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A server that is started again does not tell smaller numbers before it knows the totals.
#[test]
fn a_server_that_starts_again_tells_the_totals_or_no_counter() {
    let scene = reporting();
    let secret = scene.token("*", "read");
    let count = |server: &Served| -> Option<u64> {
        let text = server.call("GET /metrics", Some(&secret), None).text();
        let line = text.lines().find_map(|line| {
            line.strip_prefix("mantis_profile_snapshot_total{outcome=\"success\",host=\"h\"} ")
        });
        line.map(|count| count.parse().unwrap())
    };
    let first = scene.serve();
    scene.capture("acme/alice", "counted");
    let began = std::time::Instant::now();
    while count(&first) != Some(1) {
        assert!(began.elapsed() < Duration::from_secs(90), "{:?}", count(&first));
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(first);
    let again = scene.serve();
    let began = std::time::Instant::now();
    loop {
        match count(&again) {
            Some(count) => {
                assert_eq!(count, 1);
                return;
            }
            None => assert!(began.elapsed() < Duration::from_secs(30)),
        }
    }
}
