//! These tests read project files.

use std::{path::Path, time::Duration};

use engine::failure::Failure;
use store::ErrorKind;

use super::file::{Keep, Project};

fn parse(text: &str) -> Result<Project, Failure> {
    Project::parse(Path::new("/srv/shop.toml"), text)
}

#[test]
fn a_file_says_what_a_project_consists_of() {
    let project = parse(
        r#"
name = "acme/shop"
state = "current"
app_version = "2.4.1"
keep = "one"

[volumes.db]
consistency = "sqlite"
files = ["app.db"]
wait = "500ms"

[volumes.uploads]
consistency = "generic"
path = "/var/uploads"
services = ["web"]

[services.web]
pid_file = "web.pid"

[[hooks.pre_save]]
shell = "sync; true"
on_error = "continue"
"#,
    )
    .unwrap();
    assert_eq!(project.name.to_string(), "acme/shop");
    assert_eq!(project.state, Path::new("/srv/current"));
    assert_eq!(project.keep, Keep::One);
    assert_eq!(project.volumes["db"].path, Path::new("/srv/current/volumes/db"));
    assert_eq!(project.volumes["uploads"].path, Path::new("/var/uploads"));
    assert_eq!(project.pre_save[0].command, ["/bin/sh", "-c", "sync; true"]);
    assert_eq!(project.pre_save[0].time_limit, Duration::from_secs(30));
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let head = "name = \"acme/shop\"\nstate = \"current\"\n";
    for (text, line, problem) in [
        ("name = \"shop\"\nstate = \"x\"\n".to_owned(), 1, "TENANT/PROFILE"),
        (format!("{head}keeep = \"one\"\n"), 3, "keeep"),
        (format!("{head}keep = \"two\"\n"), 3, "two"),
        (format!("{head}[volumes.db]\nconsistency = \"mysql\"\n"), 4, "mysql"),
        (format!("{head}[volumes.db]\nconsistency = \"generic\"\nfiles = [\"a\"]\n"), 3, "\"files\""),
        (format!("{head}[volumes.db]\nconsistency = \"sqlite\"\nfiles = [\"../a\"]\n"), 3, "no path in"),
        (format!("{head}[volumes.db]\nconsistency = \"sqlite\"\nwait = \"soon\"\n"), 5, "no time"),
        (format!("{head}[volumes.pg]\nconsistency = \"postgres\"\n"), 3, "no \"url\""),
        (format!("{head}[volumes.up]\nconsistency = \"generic\"\nservices = [\"w\"]\n"), 3, "\"w\""),
        (format!("{head}[services.web]\n"), 3, "pid_file"),
        (format!("{head}[services.w]\npid_file = \"p\"\nduring_save = \"stop\"\n"), 3, "start it again"),
        (format!("{head}[[hooks.pre_save]]\non_error = \"abort\"\n"), 3, "a hook has"),
        (format!("{head}x = = 1\n"), 3, ""),
    ] {
        let failure = parse(&text).unwrap_err();
        assert!(
            failure.message.starts_with(&format!("/srv/shop.toml, line {line}: ")),
            "{text}: {}",
            failure.message
        );
        assert!(failure.message.contains(problem), "{text}: {}", failure.message);
        assert_eq!(failure.kind, ErrorKind::InvalidInput);
    }
}
