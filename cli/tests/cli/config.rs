//! These tests find, join, check and show settings.

use std::fs;

use serde_json::{Value, json};

use crate::test_host::{Ran, TestHost};

const FILE: &str = ".config/pstore/pstore.toml";

fn write(host: &TestHost, below: &str, text: &str) {
    let path = host.path(below);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Value, source and place of one setting.
fn setting(ran: &Ran, key: &str) -> (Value, String, Value) {
    let document = ran.json();
    let lines = document["settings"].as_array().unwrap_or_else(|| panic!("{ran:?}"));
    let line = lines.iter().find(|line| line["key"] == key).unwrap();
    (line["value"].clone(), line["source"].as_str().unwrap().to_owned(), line["from"].clone())
}

#[test]
fn without_a_file_everything_is_the_default() {
    let host = TestHost::new();
    let document = host.json("config show");
    let home = host.path("");
    let home = home.to_str().unwrap().trim_end_matches('/');
    let mut expected = vec![
        ("store", json!(format!("file://{home}/.local/share/pstore/store"))),
        ("cache_dir", json!(format!("{home}/.cache/pstore"))),
        ("session_dir", json!(format!("{home}/.local/state/pstore/sessions"))),
        ("workspace_dir", json!(format!("{home}/.local/state/pstore/workspaces"))),
        ("workspace.auto_max", json!(10)),
        ("workspace.manual_max", json!(12)),
        ("workspace.auto_interval", json!(300)),
        ("workspace.triggers", json!(["run_start", "run_end", "before_action", "after_action"])),
        ("retry_seconds", json!(60)),
        ("s3.endpoint", Value::Null),
        ("s3.region", Value::Null),
        ("s3.path_style", json!(false)),
        ("s3.if_match", Value::Null),
        ("s3.conditional_delete", json!(false)),
        ("host.name", document["settings"][14]["value"].clone()),
        ("host.region", Value::Null),
        ("host.egress_geo", Value::Null),
        ("metrics_textfile", Value::Null),
        ("metrics_reports", json!(false)),
        ("metrics_profiles", json!(1000)),
        ("schedules.reap_seconds", json!(300)),
        ("schedules.retention_seconds", json!(0)),
        ("schedules.gc_seconds", json!(0)),
        ("schedules.verify_seconds", json!(0)),
        ("schedules.verify_parts", json!(30)),
        ("lock_ttl_seconds", json!(300)),
        ("lock_renew_seconds", json!(60)),
        ("max_profile_bytes", json!(8_000_000_000_u64)),
        ("archive", json!("on-demand")),
        ("archive_level", json!(9)),
        ("modes", json!(["cold"])),
        ("upgrade", json!("refuse")),
        ("on_unavailable", json!("fail")),
        ("session_cookies", json!("drop")),
        ("writeback", json!(false)),
        ("quota_bytes", Value::Null),
    ];
    let retention = [
        "keep",
        "tagged_days",
        "max_age_days",
        "max_count",
        "auto",
        "manual",
        "autosave",
        "run_end",
        "commit",
        "before-upgrade",
        "before-restore",
        "before-rollback",
        "import",
        "max_bytes",
        "tenant_max_count",
        "tenant_max_bytes",
    ];
    let retention = retention.map(|name| format!("retention.{name}"));
    expected.extend(retention.iter().map(|name| (name.as_str(), Value::Null)));
    let settings: Vec<Value> = expected
        .into_iter()
        .map(|(key, value)| json!({ "key": key, "value": value, "source": "default", "from": null }))
        .collect();
    let expected = json!({
        "file": null,
        "tenant_id": null,
        "profile_id": null,
        "settings": settings,
        "tenants": [],
        "profiles": [],
    });
    assert_eq!(document, expected);
    assert!(!host.path(".local").exists() && !host.path(".cache").exists());
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let host = TestHost::new();
    write(&host, FILE, "store = \"file:///from-file\"\n\n[s3]\nregion = \"file-1\"\n");
    let file = format!("{}:1", host.path(FILE).display());
    let found = |ran: &Ran| setting(ran, "store");
    let line = "config show --json";
    assert_eq!(found(&host.run(line)), (json!("file:///from-file"), "file".to_owned(), json!(file)));
    let variables = [("PSTORE_STORE", "file:///from-env")];
    let ran = host.run_with(line, &variables);
    assert_eq!(found(&ran), (json!("file:///from-env"), "environment".to_owned(), json!("PSTORE_STORE")));
    let ran = host.run_with("config show --json --store file:///from-flag", &variables);
    assert_eq!(found(&ran), (json!("file:///from-flag"), "flag".to_owned(), json!("--store")));
    // What is set to nothing is not set.
    let ran = host.run_with(line, &[("PSTORE_STORE", "")]);
    assert_eq!(found(&ran).1, "file");
}

#[test]
fn the_text_is_aligned_and_says_where_values_come_from() {
    let host = TestHost::new();
    write(&host, FILE, "[tenants.acme]\narchive = \"always\"\n");
    let ran = host.run_with("config show --no-cache", &[("PSTORE_MODES", "hot,cold")]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let column = lines[0].find("VALUE").unwrap();
    for line in &lines[1..24] {
        assert_eq!(&line[column - 2..column], "  ", "{line}");
    }
    let cache = lines.iter().find(|line| line.starts_with("cache_dir ")).unwrap();
    assert!(cache.ends_with(" flag --no-cache"), "{cache}");
    for text in ["hot, cold", "environment PSTORE_MODES", "on-demand", "Other settings for acme"] {
        assert!(ran.stdout.contains(text), "{text:?}: {ran:?}");
    }
    let text = host.ok("config show acme");
    let place = format!("file {}:2", host.path(FILE).display());
    assert!(text.lines().any(|line| line.starts_with("archive ") && line.ends_with(&place)), "{text}");
}

#[test]
fn a_tenant_has_its_own_section_before_the_one_for_all() {
    let host = TestHost::new();
    let text = "[defaults]\nlock_ttl_seconds = 100\nmax_profile_bytes = \"512MiB\"\nretention.max_count = 7\n\
                [tenants.acme]\nlock_ttl_seconds = 200\nretention.keep = \"one\"\n";
    write(&host, FILE, text);
    let value = |line: &str, key: &str| setting(&host.run(&format!("{line} --json")), key).0;
    assert_eq!(value("config show", "lock_ttl_seconds"), 100);
    assert_eq!(value("config show", "lock_renew_seconds"), 20);
    assert_eq!(value("config show other", "lock_ttl_seconds"), 100);
    assert_eq!(value("config show acme", "lock_ttl_seconds"), 200);
    assert_eq!(value("config show acme", "max_profile_bytes"), 512 << 20);
    assert_eq!(value("config show acme", "retention.keep"), "one");
    assert_eq!(value("config show acme", "retention.max_count"), 7);
    assert_eq!(value("config show", "retention.keep"), Value::Null);
    // The environment is before both.
    let ran = host.run_with("config show acme --json", &[("PSTORE_LOCK_TTL_SECONDS", "50")]);
    assert_eq!(setting(&ran, "lock_ttl_seconds").0, 50);
    assert_eq!(host.json("config show acme")["tenant_id"], "acme");
    assert_eq!(host.json("config show")["tenants"], json!(["acme"]));
    host.run("config show a:b").refused(2, &["invalid tenant name"]);
}

#[test]
fn a_file_is_named_or_found_and_only_a_named_one_must_exist() {
    let host = TestHost::new();
    let named = |ran: Ran| ran.json()["file"].as_str().map(ToOwned::to_owned);
    write(&host, "xdg/pstore/pstore.toml", "");
    write(&host, "mine.toml", "");
    assert_eq!(named(host.run("config show --json")), None);
    let xdg = host.path("xdg");
    let xdg = ("XDG_CONFIG_HOME", xdg.to_str().unwrap());
    let found = named(host.run_with("config show --json", &[xdg])).unwrap();
    assert!(found.ends_with("xdg/pstore/pstore.toml"), "{found}");
    let variable = ("PSTORE_CONFIG", "mine.toml");
    assert_eq!(named(host.run_with("config show --json", &[xdg, variable])).unwrap(), "mine.toml");
    let ran = host.run_with("config show --json --config /dev/null", &[xdg, variable]);
    assert_eq!(named(ran).unwrap(), "/dev/null");
    host.run("list --config nowhere.toml").refused(2, &["there is no configuration file nowhere.toml"]);
    host.run_with("list", &[("PSTORE_CONFIG", "nowhere.toml")]).refused(2, &["PSTORE_CONFIG names it"]);
    host.run("config show --config udd").refused(6, &["cannot read the configuration file udd"]);
}

#[test]
fn mistakes_are_told_with_file_line_and_what_was_meant() {
    let host = TestHost::new();
    write(&host, "bad.toml", "[defaults]\n\nlock_ttl_second = 9\n");
    let ran = host.run("list --config bad.toml");
    ran.refused(
        2,
        &["bad.toml:3: there is no setting \"lock_ttl_second\"", "did you mean lock_ttl_seconds?"],
    );
    assert_eq!(host.json("config show --config bad.toml")["error"]["kind"], "invalid_input");
    write(&host, "bad.toml", "[defaults]\narchive_level = 40\n");
    host.run("list --config bad.toml").refused(2, &["bad.toml:2: archive_level is 40", "from 1 to 22"]);
    write(&host, "bad.toml", "store = \n");
    host.run("list --config bad.toml").refused(2, &["bad.toml:1: "]);
    write(&host, "bad.toml", "[tenants.\"a/b\"]\n");
    host.run("list --config bad.toml").refused(2, &["bad.toml:1: invalid tenant name \"a/b\""]);
    host.run_with("config show", &[("PSTORE_ARCHIVE", "never")])
        .refused(2, &["PSTORE_ARCHIVE is \"never\"; it takes on-demand or always"]);
    host.run_with("list", &[("PSTORE_S3_PATH_STYLE", "perhaps")]).refused(2, &["it takes true or false"]);
}

#[test]
fn a_lock_that_would_be_renewed_too_late_is_refused() {
    let host = TestHost::new();
    write(&host, FILE, "[tenants.acme]\nlock_ttl_seconds = 60\nlock_renew_seconds = 31\n");
    host.run("config show")
        .refused(2, &["lock_renew_seconds is 31 (file ", "lock_ttl_seconds for acme is 60"]);
    let ran = host.run_with("config show", &[("PSTORE_LOCK_RENEW_SECONDS", "30")]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn commands_go_by_the_file() {
    let host = TestHost::new();
    let store = host.path("elsewhere");
    let text =
        format!("store = \"file://{}\"\n[host]\nname = \"box-7\"\nregion = \"moon-1\"\n", store.display());
    write(&host, FILE, &text);
    host.ok("snapshot udd acme/alice --no-cache");
    assert!(store.exists() && !host.path(".local").exists() && !host.path(".cache").exists());
    let record = host.json("show acme/alice");
    assert_eq!(record["captured_by"]["host"], "box-7");
    assert_eq!(record["captured_in"]["host_region"], "moon-1");
    host.ok("snapshot udd acme/bob --host other --host-region mars-1");
    let record = host.json("show acme/bob");
    assert_eq!(record["captured_by"]["host"], "other");
    assert_eq!(record["captured_in"]["host_region"], "mars-1");
}

#[test]
fn variables_of_aws_come_after_everything_of_pstore() {
    let host = TestHost::new();
    let aws = [("AWS_ENDPOINT_URL", "http://aws:1"), ("AWS_ENDPOINT_URL_S3", "http://aws-s3:1")];
    let ran = host.run_with("config show --json", &aws);
    let endpoint = setting(&ran, "s3.endpoint");
    assert_eq!((endpoint.0, endpoint.2), (json!("http://aws-s3:1"), json!("AWS_ENDPOINT_URL_S3")));
    assert_eq!(setting(&ran, "s3.region").0, "us-east-1");
    assert_eq!(setting(&ran, "s3.path_style").0, true);
    write(&host, FILE, "[s3]\nendpoint = \"http://file:1\"\n");
    assert_eq!(setting(&host.run_with("config show --json", &aws), "s3.endpoint").0, "http://file:1");
}

#[test]
fn what_a_flag_decides_may_be_wrong_elsewhere() {
    let host = TestHost::new();
    let wrong = [("PSTORE_S3_ENDPOINT", "nonsense"), ("AWS_ENDPOINT_URL", "nonsense")];
    host.run_with("config show", &wrong).refused(2, &["is no endpoint"]);
    let ran = host.run_with("config show --json --endpoint http://right:1", &wrong);
    assert_eq!(setting(&ran, "s3.endpoint").0, "http://right:1");
}

#[test]
fn a_profile_with_rules_of_its_own_is_shown() {
    let host = TestHost::new();
    let folder = host.path(".config/pstore");
    fs::create_dir_all(&folder).unwrap();
    let text =
        "[tenants.acme]\nretention.keep = 5\n[tenants.acme.profiles.alice]\nretention.keep = \"one\"\n";
    fs::write(folder.join("pstore.toml"), text).unwrap();
    let keep = |line: &str| {
        let document = host.json(line);
        let settings = document["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == "retention.keep").unwrap()["value"].clone()
    };
    assert_eq!(keep("config show acme"), 5);
    assert_eq!(keep("config show acme/alice"), "one");
    assert_eq!(keep("config show acme/bob"), 5);
    let text = host.ok("config show acme");
    assert!(text.ends_with("Other settings for acme/alice\n"), "{text}");
}
