//! These tests end real Chromiums in every way there is.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use capture::chrome::{
    normalise::normalise_exit,
    processes::users,
    profile::Facts,
    singleton,
    stop::{Ended, StopError, StopOptions, Stopped, stop},
};
use rustix::process::Signal;
use tempfile::TempDir;
use tests::{
    chromium::{Chromium, Site},
    profile_fixture::ProfileFixture,
};

struct StopScenario {
    folder: TempDir,
    profile: PathBuf,
}

impl StopScenario {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("pro file");
        Self { folder, profile }
    }

    fn stop(&self) -> Result<Stopped, StopError> {
        stop(&self.profile, &StopOptions::default())
    }
}

#[test]
fn one_with_a_port_is_closed_and_loses_nothing() {
    let scenario = StopScenario::new();
    let site = Site::start();
    let chromium = Chromium::start(&scenario.profile);
    let mut devtools = chromium.devtools();
    site.leave(&mut devtools, "kept");
    devtools.set_cookie("late", "too");
    let found = users(&scenario.profile).unwrap();
    assert_eq!(found.browsers.iter().map(|browser| browser.pid).collect::<Vec<_>>(), [chromium.pid()]);
    assert!(found.browsers[0].devtools.is_some() && found.children.len() > 2);
    assert!(found.holders.is_empty(), "{:?}", found.holders);

    let stopped = scenario.stop().unwrap();
    println!("{stopped:?}");
    assert_eq!((stopped.ended, stopped.crashed), (Ended::Closed, false));
    assert_eq!(stopped.pids, [chromium.pid()]);
    assert!(stopped.uptime.unwrap() > Duration::ZERO);
    assert!(!chromium.runs());
    assert!(ProfileFixture::cookies(&scenario.profile).contains(&"late".to_owned()));
    assert!(singleton::present(&scenario.profile).is_empty());
    let facts = Facts::read(&scenario.profile);
    assert_eq!(facts.exit_type.as_deref(), Some("Normal"));
    assert!(facts.has_local_state && facts.major().is_some());

    let again = Chromium::start(&scenario.profile);
    let mut devtools = again.devtools();
    assert_eq!(site.find(&mut devtools), Site::all("kept"));
    assert_eq!(devtools.cookie("late").as_deref(), Some("too"));
    again.close();
}

#[test]
fn one_with_a_port_that_was_chosen_is_closed() {
    let scenario = StopScenario::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let chromium = Chromium::start_with(&scenario.profile, &[&format!("--remote-debugging-port={port}")]);
    while users(&scenario.profile).unwrap().browsers[0].devtools.is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    fs::remove_file(scenario.profile.join("DevToolsActivePort")).ok();
    assert_eq!(scenario.stop().unwrap().ended, Ended::Closed);
    assert!(!chromium.runs());
}

#[test]
fn one_without_a_port_is_terminated() {
    let scenario = StopScenario::new();
    let chromium = Chromium::start_unreachable(&scenario.profile);
    let refused = stop(&scenario.profile, &StopOptions { allow_stop: false, ..StopOptions::default() });
    assert!(matches!(refused, Err(StopError::Running { .. })), "{refused:?}");
    assert!(singleton::remove_stale(&scenario.profile).unwrap().removed.is_empty());
    assert!(chromium.runs());
    let stopped = scenario.stop().unwrap();
    println!("{stopped:?}");
    assert_eq!((stopped.ended, stopped.crashed), (Ended::Terminated, false));
    assert!(!chromium.runs());
}

#[test]
fn one_whose_port_is_not_known_loses_nothing_either() {
    let scenario = StopScenario::new();
    let chromium = Chromium::start(&scenario.profile);
    let mut devtools = chromium.devtools();
    let site = Site::start();
    site.leave(&mut devtools, "kept");
    devtools.set_cookie("late", "too");
    fs::remove_file(scenario.profile.join("DevToolsActivePort")).unwrap();
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.crashed), (Ended::Terminated, false));
    assert_eq!(Facts::read(&scenario.profile).exit_type.as_deref(), Some("Normal"));
    assert!(singleton::present(&scenario.profile).is_empty());
    assert!(ProfileFixture::cookies(&scenario.profile).contains(&"late".to_owned()));
    let again = Chromium::start(&scenario.profile);
    assert_eq!(site.find(&mut again.devtools()), Site::all("kept"));
    again.close();
}

