//! These tests have triggers ask for checkpoints: a trigger never harms the agent, neither by an error nor by making it
//! wait.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Signal, kill_process},
};
use serde_json::{Value, json};
use tests::{
    binary::{Ended, Host, Running, program},
    server::SeaweedFs,
};

use crate::fixture::{Desk, until};

const TRIGGER: [&str; 2] = ["--trigger", "before_action"];

/// Waits for a command that must not wait for anybody.
#[track_caller]
fn ended(mut running: Running) -> Ended {
    let began = Instant::now();
    while running.runs() {
        // Somebody who waits for a lock does so for half a minute, and for a store for longer.
        if began.elapsed() > Duration::from_secs(25) {
            let _ = running.kill();
            panic!("it waits for ever");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    running.wait()
}

/// A trigger of the project on this host, which goes on though there is no checkpoint.
#[track_caller]
fn failed(host: &Host, desk: &Desk, words: &str) -> Value {
    let project = desk.project.to_str().unwrap();
    let ended = ended(host.start([&["checkpoint", project], &TRIGGER[..]].concat()));
    assert_eq!((ended.code, &ended.document["outcome"]), (Some(0), &json!("failed")), "{ended:#?}");
    let warning = ended.document["warning"].as_str().unwrap();
    assert!(warning.contains(words) && ended.stderr.contains(words), "no {words:?} in {ended:#?}");
    ended.document
}

#[test]
fn a_trigger_that_cannot_be_served_warns_and_succeeds() {
    let desk = Desk::new();
    desk.write("file", "1");
    failed(&desk.host, &desk, "is no workspace");
    desk.start(&[]);
    let elsewhere = format!("file://{}", desk.folder.path().join("elsewhere").display());
    failed(&desk.host.clone().with("PSTORE_STORE", &elsewhere), &desk, "the checkpoints of");
    failed(&desk.host.clone().with("PSTORE_STORE", "nowhere"), &desk, "nowhere");
    let config = desk.folder.path().join("pstore.toml");
    fs::write(&config, "no table").unwrap();
    let broken = desk.host.clone().with("PSTORE_CONFIG", config.to_str().unwrap());
    failed(&broken, &desk, "pstore.toml");
    // Who asks for one that stays is told so by the code.
    broken.fail(2, ["checkpoint", desk.project.to_str().unwrap()]);
    let slots = desk.state().join("slots.json");
    fs::write(&slots, "{").unwrap();
    failed(&desk.host, &desk, "slots.json is damaged");
    fs::remove_file(&slots).unwrap();
    fs::remove_dir_all(&desk.project).unwrap();
    failed(&desk.host, &desk, "cannot be read");
}

#[test]
fn a_watcher_that_does_not_answer_keeps_no_trigger_waiting() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.watch(&["--auto-interval", "604800"]);
    let watcher = desk.watcher().unwrap();
    kill_process(watcher, Signal::STOP).unwrap();
    desk.write("file", "2");
    failed(&desk.host, &desk, "does not answer");
    let status = desk.run("workspace status", &[]);
    assert_eq!(status["failed_checkpoints"], 1, "{status:#}");
    // The next one does not try it again before an interval is over.
    assert_eq!(desk.run("checkpoint", &TRIGGER)["outcome"], "too_soon");
    kill_process(watcher, Signal::CONT).unwrap();
    desk.run("checkpoint", &["--name", "after"]);
}

#[test]
fn somebody_who_changes_the_workspace_keeps_no_trigger_waiting() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.start(&[]);
    let lock = fs::File::options().write(true).open(desk.state().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    failed(&desk.host, &desk, "another process is changing");
    drop(lock);
    desk.write("file", "2");
    assert_eq!(desk.run("checkpoint", &TRIGGER)["outcome"], "created");
}

#[test]
fn somebody_elses_lock_of_the_lineage_keeps_no_trigger_waiting() {
    for of_mount in [false, true] {
        let desk = match of_mount {
            true => Desk::mounted("acme/base", 131),
            false => Desk::new(),
        };
        desk.write("file", "1");
        desk.start(&[]);
        let of_lineage = ["acme/agent-7", "--chrome-major", "65535"];
        let acquire = [&["lock", "acquire"], &of_lineage[..], &["--run-id", "the-upgrade"]].concat();
        let held = desk.host.succeed(acquire);
        desk.write("file", "2");
        failed(&desk.host, &desk, "the-upgrade");
        let status = desk.run("workspace status", &[]);
        assert_eq!(status["failed_checkpoints"], 1, "{status:#}");
        let token = held["token"].as_str().unwrap();
        desk.host.succeed([&["lock", "release"], &of_lineage[..], &["--token", token]].concat());
        desk.run("checkpoint", &["--name", "after"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_keeps_no_trigger_waiting() {
    let server = SeaweedFs::shared().await;
    let mut desk = Desk::new();
    desk.host = Host::s3(&desk.folder.path().join("home"), &server.config());
    desk.write("file", "1");
    desk.start(&[]);
    desk.write("file", "2");
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    failed(&desk.host.clone().with("PSTORE_S3_ENDPOINT", &endpoint), &desk, "has not answered");
    let status = desk.run("workspace status", &[]);
    assert_eq!(status["failed_checkpoints"], 1, "{status:#}");
    desk.run("checkpoint", &["--name", "after"]);
}

#[test]
fn the_configuration_says_which_triggers_take_checkpoints() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.start(&["--auto-interval", "1"]);
    let project = desk.project.to_str().unwrap();
    let outcome = |triggers: &str, trigger: &str| {
        let host = desk.host.clone().with("PSTORE_WORKSPACE_TRIGGERS", triggers);
        host.succeed(["checkpoint", project, "--trigger", trigger])["outcome"].clone()
    };
    desk.write("file", "2");
    assert_eq!(outcome("run_start, run_end", "before_action"), "switched_off");
    assert_eq!(outcome("none", "run_end"), "switched_off");
    assert_eq!(outcome("none", "manual"), "created");
    desk.write("file", "3");
    assert_eq!(outcome("run_end", "run_end"), "created");
}

/// What the manual says between a fence of this kind and the next.
fn block<'a>(page: &'a str, kind: &str) -> &'a str {
    let hooks = page.split_once("### Hooks").unwrap().1;
    hooks.split_once(&format!("```{kind}\n")).unwrap().1.split_once("\n```").unwrap().0
}

#[test]
fn the_hooks_of_the_manual_take_checkpoints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/workspaces.md");
    let page = fs::read_to_string(page).unwrap();
    let desk = Desk::new();
    let home = desk.project.parent().unwrap();
    desk.write("file", "1");
    desk.watch(&["--auto-interval", "1"]);
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program().parent().unwrap().display());
    let shell = |script: &str, words: &[&str]| {
        let mut command = Command::new(words[0]);
        desk.host.prepare(&mut command);
        let state = home.join("home/.local/state/pstore/workspaces");
        command.args(&words[1..]).arg(script).env("PATH", &path).env("PSTORE_WORKSPACE_DIR", state);
        command.env("HOME", home).env("CLAUDE_PROJECT_DIR", &desk.project).stdin(Stdio::null());
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{script}: {ended:?}");
    };
    let is_taken = |trigger: &str, run: &str| {
        let list = desk.run("workspace list", &[]);
        let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
        let mut all = list["checkpoints"].as_array().unwrap().iter();
        all.any(|one| text(one, "trigger") == trigger && text(one, "run_id").starts_with(run))
    };
    // As a shell does before it asks for the next command.
    let script = format!("{}\necho changed > project/file\neval \"$PROMPT_COMMAND\"", block(&page, "sh"));
    until(|| {
        shell(&format!("cd \"$HOME\"\n{script}"), &["bash", "-c"]);
        is_taken("after_action", "shell-")
    });
    let settings: Value = serde_json::from_str(block(&page, "json")).unwrap();
    let hook = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    let mut round = 0;
    until(|| {
        round += 1;
        desk.write("file", &format!("round {round}"));
        shell(hook, &["sh", "-c"]);
        is_taken("before_action", "")
    });
    // It must not keep an agent from its work, whatever is wrong.
    desk.kill_watcher();
    fs::remove_file(desk.state().join("workspace.json")).unwrap();
    shell(hook, &["sh", "-c"]);
}
