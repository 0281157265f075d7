//! These tests bring about the scenario of each alert beside a real Prometheus: the alert fires on its scenario, and on
//! no other.
//!
//! A scenario is a host with a store of its own, whose commands leave their counts in a textfile. The rules are those of
//! `deploy/prometheus/alerts.yml`, once for each scenario: with windows and waits that are shorter by one factor, and with
//! metrics of the scenario alone.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rusqlite::Connection;
use tempfile::TempDir;
use tests::{
    binary::{Host, program, snapshot},
    disk::SmallDisk,
    prometheus::Prometheus,
    proxy::{FaultPlan, FaultyProxy},
    server::SeaweedFs,
    textfile_exporter::TextfileExporter,
};

/// By which windows and waits are shorter than in the file: five minutes are five seconds.
const FACTOR: u64 = 60;
/// How long all alerts may take to fire. The longest wait is a minute.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of each request of the slow store. Prometheus takes it for almost 2.5 seconds, the end of its bucket.
const SLOW: Duration = Duration::from_millis(1200);
/// How often a command of the slow store begins: spaced like this, several end within each window of five seconds,
/// however busy the machine is.
const SLOW_PACE: Duration = Duration::from_millis(900);
/// How many of them run at most. A busy machine gets no more of them than it can end.
const SLOW_COMMANDS: usize = 8;

/// The scenarios, and the alert of each.
const SCENARIOS: [(&str, Option<&str>); 11] = [
    ("well", None),
    ("captures-fail", Some("PstoreSnapshotsFail")),
    ("damaged-database", Some("PstoreIntegrityFailed")),
    ("changed-bytes", Some("PstoreShaMismatch")),
    ("evictions", Some("PstoreLockEvictions")),
    ("stale", Some("PstoreProfileStale")),
    ("fallbacks", Some("PstoreFallbacks")),
    ("slow-store", Some("PstoreStoreSlow")),
    ("no-collection", Some("PstoreGcNotRun")),
    ("full-disk", Some("PstoreSessionDiskFilling")),
    ("lapsing-login", Some("PstoreLoginLapsing")),
];

/// A host of one scenario.
struct Scenario {
    host: Host,
    folder: PathBuf,
}

impl Scenario {
    fn new(root: &Path, name: &str, host: impl FnOnce(&Path) -> Host) -> Self {
        let (folder, textfiles) = (root.join(name), root.join("textfiles").join(name));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&textfiles).unwrap();
        let host = host(&folder).with("PSTORE_METRICS_TEXTFILE", textfiles.to_str().unwrap());
        Self { host: host.with("PSTORE_HOST_NAME", name), folder }
    }

    /// A profile that was captured and loaded, and a collection: all is well.
    fn begin(&self) {
        let source = self.source();
        self.host.snapshot(&source, "acme/alice");
        self.load("131", "success");
        self.host.succeed(["gc"]);
    }

    fn source(&self) -> PathBuf {
        let source = self.folder.join("source");
        fs::create_dir_all(source.join("Default")).unwrap();
        fs::write(source.join("Preferences"), "{}").unwrap();
        source
    }

    #[track_caller]
    fn load(&self, chrome_major: &str, outcome: &str) {
        let target = self.folder.join(tests::unique_name());
        let line =
            ["restore", "acme/alice", target.to_str().unwrap(), "--chrome-major", chrome_major, "--no-cache"];
        let loaded = self.host.succeed(line);
        assert_eq!(loaded["outcome"], outcome, "{loaded:#}");
    }
}

/// A number of seconds, with its unit, as a number of milliseconds that is shorter by the factor.
fn scaled(time: &str) -> String {
    let (number, unit) = time.split_at(time.len() - 1);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => panic!("{time}"),
    };
    format!("{}ms", number.parse::<u64>().unwrap() * seconds * 1000 / FACTOR)
}

/// The rules of the file for one scenario: only times, the names of groups, and the scenario of metrics are others.
fn rules_of(rules: &str, scenario: &str) -> String {
    let mut text = String::new();
    for line in rules.lines().filter(|line| !line.starts_with('#') && *line != "groups:") {
        let mut line = line.to_owned();
        if let Some(time) = line.trim().strip_prefix("for: ") {
            line = line.replace(time, &scaled(time));
        }
        if line.starts_with("  - name: ") {
            line += &format!("-{scenario}");
        }
        while let Some((before, rest)) = line.split_once('[').filter(|(_, rest)| rest.contains("m]")) {
            let (time, after) = rest.split_once(']').unwrap();
            // Another bracket, so that it is not found again.
            line = format!("{before}\u{1}{}]{after}", scaled(time));
        }
        text += &of_scenario(&line.replace('\u{1}', "["), scenario);
        text.push('\n');
        if line.trim() == "labels:" {
            text += &format!("          scenario: {scenario}\n");
        }
    }
    text
}

