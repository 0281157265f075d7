//! These tests export archives.

use std::fs;

use crate::test_host::TestHost;

#[test]
fn stdout_is_the_archive_that_a_directory_gets() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    for options in ["", " --splice", " --level 1 --whole-seconds"] {
        let exported = host.json(&format!("export acme/alice -o archives{options}"));
        let archive = fs::read(host.path(exported["archive"].as_str().unwrap())).unwrap();
        assert_eq!(archive.len() as u64, exported["archive_size_bytes"].as_u64().unwrap());
        let piped = host.command(&format!("export acme/alice -o -{options}")).output().unwrap();
        assert!(piped.status.success(), "{piped:?}");
        assert!(piped.stdout == archive, "{options}");
        let told = String::from_utf8(piped.stderr).unwrap();
        assert!(told.contains(exported["archive_sha256"].as_str().unwrap()), "{told}");
    }
    let names = fs::read_dir(host.path("archives")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("profile-")), "{names:?}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host.run("export acme/alice").refused(2, &["--output"]);
    host.run("export acme/alice -o archives --publish").refused(2, &["--publish"]);
    host.run("export acme/alice -o archives --level 3 --splice").refused(2, &["--splice"]);
    host.run("export acme/alice -o archives --level 23").refused(2, &["23"]);
    host.run("export acme/alice -o archives --sha ffff00001111").refused(3, &["ffff00001111"]);
    let piped = host.command("export acme/alice -o - --json").output().unwrap();
    assert_eq!(piped.status.code(), Some(2));
    assert!(!host.path("archives").exists());
}

#[test]
fn an_archive_that_is_compressed_in_another_way_is_refused_with_the_command_that_changes_it() {
    let host = TestHost::new();
    let plain = [vec![0; 257], b"ustar".to_vec(), vec![0; 250]].concat();
    for (file, start, kind, reader) in [
        ("plain.tar", plain.as_slice(), "not compressed", "cat"),
        ("plain.tar.gz", b"\x1f\x8b\x08", "gzip", "gunzip -c"),
        ("plain.tar.xz", b"\xfd7zXZ\0", "xz", "unxz -c"),
        ("plain.tar.bz2", b"BZh9", "bzip2", "bunzip2 -c"),
    ] {
        std::fs::write(host.path(file), start).unwrap();
        let refused = host.run(&format!("import {file} acme/alice --chrome-major 131"));
        assert_eq!(refused.code, 33, "{refused:?}");
        assert!(refused.stderr.contains(kind), "{refused:?}");
        let advice = format!("`{reader} {file} | zstd | pstore import - acme/alice --chrome-major 131`");
        assert!(refused.stderr.contains(&advice), "{refused:?}");
    }
}
