//! These tests run a command under the lock.

use std::{fs, process::Stdio, time::Duration};

use crate::test_host::{Ran, TestHost, ended, signal, until};

/// Renews every second.
const QUICK: [(&str, &str); 2] = [("PSTORE_LOCK_TTL_SECONDS", "60"), ("PSTORE_LOCK_RENEW_SECONDS", "1")];

fn stored() -> TestHost {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host
}

/// `pstore lock hold` around a line for the shell.
fn hold(host: &TestHost, options: &str, script: &str) -> std::process::Command {
    let mut command = host.command(&format!("lock hold acme/alice {options} --"));
    command.args(["sh", "-c", script]).envs(QUICK).env("PSTORE", env!("CARGO_BIN_EXE_pstore"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn held(host: &TestHost, options: &str, script: &str) -> Ran {
    Ran::of("lock hold", hold(host, options, script).output().unwrap())
}

#[test]
fn a_command_finds_its_token_and_may_take_a_snapshot_with_it() {
    let host = stored();
    host.change("by the command");
    let script = "$PSTORE lock show acme/alice && $PSTORE snapshot udd acme/alice";
    let ran = held(&host, "--run-id run-7 --host h7", script);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("holder    run-7, h7\n") && ran.stdout.contains("pointer  moved from"),
        "{ran:?}"
    );
    assert_eq!(host.lock_state(), "free");
    assert_eq!(
        host.event("flip")["by"]["run_id"],
        "run-7",
        "the command acts for the run that holds the lock"
    );
    // Nobody else could have.
    let ran =
        held(&host, "", "env -u PSTORE_LOCK_TOKEN $PSTORE snapshot udd acme/alice --rescan --label a=b");
    ran.refused(24, &["is locked by run"]);
}

#[test]
fn the_commands_exit_code_is_passed_on() {
    let host = stored();
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill $$", 143)]
    {
        assert_eq!(held(&host, "", script).code, code, "{script}");
        assert_eq!(host.lock_state(), "free", "{script}");
    }
    let document = held(&host, "--json", "exit 3").json();
    assert_eq!((&document["outcome"], &document["command_exit_code"]), (&"ended".into(), &3.into()));
    host.run("lock hold acme/alice -- ./no-such-command")
        .refused(6, &["./no-such-command cannot be started"]);
    assert_eq!(host.lock_state(), "free");
}

#[test]
fn it_is_renewed_while_the_command_runs() {
    let host = stored();
    let child = hold(&host, "", "exec sleep 100").spawn().unwrap();
    until("the lock is renewed", || host.json("lock show acme/alice")["renewal_count"].as_u64() >= Some(1));
    signal(&child, "TERM");
    assert_eq!(ended(child).code, 143, "the signal is passed on, and told as a shell tells it");
    assert_eq!(host.lock_state(), "free");
}

/// As `nohup` starts it: what is to be ignored is, by the command too.
#[test]
fn a_signal_that_is_to_be_ignored_is() {
    let host = stored();
    let inner = "$PSTORE lock hold acme/alice -- sh -c 'touch up; sleep 1; exit 4'";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("trap '' HUP; exec {inner}")]).env("PSTORE", env!("CARGO_BIN_EXE_pstore"));
    command.env("HOME", host.path("")).current_dir(host.path(""));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    signal(&child, "HUP");
    assert_eq!(ended(child).code, 4);
}

#[test]
fn without_a_terminal_an_interrupt_is_passed_on() {
    let host = stored();
    let child = hold_without_a_terminal(&host, "touch up; exec sleep 100");
    assert!(std::process::Command::new("kill").args(["-INT", &holder(&host)]).status().unwrap().success());
    assert_eq!(ended(child).code, 130);
    assert_eq!(host.lock_state(), "free");
}

#[test]
fn a_command_that_takes_its_time_to_end_is_waited_for() {
    let host = stored();
    let script = "trap 'sleep 1; touch cleaned; exit 5' TERM; touch up; while :; do sleep 0.1; done";
    let child = hold(&host, "", script).spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    signal(&child, "TERM");
    assert_eq!(ended(child).code, 5);
    assert!(host.path("cleaned").exists());
    assert_eq!(host.lock_state(), "free");
}

#[test]
fn a_command_whose_lock_is_taken_away_is_stopped() {
    let host = stored();
    let script = "trap 'touch told; exit 0' TERM; touch up; while :; do sleep 0.1; done";
    let child = hold(&host, "--run-id victim --json", script).spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    host.ok("force-unlock acme/alice --reason stuck --confirm");
    let token = host.acquire("successor", "");
    let ran = ended(child);
    ran.refused(25, &["was lost to run \"successor\"", "stopping the command"]);
    assert!(host.path("told").exists(), "it was told to end");
    let document = ran.json();
    assert_eq!((&document["outcome"], &document["command_exit_code"]), (&"lock_lost".into(), &0.into()));
    assert_eq!(document["error"]["kind"], "lock_lost");
    let lost = host.event("lock_lost");
    assert_eq!((&lost["by"]["run_id"], &lost["reason"]), (&"victim".into(), &"held by successor now".into()));
    // Whoever has the lock now is not disturbed by the end of the one before.
    host.ok(&format!("lock renew acme/alice --token {token}"));
}

