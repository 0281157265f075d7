//! These tests ask the daemon of a mount as a pstore of another version would.

use std::fs;

use engine::{captures::CaptureOptions, names::ActorName, verbs::commit::CommitRequest};
use serde_json::json;
use store::format::record::Reason;

use super::test_host::TestHost;

struct Unmounted<'a>(&'a TestHost);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        self.0.run("unmount mnt --discard");
    }
}

#[test]
fn a_daemon_refuses_what_it_does_not_understand_and_stays() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    fs::create_dir(host.path("mnt")).unwrap();
    let _unmounted = Unmounted(&host);
    host.ok("mount acme/alice mnt");
    let mounted = host.json("mounts");
    let session = mounted["mounts"][0]["session"].as_str().unwrap();
    let session = host.path(".local/state/pstore/sessions").join(session);
    let requests = [
        // As a pstore sent it that knew only command lines.
        json!({ "words": ["pstore", "unmount", "mnt", "--discard"] }),
        json!({ "writer": "pstore 9.0.0", "verb": "freeze", "request": {} }),
        json!({ "writer": "pstore 9.0.0", "verb": "unmount", "request": { "gently": true } }),
    ];
    for request in requests {
        let said = fuse::mount::control::ask(&session, &request).unwrap();
        assert_eq!(said["error"]["kind"], json!("invalid_input"), "{request}: {said}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.contains("the mount was started by"), "{request}: {message}");
    }
    assert_eq!(host.json("mounts")["mounts"].as_array().unwrap().len(), 1);
    host.ok("unmount mnt");
}

/// A daemon cannot know that a request came from our command line, which would have refused these.
#[test]
fn a_daemon_refuses_a_commit_that_nobody_may_ask_for() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    fs::create_dir(host.path("mnt")).unwrap();
    let _unmounted = Unmounted(&host);
    host.ok("mount acme/alice mnt");
    fs::write(host.path("mnt/new"), "new").unwrap();
    let mounted = host.json("mounts");
    let session = mounted["mounts"][0]["session"].as_str().unwrap();
    let session = host.path(".local/state/pstore/sessions").join(session);
    let good = || CaptureOptions::new(Reason::Commit);
    let loud = ActorName { host: Some("\x1b[31mred".to_owned()), ..ActorName::default() };
    let refused = [
        CaptureOptions { reason: Reason::moving(), ..good() },
        CaptureOptions { actor: loud, ..good() },
        CaptureOptions { labels: vec![(String::new(), "value".to_owned())], ..good() },
    ];
    for capture in refused {
        let request = CommitRequest { capture, ..CommitRequest::new(host.path("mnt")) };
        let call = json!({ "writer": "another program", "verb": "commit", "request": request });
        let said = fuse::mount::control::ask(&session, &call).unwrap();
        assert_eq!(said["error"]["kind"], json!("invalid_input"), "{call}: {said}");
    }
    host.ok("unmount mnt --commit");
    assert_eq!(host.json("list acme/alice")["snapshots"].as_array().unwrap().len(), 2);
}
