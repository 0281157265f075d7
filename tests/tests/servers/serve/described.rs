//! This test has schemathesis send what the description allows, and what it does not: every answer must be one that it
//! allows.

use std::{fs, process::Command};

use tests::{
    binary::Host,
    served::{Served, Tokens},
    server::{SeaweedFs, program},
};

use super::captured;

/// A server may have too much to do; nothing else with 5 is an answer.
const CHECKS: &str =
    "[checks.not_a_server_error]\nexpected-statuses = [\"2xx\", \"3xx\", \"4xx\", \"503\"]\n";

/// Leads to what is there, which nobody finds by chance.
const KNOWN: &str = r#"
[parameters]
"path.tenant_id" = "acme"
"path.profile_id" = "alice"
"path.sha_prefix" = "latest"
"path.other_sha_prefix" = "latest"
"path.path" = "Preferences"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_one_that_the_description_allows() {
    let bucket = SeaweedFs::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let host = Host::s3(&folder.path().join("home"), &bucket.config());
    let tokens = Tokens::new(folder.path());
    for text in ["first", "second", "third"] {
        captured(&host, folder.path(), "acme/alice", text);
    }
    let [acme, all] = ["acme", "*"].map(|tenant| tokens.add(&host, tenant, "admin"));
    let server = Served::start_with(&host, &tokens.path, &["--rate", "100000"]);
    for (name, secret, parameters) in [("by-chance", acme, ""), ("known", all, KNOWN)] {
        let config = folder.path().join(format!("{name}.toml"));
        fs::write(&config, format!("{CHECKS}{parameters}")).unwrap();
        let ended = Command::new(program("schemathesis"))
            .current_dir(folder.path())
            .arg("--config-file")
            .arg(&config)
            .args(["run", &format!("http://{}/openapi.json", server.address)])
            .args(["-H", &format!("Authorization: Bearer {secret}")])
            .args(["--phases", "coverage,fuzzing", "--max-examples", "10", "--seed", "7", "--no-color"])
            .args(["--request-timeout", "60", "--warnings", "off", "--continue-on-failure"])
            // Some of what is refused is more than a schema can say: that it names nothing, or that it is over.
            .args(["--checks", "all", "--exclude-checks", "positive_data_acceptance"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert!(!server.said().contains("panic"), "{}", server.said());
}
