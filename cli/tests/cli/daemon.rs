//! The daemon of a mount, asked by a pstore of another version.

use std::fs;

use serde_json::json;

use super::desk::Desk;

struct Unmounted<'a>(&'a Desk);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        self.0.run("unmount mnt --discard");
    }
}

#[test]
fn a_daemon_refuses_what_it_does_not_understand_and_stays() {
    let desk = Desk::new();
    desk.ok("snapshot udd acme/alice");
    fs::create_dir(desk.path("mnt")).unwrap();
    let _unmounted = Unmounted(&desk);
    desk.ok("mount acme/alice mnt");
    let mounted = desk.json("mounts");
    let session = mounted["mounts"][0]["session"].as_str().unwrap();
    let session = desk.path(".local/state/pstore/sessions").join(session);
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
    assert_eq!(desk.json("mounts")["mounts"].as_array().unwrap().len(), 1);
    desk.ok("unmount mnt");
}
