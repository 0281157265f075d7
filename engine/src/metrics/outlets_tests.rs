//! These tests check that what processes count arrives: in the textfile, and in the totals, each time once.

use std::{fs, path::Path, sync::Arc};

use store::{
    catalog::metrics,
    format::{config::Chunking, metrics::SeriesValue},
};
use tempfile::TempDir;

use super::family::{LOADS, SNAPSHOTS};
use crate::{
    Engine,
    captures::CheckDepth,
    interrupt::Interrupt,
    location::Purpose,
    observer::Unobserved,
    settings::Overrides,
    verbs::{init::InitRequest, snapshot::SnapshotRequest},
};

struct TestHost {
    folder: TempDir,
}

impl TestHost {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder };
        fs::create_dir(place.path("textfiles")).unwrap();
        fs::create_dir(place.path("profile")).unwrap();
        fs::write(place.path("profile/notes"), "first").unwrap();
        place.process("").init(&InitRequest { chunking: Chunking::default() }).await.unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A process with these settings, on a host called `h`.
    fn process(&self, settings: &str) -> Engine {
        self.process_at(settings, "store")
    }

    fn process_at(&self, settings: &str, store: &str) -> Engine {
        let config = self.path("pstore.toml");
        fs::write(&config, format!("{settings}\n[host]\nname = \"h\"\n")).unwrap();
        let overrides = Overrides {
            store: Some(format!("file://{}", self.path(store).display())),
            config: Some(config),
            cache_dir: Some(self.path("cache")),
            ..Overrides::default()
        };
        Engine::open(&overrides, Arc::new(Unobserved), Interrupt::new()).unwrap()
    }

    async fn capture(&self, engine: &Engine, directory: &Path) -> bool {
        let mut request = SnapshotRequest::new(directory.to_owned(), "acme/alice".parse().unwrap());
        request.chrome_major = Some("131".parse().unwrap());
        request.capture.checks.depth = CheckDepth::None;
        engine.snapshot(&request).await.is_ok()
    }

    fn textfile(&self) -> String {
        fs::read_to_string(self.path("textfiles/pstore.prom")).unwrap()
    }
}

fn textfile_setting(place: &TestHost) -> String {
    format!("metrics_textfile = \"{}\"", place.path("textfiles").display())
}

