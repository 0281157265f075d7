//! This test runs the Python client's own tests, with the program that was built with these.

use std::{path::Path, process::Command};

use tests::{binary, server::program};

/// Runs a file of the client's tests. Pytest fails if there is none in it.
#[track_caller]
fn python(file: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let client = root.join("clients/python");
    let mut command = Command::new(program("python"));
    command
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"])
        .arg(client.join("tests").join(file));
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("PSTORE_") || name.starts_with("AWS_"))
    {
        command.env_remove(name);
    }
    command
        .current_dir(&client)
        .env("PSTORE_PROGRAM", binary::program())
        .env("PYTHONPATH", format!("{}:{}", client.display(), client.join("tests").display()))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && !said.contains("skipped"), "{said}");
}

#[test]
fn a_profile_is_the_same_through_the_program_and_through_a_server() {
    python("test_doors.py");
}

#[test]
fn a_workspace_is_the_same_through_the_program_and_through_a_server() {
    python("test_workspaces.py");
}

#[test]
fn a_task_blocks_no_loop_and_leaves_nothing_behind_when_it_is_cancelled() {
    python("test_aio.py");
}

#[test]
fn the_package_has_types_runs_on_python_3_9_and_needs_nothing_else() {
    python("test_package.py");
}

#[test]
fn every_example_of_its_page_runs() {
    python("test_docs.py");
}

#[test]
fn what_a_server_does_wrong_is_an_error_of_pstore_and_nothing_is_done_twice() {
    python("test_connection.py");
}