/// A line whose metrics are those of a scenario.
fn of_scenario(line: &str, scenario: &str) -> String {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut text, mut rest) = (String::new(), line);
    while let Some(at) = ["mantis_profile_", "pstore_"].iter().filter_map(|prefix| rest.find(prefix)).min() {
        let end = rest[at..].find(|c| !is_of_a_name(c)).map_or(rest.len(), |len| at + len);
        text += &rest[..end];
        rest = &rest[end..];
        match rest.strip_prefix('{') {
            Some(inside) => {
                text += &format!("{{scenario=\"{scenario}\",");
                rest = inside;
            }
            None => text += &format!("{{scenario=\"{scenario}\"}}"),
        }
    }
    text + rest
}

#[test]
fn the_rules_of_a_scenario_differ_in_times_and_in_whose_metrics_they_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus/alerts.yml");
    let rules = fs::read_to_string(file).unwrap();
    let made = rules_of(&rules, "x");
    assert!(made.contains(
        "60 * sum(max without (instance, job) (rate(mantis_profile_snapshot_total{scenario=\"x\",outcome=\"failed\"}[5000ms]))) > 1\n        for: 10000ms"
    ), "{made}");
    assert!(
        made.contains("time() - max(pstore_gc_last_success_timestamp_seconds{scenario=\"x\"}) > 604800\n")
    );
    // Taken back, they are what they were.
    let again = made
        .replace("{scenario=\"x\",", "{")
        .replace("{scenario=\"x\"}", "")
        .replace("          scenario: x\n", "")
        .replace("-x\n", "\n");
    let times =
        [("5000ms", "5m"), ("30000ms", "30m"), ("15000ms", "15m"), ("10000ms", "10m"), ("60000ms", "1h")];
    let again = times.iter().fold(again, |text, (short, long)| {
        text.replace(&format!("[{short}]"), &format!("[{long}]"))
            .replace(&format!("for: {short}\n"), &format!("for: {long}\n"))
    });
    let expected: String =
        rules.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(again, expected);
}

/// What has fired so far: each alert with its scenario.
fn fired(prometheus: &Prometheus) -> BTreeSet<(String, String)> {
    let found = prometheus.query("max_over_time(ALERTS{alertstate=\"firing\"}[10m])");
    let label = |found: &serde_json::Value, name: &str| found["metric"][name].as_str().unwrap().to_owned();
    found.iter().map(|found| (label(found, "scenario"), label(found, "alertname"))).collect()
}

