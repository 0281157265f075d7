//! These tests stop shells that are named like a browser; the tests crate stops real ones.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use super::*;

/// Killed and reaped at the end of a test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut running = Self(child);
        // A line, or the end, when it is as far as the test wants it.
        use std::io::BufRead;
        let output = running.0.stdout.take().unwrap();
        std::io::BufReader::new(output).read_line(&mut String::new()).unwrap();
        running
    }

    /// A shell that waits, under another name, with `arguments` it does not care for.
    fn shell(name: &Path, script: &str, at: &Path, arguments: &[&str]) -> Self {
        if !name.exists() {
            fs::copy("/bin/sh", name).unwrap();
        }
        let script = format!("{script}; echo; read line");
        Self::start(Command::new(name).current_dir(at).arg("-c").arg(script).arg("shell").args(arguments))
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

struct StopScenario {
    folder: tempfile::TempDir,
    profile: PathBuf,
}

impl StopScenario {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("pro file");
        fs::create_dir(&profile).unwrap();
        Self { folder, profile }
    }

    fn argument(&self) -> String {
        format!("--user-data-dir={}", self.profile.display())
    }

    fn chrome(&self, script: &str) -> Running {
        self.program("chrome", script, &[&self.argument()])
    }

    fn program(&self, name: &str, script: &str, arguments: &[&str]) -> Running {
        Running::shell(&self.folder.path().join(name), script, self.folder.path(), arguments)
    }

    fn stop(&self) -> Result<Stopped, StopError> {
        let wait = Duration::from_millis(500);
        stop(&self.profile, &StopOptions { wait, open_wait: Some(wait), ..StopOptions::default() })
    }
}

#[test]
fn where_nobody_is_nobody_is_stopped() {
    let stopped = StopScenario::new().stop().unwrap();
    assert_eq!((stopped.ended, stopped.crashed, stopped.uptime), (Ended::NotRunning, false, None));
    assert!(matches!(stop(Path::new("/nowhere"), &StopOptions::default()), Err(StopError::Look { .. })));
}

#[test]
fn a_chrome_that_runs_is_an_error_unless_it_may_be_stopped() {
    let scenario = StopScenario::new();
    let mut chrome = scenario.chrome(":");
    let refused = stop(&scenario.profile, &StopOptions { allow_stop: false, ..StopOptions::default() });
    let Err(StopError::Running { pids, commands }) = refused else { panic!("{refused:?}") };
    assert_eq!(pids, [chrome.0.id()]);
    assert!(commands[0].contains("--user-data-dir="));
    assert!(chrome.runs());
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.pids), (Ended::Terminated, pids));
    assert!(stopped.uptime.is_some() && !chrome.runs());
}

#[test]
fn one_that_does_not_listen_is_killed_with_its_children() {
    let scenario = StopScenario::new();
    let mut chrome = scenario.chrome("trap '' INT TERM; sleep 600 & echo $! > pid");
    let child: u32 = fs::read_to_string(scenario.folder.path().join("pid")).unwrap().trim().parse().unwrap();
    let child = Identity::of(child).unwrap();
    let stopped = scenario.stop().unwrap();
    assert_eq!(stopped.ended, Ended::Killed);
    assert!(stopped.crashed && !chrome.runs() && !child.runs());
}

#[test]
fn one_that_would_rather_not_is_told_again_before_it_is_killed() {
    let scenario = StopScenario::new();
    let mut chrome = scenario.chrome("trap '' INT");
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.crashed), (Ended::Terminated, false));
    assert!(!chrome.runs());
}

#[test]
fn what_a_browser_that_is_gone_has_left_running_is_killed() {
    let scenario = StopScenario::new();
    let mut child = scenario.program("chrome", ":", &["--type=utility", &scenario.argument()]);
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.crashed, stopped.pids), (Ended::Killed, true, vec![]));
    assert!(!child.runs());
}