#[test]
fn one_on_another_host_of_this_machine_is_found_by_another_name_of_the_directory() {
    let scenario = StopScenario::new();
    let inside = scenario.folder.path().join("inside");
    fs::create_dir(&scenario.profile).unwrap();
    fs::create_dir(&inside).unwrap();
    // As in a container: a host's name, and mounts, of its own.
    let script =
        r#"echo contained > /proc/sys/kernel/hostname && mount --bind "$0" "$1" && shift && exec "$@""#;
    let (outside, inside) = (scenario.profile.to_str().unwrap(), inside.to_str().unwrap());
    let command = ["unshare", "-um", "sh", "-c", script, outside, inside, "chromium"];
    let place = format!("--user-data-dir={inside}");
    let chromium = Chromium::start_under(&command, &scenario.profile, &[&place, "--remote-debugging-port=0"]);
    while chromium.endpoint().is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    let lock = singleton::Lock::read(&scenario.profile).unwrap();
    assert!(lock.host == "contained" && !lock.is_of_this_host());
    assert_eq!(singleton::remove_stale(&scenario.profile).unwrap(), singleton::Removal::default());
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.pids), (Ended::Closed, vec![chromium.pid()]));
    assert!(!chromium.runs());
}

#[test]
fn one_of_another_user_is_named_if_it_may_not_be_ended() {
    let scenario = StopScenario::new();
    fs::set_permissions(scenario.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let chromium = Chromium::start_unreachable(&scenario.profile);
    fs::set_permissions(&scenario.profile, fs::Permissions::from_mode(0o755)).unwrap();
    // The user nobody may not be let in where it was built.
    let program = scenario.folder.path().join("stop-chrome");
    fs::copy(env!("CARGO_BIN_EXE_stop-chrome"), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).arg(&scenario.profile);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let owner = rustix::process::getuid().as_raw();
    assert!(said.contains(&format!("process {} (", chromium.pid())), "{said}");
    assert!(said.contains(&format!("of user {owner} cannot be ended")), "{said}");
    assert!(chromium.runs());
    scenario.stop().unwrap();
}

#[test]
fn one_that_does_nothing_any_more_is_killed_when_the_time_is_up() {
    let scenario = StopScenario::new();
    let chromium = Chromium::start(&scenario.profile);
    chromium.signal(Signal::STOP);
    let wait = Duration::from_secs(3);
    let stopped = stop(&scenario.profile, &StopOptions { wait, ..StopOptions::default() }).unwrap();
    println!("{stopped:?}");
    assert_eq!((stopped.ended, stopped.crashed), (Ended::Killed, true));
    assert!(stopped.took >= wait && !chromium.runs());
    assert!(!users(&scenario.profile).unwrap().runs());
}

#[test]
fn one_that_was_killed_before_has_left_its_marks() {
    let scenario = StopScenario::new();
    let chromium = Chromium::start(&scenario.profile);
    // It says so in its preferences a few seconds after it was started.
    let says_crashed = || Facts::read(&scenario.profile).exit_type.as_deref() == Some("Crashed");
    while !says_crashed() {
        thread::sleep(Duration::from_millis(50));
    }
    chromium.kill();
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.crashed), (Ended::NotRunning, true));

    assert_eq!(singleton::remove_stale(&scenario.profile).unwrap().removed.len(), 3);
    assert!(scenario.stop().unwrap().crashed, "the preferences say so still");
    let before = preferences(&scenario.profile);
    assert_eq!(normalise_exit(&scenario.profile).unwrap(), [Path::new("Default/Preferences")]);
    let mut after = preferences(&scenario.profile);
    assert_eq!(after["profile"]["exit_type"], "Normal");
    assert_eq!(after["profile"]["exited_cleanly"], true);
    after["profile"]["exit_type"] = "Crashed".into();
    match before["profile"].get("exited_cleanly") {
        Some(value) => after["profile"]["exited_cleanly"] = value.clone(),
        None => drop(after["profile"].as_object_mut().unwrap().remove("exited_cleanly")),
    }
    assert_eq!(after, before);
    assert!(!scenario.stop().unwrap().crashed);
    Chromium::start(&scenario.profile).close();
    assert_eq!(Facts::read(&scenario.profile).exit_type.as_deref(), Some("Normal"));
}