/// Ends what goes on in the background, however the test ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Begins a profile two days ago, by a host whose clock is late.
fn begin_stale(scenario: &Scenario) {
    let mut command = Command::new("faketime");
    command.args(["-f", "-2d"]).arg(program()).args(snapshot(&scenario.source(), "acme/alice"));
    scenario.host.prepare(&mut command);
    let ran = command.env("NO_FAKE_STAT", "1").stdin(Stdio::null()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    scenario.load("131", "success");
    scenario.host.succeed(["gc"]);
}

/// Captures a login that ends in two days, and is expected.
fn lapse(scenario: &Scenario) {
    let source = scenario.source();
    let database = Connection::open(source.join("Default/Cookies")).unwrap();
    let table = "CREATE TABLE cookies (host_key TEXT, name TEXT, value TEXT, encrypted_value BLOB, path TEXT, expires_utc INTEGER)";
    database.execute(table, []).unwrap();
    let end = SystemTime::now() + Duration::from_secs(2 * 86_400);
    // Since 1601, in microseconds.
    let end = end.duration_since(UNIX_EPOCH).unwrap().as_micros() as i64 + 11_644_473_600_000_000;
    database.execute("INSERT INTO cookies VALUES ('.example.com', 'sid', '1', x'', '/', ?1)", [end]).unwrap();
    drop(database);
    scenario.host.succeed(["expect", "acme/alice", "--cookie", ".example.com:sid"]);
    let kept = scenario.host.snapshot(&source, "acme/alice");
    assert_eq!(kept["pointer"], "flipped", "{kept:#}");
}

/// Takes a database that is damaged for what it is.
fn damage_database(scenario: &Scenario) {
    let source = scenario.source();
    let bytes = [b"SQLite format 3\0".as_slice(), &[7; 8000]].concat();
    fs::write(source.join("Default/Cookies"), bytes).unwrap();
    let more = ["--allow-damaged", "--rescan"].map(AsRef::as_ref);
    scenario.host.succeed(snapshot(&source, "acme/alice").into_iter().chain(more));
    scenario.load("131", "integrity_failed");
}

/// Changes a bit of everything that is stored.
fn change_bytes(scenario: &Scenario) {
    fs::write(scenario.source().join("Blob"), tests::tree::noise(300_000, 3)).unwrap();
    scenario.host.snapshot(&scenario.folder.join("source"), "acme/alice");
    for entry in fs::read_dir(scenario.folder.join("store/objects/content/acme/packs")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    scenario.load("131", "sha_mismatch");
}

fn evict(scenario: &Scenario) {
    for round in 0..7 {
        let run = format!("run-{round}");
        scenario.host.succeed(["lock", "acquire", "acme/alice", "--run-id", &run, "--ttl", "3600"]);
        scenario.host.succeed(["force-unlock", "acme/alice", "--reason", "a test", "--confirm"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_fires_in_a_prometheus_on_its_scenario_and_on_no_other() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    let seaweed = SeaweedFs::start().await;
    let proxy = FaultyProxy::before(&seaweed.config(), FaultPlan::none());
    // The disk of the machine may be nearly full too.
    let (disk, roomy) = (SmallDisk::new(4 << 20), SmallDisk::new(256 << 20));
    let scenario = |name: &str| {
        let sessions = if name == "full-disk" { disk.path().to_owned() } else { roomy.path().join(name) };
        Scenario::new(root, name, |folder| {
            let host = match name {
                "slow-store" => Host::s3(&folder.join("home"), &proxy.through(&seaweed.config())),
                _ => Host::local(&folder.join("home"), &folder.join("store")),
            };
            host.with("PSTORE_SESSION_DIR", sessions.to_str().unwrap())
        })
    };
    let scenarios = SCENARIOS.map(|(name, _)| (name, scenario(name)));
    let named = |wanted: &str| &scenarios.iter().find(|(name, _)| *name == wanted).unwrap().1;
    for (name, scenario) in &scenarios {
        match *name {
            "stale" => begin_stale(scenario),
            // There is a profile, and nobody collects.
            "no-collection" => drop(scenario.host.snapshot(&scenario.source(), "acme/alice")),
            _ => scenario.begin(),
        }
    }

    let exporter = TextfileExporter::start(&root.join("textfiles"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus/alerts.yml");
    let rules = fs::read_to_string(file).unwrap();
    let made: String = SCENARIOS.iter().map(|(name, _)| rules_of(&rules, name)).collect();
    fs::write(root.join("rules.yml"), format!("groups:\n{made}")).unwrap();
    let jobs: String = SCENARIOS
        .iter()
        .map(|(name, _)| {
            format!(
                "- job_name: {name}\n  metrics_path: /{name}\n  static_configs: [{{ targets: [\"{}\"], labels: {{ scenario: {name} }} }}]\n",
                exporter.address
            )
        })
        .collect();
    let config = format!(
        "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }}\nrule_files: [\"{}\"]\nscrape_configs:\n{jobs}",
        root.join("rules.yml").display()
    );
    let prometheus = Prometheus::configured(root, &config);
    // Whatever is counted from now on is an increase.
    prometheus.await_value("count(pstore_build_info)", SCENARIOS.len() as f64);
    prometheus.await_value("min(count_over_time(pstore_build_info[1m])) >= bool 2", 1.0);

    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        let (failing, slow, began, is_over) =
            (named("captures-fail"), named("slow-store"), Instant::now(), &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                failing.host.fail(3, ["snapshot", "/nowhere", "acme/alice", "--chrome-major", "131"]);
                thread::sleep(Duration::from_millis(300));
            }
        });
        proxy.set(FaultPlan { delay: SLOW, ..FaultPlan::none() });
        for at in 0..SLOW_COMMANDS as u32 {
            scope.spawn(move || {
                let mut due = began + SLOW_PACE * at;
                while !is_over.load(Ordering::Relaxed) {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    slow.host.succeed(["lock", "show", "acme/alice"]);
                    // At its turn among the others, or at the next one if it took too long.
                    while due < Instant::now() {
                        due += SLOW_PACE * SLOW_COMMANDS as u32;
                    }
                }
            });
        }
        damage_database(named("damaged-database"));
        change_bytes(named("changed-bytes"));
        evict(named("evictions"));
        (0..4).for_each(|_| named("fallbacks").load("140", "version_mismatch"));
        lapse(named("lapsing-login"));
        disk.fill_but(64 << 10);
        // The gauge is told when somebody does something.
        named("full-disk").load("131", "success");

        let expected: BTreeSet<(String, String)> = SCENARIOS
            .iter()
            .filter_map(|(name, alert)| Some(((*name).to_owned(), (*alert)?.to_owned())))
            .collect();
        let began = Instant::now();
        let seen = loop {
            let seen = fired(&prometheus);
            if expected.is_subset(&seen) || began.elapsed() > PATIENCE {
                break seen;
            }
            thread::sleep(Duration::from_millis(500));
        };
        assert_eq!(seen, expected);
    });
}
