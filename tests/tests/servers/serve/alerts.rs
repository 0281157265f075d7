//! These tests have promtool read and try the alerts, and compare alerts, runbooks and dashboard with the metrics there
//! are.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use super::Scene;

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)
}

#[track_caller]
fn promtool(arguments: &[&str]) -> Output {
    let ran = Command::new("promtool").args(arguments).current_dir(at_root("deploy/prometheus")).output();
    ran.unwrap_or_else(|error| panic!("scripts/setup test installs promtool: {error}"))
}

fn text(path: &str) -> String {
    fs::read_to_string(at_root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The words of a text that begin with what names of metrics begin with.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("mantis_profile_") || word.starts_with("pstore_")).collect()
}

/// The queries of the dashboard.
pub(super) fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/pstore.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    queries.map(|query| query.replace("$__rate_interval", "5m").replace("$host", ".*")).collect()
}

#[test]
fn every_alert_fires_on_its_scenario_and_on_no_other() {
    let tried = promtool(&["test", "rules", "alerts_test.yml"]);
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));
    let (rules, scenarios) =
        (text("deploy/prometheus/alerts.yml"), text("deploy/prometheus/alerts_test.yml"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let count = scenarios.lines().filter(|line| line.starts_with("  - name: ")).count();
    for alert in &alerts {
        // Each is expected to fire somewhere, and every scenario says whether.
        assert!(scenarios.contains(&format!("        alertname: {alert}\n        exp_alerts:\n")), "{alert}");
        assert_eq!(scenarios.matches(&format!("alertname: {alert}")).count(), count, "{alert}");
    }
    assert_eq!(alerts.len(), 10);
}

#[test]
fn every_alert_has_a_runbook_that_says_what_to_type() {
    let (rules, list) = (text("deploy/prometheus/alerts.yml"), text("docs/runbooks/README.md"));
    let mut alert = "";
    for line in rules.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alert = name;
        }
        if let Some(page) = line.strip_prefix("runbook_url: ") {
            let runbook = text(page);
            assert!(runbook.starts_with(&format!("# {alert}\n")), "{page}");
            assert!(runbook.contains("\n```\npstore ") && runbook.contains("## Do\n"), "{page}");
            assert!(list.contains(&format!("| {alert} | ")), "{alert} is not in the list");
        }
    }
}

#[test]
fn alerts_dashboard_and_documentation_name_metrics_that_there_are() {
    let scene = Scene::new();
    let shown = scene.host.succeed(["metrics"]);
    let named = shown["metrics"].as_array().unwrap().iter().map(|metric| metric["name"].as_str().unwrap());
    let mut known: BTreeSet<String> = named.map(str::to_owned).collect();
    let rest = [
        "mantis_profile_snapshot_archive_size_bytes",
        "pstore_profile_last_good_snapshot_timestamp_seconds",
        "pstore_profile_last_load_timestamp_seconds",
        "pstore_profile_login_lapse_timestamp_seconds",
        "pstore_process_start_time_seconds",
        "pstore_process_resident_memory_bytes",
        "pstore_process_open_fds",
        "pstore_process_cpu_seconds_total",
    ];
    known.extend(rest.map(str::to_owned));
    let documented = text("docs/metrics.md");
    for name in &known {
        assert!(documented.contains(&format!("`{name}`")), "{name} is not documented");
    }
    let (rules, queries) = (text("deploy/prometheus/alerts.yml"), queries().join("\n"));
    for name in metrics_in(&rules).into_iter().chain(metrics_in(&queries)) {
        let family = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(known.contains(family), "there is no {name}");
    }
}
