//! These tests compare the documents of `pstore container` with those that are kept.

use std::{collections::BTreeSet, fs};

use tests::docker::Daemon;

use crate::{documents::Keeper, test_host::TestHost};

#[test]
fn documents_of_containers_are_those_that_are_kept() {
    let host = TestHost::new();
    let daemon = Daemon::start();
    let mut keeper = Keeper { host: &host, names: BTreeSet::new(), wrong: Vec::new() };
    let at = format!("--docker-host {}", daemon.address());
    let create = ["create", "--name", "web", "--hostname", "web", "--volume", "data:/data"];
    daemon.docker(&[&create[..], &["--volume", "/etc:/host:ro", "busybox:test", "sh"]].concat());
    fs::write(host.path("file"), "hello").unwrap();
    daemon.docker(&["cp", host.path("file").to_str().unwrap(), "web:/data/file"]);
    let snapshot = format!("container snapshot web acme/web {at}");
    let first = keeper.keep("container-snapshot", &format!("{snapshot} --trigger run_start"));
    keeper.keep("container-snapshot.failed", &format!("{snapshot} --timeout 0 --fail-open"));
    host.ok(&snapshot);
    keeper.keep("container-list", "container list acme");
    keeper.keep("container-show", "container show acme/web");
    keeper.keep("container-stats", "container stats acme");
    let first = first["sha256_prefix"].as_str().unwrap();
    daemon.docker(&["rm", "web"]);
    daemon.docker(&["volume", "rm", "data"]);
    let restore = format!("container restore acme/web@{first} --name again {at}");
    keeper.keep("container-restore.planned", &format!("{restore} --dry-run"));
    keeper.keep("container-restore", &restore);
    keeper.keep("container-delete", &format!("container delete acme/web@{first}"));
    assert!(keeper.wrong.is_empty(), "{}", keeper.wrong.join("\n"));
}