fn preferences(profile: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(profile.join("Default/Preferences")).unwrap()).unwrap()
}

#[test]
fn a_port_that_is_somebody_elses_by_now_is_not_spoken_to() {
    let scenario = StopScenario::new();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let visits = Arc::new(AtomicUsize::new(0));
    thread::spawn({
        let visits = Arc::clone(&visits);
        move || {
            for mut stream in stranger.incoming().flatten() {
                visits.fetch_add(1, Ordering::SeqCst);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").ok();
            }
        }
    });
    let chromium = Chromium::start_unreachable(&scenario.profile);
    let noted = format!("{port}\n/devtools/browser/00000000-0000-0000-0000-000000000000");
    fs::write(scenario.profile.join("DevToolsActivePort"), noted).unwrap();
    assert_eq!(scenario.stop().unwrap().ended, Ended::Terminated);
    assert!(!chromium.runs());
    assert_eq!(visits.load(Ordering::SeqCst), 0);
}

#[test]
fn of_two_only_the_one_on_the_directory_is_stopped() {
    let (scenario, other) = (StopScenario::new(), StopScenario::new());
    let stays = Chromium::start(&other.profile);
    let goes = Chromium::start_unreachable(&scenario.profile);
    // As in a directory that was copied while its Chromium ran.
    fs::copy(other.profile.join("DevToolsActivePort"), scenario.profile.join("DevToolsActivePort")).unwrap();
    assert_eq!(scenario.stop().unwrap().ended, Ended::Terminated);
    assert!(!goes.runs() && stays.runs());
    let mut devtools = stays.devtools();
    assert_eq!(devtools.open("data:text/html,<p>here").evaluate("document.body.innerText"), "here");
    assert_eq!(other.stop().unwrap().ended, Ended::Closed);
}

#[test]
fn a_lock_of_another_host_is_left_and_a_copy_names_nobody() {
    let scenario = StopScenario::new();
    let other = StopScenario::new();
    let chromium = Chromium::start(&other.profile);
    fs::create_dir(&scenario.profile).unwrap();
    // The same number, another host: on this one it means nobody.
    symlink(format!("another-{}", chromium.pid()), scenario.profile.join("SingletonLock")).unwrap();
    let stopped = scenario.stop().unwrap();
    assert_eq!((stopped.ended, stopped.crashed), (Ended::NotRunning, true));
    assert_eq!(stopped.lock_of_another_host.map(|lock| lock.host).as_deref(), Some("another"));
    let removal = singleton::remove_stale(&scenario.profile).unwrap();
    assert_eq!(removal.of_another_host.map(|lock| lock.pid), Some(chromium.pid()));
    // This host, and a Chromium that has nothing to do with this directory.
    fs::remove_file(scenario.profile.join("SingletonLock")).unwrap();
    let lock = fs::read_link(other.profile.join("SingletonLock")).unwrap();
    symlink(lock, scenario.profile.join("SingletonLock")).unwrap();
    assert_eq!(scenario.stop().unwrap().ended, Ended::NotRunning);
    assert_eq!(singleton::remove_stale(&scenario.profile).unwrap().removed, ["SingletonLock"]);
    assert!(chromium.runs());
    chromium.close();
}

#[test]
fn another_program_with_a_file_open_is_named() {
    let scenario = StopScenario::new();
    Chromium::start(&scenario.profile).close();
    let path = scenario.profile.join("Default/History");
    let script = "exec 3<>\"$1\"; echo; exec sleep 60";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(&path).stdout(std::process::Stdio::piped());
    let mut holder = shell.spawn().unwrap();
    holder.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let options = StopOptions { open_wait: Some(Duration::from_millis(300)), ..StopOptions::default() };
    let refused = stop(&scenario.profile, &options);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let Err(StopError::StillOpen { pids, paths, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((pids, paths), (vec![holder.id()], vec![path.canonicalize().unwrap()]));
    assert_eq!(scenario.stop().unwrap().ended, Ended::NotRunning);
    drop(scenario.folder);
}