#[test]
fn a_holder_does_not_take_back_what_an_operator_took_away() {
    let host = stored();
    let child = hold(&host, "--run-id victim", "touch up; exec sleep 100").spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    host.ok("force-unlock acme/alice --reason stuck --confirm");
    ended(child).refused(25, &["was lost"]);
    assert_eq!(host.lock_state(), "free");
    assert!(host.events().iter().all(|event| event["kind"] != "lock_regained"));
}

/// `pstore lock hold` in a session of its own, which has no terminal.
fn hold_without_a_terminal(host: &TestHost, script: &str) -> std::process::Child {
    let held = hold(host, "", &format!("echo $PPID > holder; {script}"));
    let mut command = std::process::Command::new("setsid");
    command.arg("--wait").arg(held.get_program()).args(held.get_args()).env_clear();
    command.envs(held.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(host.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    child
}

/// The process that holds the lock, as its command has noted it.
fn holder(host: &TestHost) -> String {
    fs::read_to_string(host.path("holder")).unwrap().trim().to_owned()
}

/// A script that does not pass anything on, with a browser behind it.
const BEHIND_A_SCRIPT: &str = "echo $PPID > holder; sh -c 'trap \"touch told; exit 0\" TERM; touch up; while :; do sleep 0.1; done'; exit 9";

#[test]
fn what_a_command_has_started_is_told_too() {
    let host = stored();
    let child = hold_without_a_terminal(&host, BEHIND_A_SCRIPT);
    assert!(std::process::Command::new("kill").arg(holder(&host)).status().unwrap().success());
    assert_eq!(ended(child).code, 143);
    until("it was told to end", || host.path("told").exists());
    assert_eq!(host.lock_state(), "free");
}

#[test]
fn nothing_a_command_has_started_outlives_the_loss_of_the_lock() {
    let host = stored();
    // The one does not listen, and the other does not wait for it.
    let stubborn =
        "sh -c 'trap \"\" TERM; echo $$ > stubborn; touch up; while :; do sleep 0.1; done' & exec sleep 100";
    let child = hold_without_a_terminal(&host, stubborn);
    let pid = fs::read_to_string(host.path("stubborn")).unwrap();
    host.ok("force-unlock acme/alice --reason stuck --confirm");
    ended(child).refused(25, &["was lost"]);
    let gone = || std::process::Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status();
    until("it is gone", || !gone().unwrap().success());
}

#[test]
fn a_command_that_does_not_listen_is_killed() {
    let host = stored();
    let script = "trap '' TERM; touch up; while :; do sleep 0.1; done";
    let child = hold(&host, "", script).spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    host.ok("force-unlock acme/alice --reason stuck --confirm");
    let started = std::time::Instant::now();
    ended(child).refused(25, &["was lost"]);
    assert!(started.elapsed() > Duration::from_secs(7), "it had time to end by itself");
}

#[test]
fn a_lock_that_was_deleted_is_taken_again_if_nobody_came_between() {
    let host = stored();
    let child = hold(&host, "--run-id run-1", "touch up; exec sleep 100").spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    // As a reaper does it that knows no compare-and-swap.
    fs::remove_file(host.object("lock.json")).unwrap();
    until("it is held again", || host.lock_state() == "held");
    until("that is logged", || host.events().iter().any(|event| event["kind"] == "lock_regained"));
    assert_eq!(host.event("lock_regained")["holder_run_id"], "run-1");
    signal(&child, "TERM");
    assert_eq!(ended(child).code, 143);
}

#[test]
fn the_lock_of_a_holder_that_was_killed_is_free_for_this_host() {
    let host = stored();
    let mut child = hold(&host, "--run-id run-1", "touch up; exec sleep 3").spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(host.ok("lock show acme/alice").contains("the process that held it is dead"));
    assert_eq!(host.json("lock acquire acme/alice")["outcome"], "forced_expired");
    assert_eq!(host.event("lock_evicted")["reason"], "holder_dead");
}

/// As services do it that are told to see no processes but their own.
#[test]
fn a_holder_that_cannot_be_seen_in_proc_is_not_taken_for_dead() {
    let host = stored();
    let mut child = hold(&host, "--run-id run-1", "touch up; exec sleep 100").spawn().unwrap();
    until("the command is up", || host.path("up").exists());
    fs::copy(env!("CARGO_BIN_EXE_pstore"), host.path("pstore")).unwrap();
    // The store is shared with the group. The cache is its own: one of another user's it would refuse.
    let hidden = "chmod -R a+rwX $HOME && chown 65534 $HOME/.cache/pstore && \
        chmod 755 $HOME/.cache/pstore && mount -t proc -o hidepid=2 proc /proc && \
        exec setpriv --reuid 65534 --regid 0 --clear-groups $HOME/pstore lock acquire acme/alice";
    let mut asking = std::process::Command::new("unshare");
    asking.args(["--mount", "sh", "-c", hidden]).env_clear();
    asking.env("HOME", host.path("")).env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    let ran = Ran::of("lock acquire", asking.output().unwrap());
    ran.refused(24, &["run \"run-1\""]);
    signal(&child, "TERM");
    child.wait().unwrap();
}