#[tokio::test]
async fn a_textfile_has_the_counts_of_all_processes() {
    let place = TestHost::new().await;
    for round in 0..3 {
        let engine = place.process(&textfile_setting(&place));
        fs::write(place.path("profile/notes"), format!("round {round}")).unwrap();
        assert!(place.capture(&engine, &place.path("profile")).await);
        assert!(!place.capture(&engine, &place.path("nowhere")).await);
        engine.leave_metrics().await;
        // What was left is not left again.
        engine.leave_metrics().await;
    }
    let text = place.textfile();
    for line in [
        "mantis_profile_snapshot_total{outcome=\"success\",host=\"h\"} 3\n",
        "mantis_profile_snapshot_total{outcome=\"failed\",host=\"h\"} 3\n",
        "mantis_profile_snapshot_total{outcome=\"skipped\",host=\"h\"} 0\n",
        "mantis_profile_snapshot_capture_seconds_count{mode=\"cold\"} 3\n",
        "mantis_profile_lock_acquire_total{outcome=\"acquired\"} 3\n",
        "pstore_store_requests_total{verb=\"delete_if\",outcome=\"denied\"} 0\n",
        "pstore_build_info{version=\"",
        "pstore_session_disk_free_bytes{host=\"h\"} ",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let left: Vec<_> =
        fs::read_dir(place.path("textfiles")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[tokio::test]
async fn many_processes_write_one_textfile_and_none_is_lost() {
    let place = Arc::new(TestHost::new().await);
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let engine = place.process(&textfile_setting(&place));
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                let lineage = "acme/alice".parse().unwrap();
                engine
                    .observe_load(&lineage, async { Ok(()) }, |()| {
                        (crate::outcome::LoadResult::Success, None)
                    })
                    .await
                    .unwrap();
                engine.leave_metrics().await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let text = place.textfile();
    assert!(text.contains("mantis_profile_load_total{outcome=\"success\",host=\"h\"} 40\n"), "{text}");
}

#[tokio::test]
async fn a_textfile_that_cannot_be_written_fails_nothing_and_loses_nothing() {
    let place = TestHost::new().await;
    let engine = place.process(&format!("metrics_textfile = \"{}\"", place.path("missing").display()));
    assert!(!place.capture(&engine, &place.path("nowhere")).await);
    engine.leave_metrics().await;
    fs::create_dir(place.path("missing")).unwrap();
    engine.leave_metrics().await;
    let text = fs::read_to_string(place.path("missing/pstore.prom")).unwrap();
    assert!(text.contains("mantis_profile_snapshot_total{outcome=\"failed\",host=\"h\"} 1\n"), "{text}");
}

#[tokio::test]
async fn a_profile_has_no_series_where_that_is_switched_off() {
    let place = TestHost::new().await;
    for (setting, is_there) in [("metrics_profiles = 0", false), ("", true)] {
        let engine = place.process(&format!("{}\n{setting}", textfile_setting(&place)));
        fs::write(place.path("profile/notes"), format!("round {is_there}")).unwrap();
        assert!(place.capture(&engine, &place.path("profile")).await);
        engine.leave_metrics().await;
        assert_eq!(place.textfile().contains("profile_id=\"alice\""), is_there, "{}", place.textfile());
    }
}

const REPORTS: &str = "metrics_reports = true";

fn counted(engine: &Engine, outcome: &str) -> u64 {
    let told = engine.metrics.told();
    let found = told.of(&SNAPSHOTS).find(|(labels, _)| labels[0] == outcome);
    match found {
        Some((_, SeriesValue::Counter(count))) => *count,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn reports_are_folded_once_whoever_folds() {
    let place = TestHost::new().await;
    let servers = [place.process(REPORTS), place.process(REPORTS)];
    servers.iter().for_each(|server| server.metrics.serve_totals());
    let store = servers[0].store(Purpose::Change).await.unwrap();
    // Nothing is told before the totals are known.
    assert_eq!(servers[0].metrics.told().of(&LOADS).count(), 0);
    for round in 0..4 {
        let program = place.process(REPORTS);
        fs::write(place.path("profile/notes"), format!("round {round}")).unwrap();
        assert!(place.capture(&program, &place.path("profile")).await);
        program.leave_metrics().await;
    }
    assert_eq!(metrics::reports(&store).await.unwrap().len(), 4);
    // A host that is new begins at zero.
    assert_eq!(servers[0].fold_metrics(&store).await.unwrap(), 0);
    assert_eq!(counted(&servers[0], "success"), 0);
    let (one, other) = tokio::join!(servers[0].fold_metrics(&store), servers[1].fold_metrics(&store));
    // Both may have read the same totals: then one was first.
    assert_eq!(one.unwrap_or(0) + other.unwrap_or(0), 4);
    for server in &servers {
        assert_eq!(server.fold_metrics(&store).await.unwrap(), 0);
        server.read_metrics_totals(&store).await.unwrap();
        assert_eq!(counted(server, "success"), 4);
    }
    assert_eq!(metrics::reports(&store).await.unwrap(), []);
}

#[tokio::test]
async fn a_server_tells_its_own_counts_once_before_and_after_they_are_folded() {
    let place = TestHost::new().await;
    let server = place.process(REPORTS);
    server.metrics.serve_totals();
    let store = server.store(Purpose::Change).await.unwrap();
    server.fold_metrics(&store).await.unwrap();
    server.read_metrics_totals(&store).await.unwrap();
    assert!(place.capture(&server, &place.path("profile")).await);
    assert_eq!(counted(&server, "success"), 1);
    server.leave_metrics().await;
    assert_eq!(counted(&server, "success"), 1);
    for _ in 0..3 {
        server.fold_metrics(&store).await.unwrap();
        assert_eq!(counted(&server, "success"), 1);
    }
    assert_eq!(metrics::reports(&store).await.unwrap(), []);
}

#[tokio::test]
async fn what_cannot_be_reported_waits_on_the_host_and_is_reported_by_the_next_program() {
    let place = TestHost::new().await;
    let (store, away) = (place.path("store"), place.path("away"));
    fs::rename(&store, &away).unwrap();
    fs::write(&store, "no directory").unwrap();
    for _ in 0..2 {
        let program = place.process(REPORTS);
        assert!(!place.capture(&program, &place.path("profile")).await);
        program.leave_metrics().await;
    }
    fs::remove_file(&store).unwrap();
    fs::rename(&away, &store).unwrap();
    let program = place.process(REPORTS);
    assert!(place.capture(&program, &place.path("profile")).await);
    program.leave_metrics().await;
    let opened = program.store(Purpose::Change).await.unwrap();
    program.fold_metrics(&opened).await.unwrap();
    assert_eq!(program.fold_metrics(&opened).await.unwrap(), 1);
    program.read_metrics_totals(&opened).await.unwrap();
    let server = place.process(REPORTS);
    server.read_metrics_totals(&opened).await.unwrap();
    assert_eq!((counted(&server, "failed"), counted(&server, "success")), (2, 1));
}

/// A server that dies after it has stored the totals leaves reports that are counted already.
#[tokio::test]
async fn a_report_that_was_counted_is_removed_and_not_counted_again() {
    let place = TestHost::new().await;
    let program = place.process(REPORTS);
    assert!(place.capture(&program, &place.path("profile")).await);
    program.leave_metrics().await;
    let store = program.store(Purpose::Change).await.unwrap();
    let id = metrics::reports(&store).await.unwrap()[0];
    let report = metrics::report(&store, id).await.unwrap().unwrap();
    program.fold_metrics(&store).await.unwrap();
    assert_eq!(program.fold_metrics(&store).await.unwrap(), 1);
    metrics::put_report(&**store.bucket(), &report).await.unwrap();
    assert_eq!(program.fold_metrics(&store).await.unwrap(), 0);
    assert_eq!(metrics::reports(&store).await.unwrap(), []);
    let server = place.process(REPORTS);
    server.read_metrics_totals(&store).await.unwrap();
    assert_eq!(counted(&server, "success"), 1);
}
