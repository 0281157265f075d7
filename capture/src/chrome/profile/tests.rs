//! These tests read the facts in profiles, also where files are missing or odd.

use super::*;

fn with(preferences: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (profile, text) in preferences {
        fs::create_dir(dir.path().join(profile)).unwrap();
        fs::write(dir.path().join(profile).join("Preferences"), text).unwrap();
    }
    dir
}

fn exit(word: &str) -> String {
    format!(r#"{{"a": [1, {{"profile": 3}}], "profile": {{"exit_type": "{word}", "name": "x"}}}}"#)
}

#[test]
fn facts_are_read_where_they_are_and_left_open_where_not() {
    let dir = tempfile::tempdir().unwrap();
    let bare = Facts::read(dir.path());
    let path_bytes = dir.path().canonicalize().unwrap().as_os_str().len();
    assert_eq!(bare, Facts { path_bytes, ..Facts::default() });
    fs::write(dir.path().join("Last Version"), "131.0.6778.85\n").unwrap();
    fs::write(dir.path().join("Local State"), "{}").unwrap();
    fs::create_dir(dir.path().join("Default")).unwrap();
    let preferences = dir.path().join("Default/Preferences");
    fs::write(&preferences, exit("Crashed")).unwrap();
    let facts = Facts::read(dir.path());
    assert_eq!(facts.major().map(u64::from), Some(131));
    assert_eq!(facts.exit_type.as_deref(), Some("Crashed"));
    assert!(facts.has_local_state && facts.says_crashed && !facts.path_is_too_long());
    fs::write(&preferences, "{").unwrap();
    fs::write(dir.path().join("Last Version"), "tomorrow").unwrap();
    let facts = Facts::read(dir.path());
    assert_eq!((facts.last_version, facts.exit_type), (None, None));
}

#[test]
fn the_worst_exit_of_all_profiles_counts() {
    let (normal, ended) = (exit("Normal"), exit("SessionEnded"));
    let dir = with(&[("Default", &normal), ("Profile 2", &ended), ("Profile 10", &normal)]);
    let facts = Facts::read(dir.path());
    assert_eq!(facts.exit_type.as_deref(), Some("SessionEnded"));
    assert_eq!(facts.profiles, ["Default", "Profile 10", "Profile 2"]);
    assert!(!facts.says_crashed);
    let unclean = r#"{"profile": {"exited_cleanly": false}}"#;
    let dir = with(&[("Default", &normal), ("Profile 1", unclean), ("Crashpad", &exit("Crashed"))]);
    let facts = Facts::read(dir.path());
    assert_eq!((facts.exit_type.as_deref(), facts.exited_cleanly), (Some("Normal"), Some(false)));
    assert!(facts.says_crashed);
    let forgotten = r#"{"profile": {"exited_cleanly": false, "exit_type": "Normal"}}"#;
    assert!(!Facts::read(with(&[("Default", forgotten)]).path()).says_crashed);
}

#[test]
fn odd_files_are_left_unread() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("Default/Preferences")).unwrap();
    fs::create_dir(dir.path().join("Profile 1")).unwrap();
    let huge = fs::File::create(dir.path().join("Profile 1/Preferences")).unwrap();
    huge.set_len(1 << 40).unwrap();
    std::os::unix::fs::symlink("/", dir.path().join("Profile 2")).unwrap();
    fs::create_dir(dir.path().join("Profile 3")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("Profile 3/Preferences")).unwrap();
    let fifo = dir.path().join("Last Version");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::from(0o600), 0).unwrap();
    fs::create_dir(dir.path().join("Profile 4")).unwrap();
    let deep = format!("{{\"x\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    fs::write(dir.path().join("Profile 4/Preferences"), deep).unwrap();
    let facts = Facts::read(dir.path());
    assert_eq!((facts.last_version, facts.exit_type), (None, None));
}