#[test]
fn a_chrome_is_found_by_any_name_of_its_directory() {
    let scenario = StopScenario::new();
    symlink(&scenario.profile, scenario.folder.path().join("link")).unwrap();
    for argument in
        ["--user-data-dir=pro file", "--user-data-dir=./link/.", "--user-data-dir=../x/link/../link"]
    {
        let folder = scenario.folder.path().file_name().unwrap().to_str().unwrap();
        let mut chrome =
            scenario.program("chromium", ":", &[&argument.replace("/x/", &format!("/{folder}/"))]);
        assert_eq!(scenario.stop().unwrap().ended, Ended::Terminated, "{argument}");
        assert!(!chrome.runs());
    }
}

#[test]
fn who_only_speaks_of_the_directory_is_left_alone() {
    let scenario = StopScenario::new();
    let other = scenario.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let beside = scenario.profile.display().to_string();
    let mut strangers = [
        scenario.program("python", ":", &[&scenario.argument()]),
        scenario.program("chromedriver", ":", &[&scenario.argument()]),
        scenario.program("chrome", ":", &[&format!("--user-data-dir={}", other.display())]),
        scenario.program("chrome", ":", &["--user-data-dir", &beside]),
        scenario.program("chrome", ":", &["--", &scenario.argument()]),
    ];
    assert_eq!(scenario.stop().unwrap().ended, Ended::NotRunning);
    assert!(strangers.iter_mut().all(Running::runs));
}

#[test]
fn a_locks_number_counts_only_for_who_has_to_do_with_the_directory() {
    let scenario = StopScenario::new();
    let mut fork = scenario.program("another-browser", "exec 3>'pro file/open'", &[]);
    let mut stranger = scenario.program("another", ":", &[]);
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let lock = scenario.profile.join("SingletonLock");
    symlink(format!("{host}-{}", fork.0.id()), &lock).unwrap();
    assert_eq!(scenario.stop().unwrap().ended, Ended::Terminated);
    assert!(!fork.runs());
    fs::remove_file(&lock).unwrap();
    symlink(format!("{host}-{}", stranger.0.id()), &lock).unwrap();
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.crashed), (Ended::NotRunning, true));
    assert!(stranger.runs());
}

#[test]
fn a_file_that_stays_open_for_writing_is_told_with_who_has_it() {
    let scenario = StopScenario::new();
    fs::write(scenario.profile.join("read"), "").unwrap();
    let reader = scenario.program("reader", "exec 3<'pro file/read'", &[]);
    assert_eq!(scenario.stop().unwrap().ended, Ended::NotRunning);
    let mut writer = scenario.program("writer", "exec 3>'pro file/written'", &[]);
    let refused = scenario.stop();
    let Err(StopError::StillOpen { pids, commands, paths }) = refused else { panic!("{refused:?}") };
    assert_eq!((pids, commands.len()), (vec![writer.0.id()], 1));
    assert_eq!(paths, [scenario.profile.canonicalize().unwrap().join("written")]);
    assert!(writer.runs());
    drop(writer);
    scenario.stop().unwrap();
    drop(reader);
}

#[test]
fn a_lock_or_a_mark_without_a_chrome_means_a_crash() {
    let scenario = StopScenario::new();
    fs::create_dir(scenario.profile.join("Default")).unwrap();
    let preferences = scenario.profile.join("Default/Preferences");
    fs::write(&preferences, r#"{"profile": {"exit_type": "Normal"}}"#).unwrap();
    assert!(!scenario.stop().unwrap().crashed);
    fs::write(&preferences, r#"{"profile": {"exit_type": "Crashed"}}"#).unwrap();
    assert!(scenario.stop().unwrap().crashed);
    fs::remove_file(&preferences).unwrap();
    symlink("elsewhere-5", scenario.profile.join("SingletonLock")).unwrap();
    assert!(scenario.stop().unwrap().crashed);
}
