//! These tests run the program in the layer of the image, as the user that the image names.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::made::{has_all_licences, in_root, package, run};

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_image_has_the_program_alone_and_it_runs_as_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let made = package("image", folder.path());
    let image = folder.path().join("image");
    fs::create_dir(&image).unwrap();
    run(Command::new("tar").arg("-xf").arg(&made).arg("-C").arg(&image));
    let manifest = document(&image.join("manifest.json"));
    let config = document(&image.join(manifest[0]["Config"].as_str().unwrap()));
    let layer = image.join(manifest[0]["Layers"][0].as_str().unwrap());
    let digest = run(Command::new("sha256sum").arg(&layer)).stdout;
    let digest = String::from_utf8(digest).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{digest}"));
    // By its version, and by the name that deploy/ has.
    let tags = [format!("pstore:{}", env!("CARGO_PKG_VERSION")), "pstore:latest".to_owned()];
    assert_eq!(manifest[0]["RepoTags"], serde_json::json!(tags));
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    run(Command::new("tar").args(["-xpf"]).arg(&layer).arg("-C").arg(&root));
    assert!(!root.join("bin/sh").exists() && !root.join("usr/bin/sh").exists());
    has_all_licences(&fs::read_to_string(root.join("usr/share/doc/pstore/third-party")).unwrap());
    let container = |words: &[&str]| {
        let user = config["config"]["User"].as_str().unwrap();
        let variables = config["config"]["Env"].as_array().unwrap().iter();
        let variables: Vec<_> =
            variables.map(|variable| variable.as_str().unwrap().split_once('=').unwrap()).collect();
        in_root(&root, user, &variables, words)
    };
    let entry = config["config"]["Entrypoint"][0].as_str().unwrap();
    assert_eq!(container(&[entry, "-V"]), format!("pstore {}\n", env!("CARGO_PKG_VERSION")));
    fs::create_dir(root.join("tmp/udd")).unwrap();
    fs::write(root.join("tmp/udd/Preferences"), "{}").unwrap();
    container(&[entry, "snapshot", "/tmp/udd", "acme/alice", "--chrome-major", "131"]);
    assert!(container(&[entry, "verify", "acme/alice"]).contains("No damage found"));
}
