//! `service` brings services to rest that are processes, and lets them go on as they were found.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use engine::failure::Failure;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use store::{ErrorKind, error::IoContext};

use super::processes::{Stat, is_above};

/// How long a process may take to stand still.
const STANDSTILL: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A service that rests, or did so already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resting {
    /// The service.
    pub service: String,
    /// The state in which it was found.
    pub found: Found,
    /// What stands behind it.
    pub what: Handle,
}

/// How a service was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// It runs.
    Running,
    /// It was paused already.
    Paused,
    /// It had ended.
    Stopped,
}

/// What stands behind a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handle {
    /// A process; a number alone could be another's later.
    Process {
        /// The number.
        pid: i32,
        /// When it began, in the kernel's ticks.
        began: u64,
    },
}

/// Looks at the service whose number `pid_file` holds, and changes nothing.
pub fn find(name: &str, pid_file: &Path) -> Result<Resting, Failure> {
    let text = match fs::read_to_string(pid_file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(gone(name)),
        read => read.at("cannot read", pid_file)?,
    };
    let pid = text.trim().parse::<i32>().ok().filter(|pid| *pid > 1).ok_or_else(|| {
        Failure::usage(format!("{} does not hold the number of a process", pid_file.display()))
    })?;
    let Some(stat) = Stat::of(pid) else { return Ok(gone(name)) };
    let Stat { state, began, .. } = stat;
    if stat.is_kernel_thread() {
        let message = format!("{} has the number of a part of the kernel", pid_file.display());
        return Err(Failure::usage(message).hint("remove the file if the service has ended"));
    }
    if is_above(pid) {
        // An old number may have become ours. Stopped, nobody would let it go on.
        let message = format!("{} has the number of pstore itself, or of what runs it", pid_file.display());
        return Err(Failure::usage(message).hint("remove the file if the service has ended"));
    }
    let found = match state {
        'T' | 't' => Found::Paused,
        'Z' | 'X' => Found::Stopped,
        _ => Found::Running,
    };
    Ok(Resting { service: name.to_owned(), found, what: Handle::Process { pid, began } })
}

fn gone(name: &str) -> Resting {
    let what = Handle::Process { pid: 0, began: 0 };
    Resting { service: name.to_owned(), found: Found::Stopped, what }
}

impl Resting {
    /// Brings it to rest if it runs.
    #[crate::boxed]
    pub async fn pause(&self) -> Result<(), Failure> {
        let Handle::Process { pid, began } = self.what;
        if self.found != Found::Running {
            return Ok(());
        }
        signal(pid, began, Signal::STOP).map_err(|problem| self.failure("paused", &problem))?;
        let since = Instant::now();
        loop {
            match stat(pid).filter(|(_, other)| *other == began) {
                Some(('T' | 't' | 'Z' | 'X', _)) | None => return Ok(()),
                Some(_) if since.elapsed() > STANDSTILL => {
                    return Err(self.failure("paused", "it does not stand still"));
                }
                Some(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Lets it go on if it ran when it was found. One that has ended meanwhile is left alone.
    #[crate::boxed]
    pub async fn resume(&self) -> Result<(), Failure> {
        let Handle::Process { pid, began } = self.what;
        if self.found != Found::Running || stat(pid).is_none_or(|(_, other)| other != began) {
            return Ok(());
        }
        signal(pid, began, Signal::CONT).map_err(|problem| self.failure("resumed", &problem))
    }

    fn failure(&self, what: &str, problem: &str) -> Failure {
        let message = format!("service {:?} cannot be {what}: {problem}", self.service);
        Failure::new(ErrorKind::Io, message)
            .hint("signals reach processes of the same user; root reaches all")
    }
}

fn signal(pid: i32, began: u64, signal: Signal) -> Result<(), String> {
    if stat(pid).is_none_or(|(_, other)| other != began) {
        return Ok(());
    }
    let pid = Pid::from_raw(pid).ok_or("it has no number")?;
    kill_process(pid, signal).map_err(|error| error.to_string())
}

/// The state of a process, and when it began.
fn stat(pid: i32) -> Option<(char, u64)> {
    Stat::of(pid).map(|stat| (stat.state, stat.began))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn service(folder: &Path, text: &str) -> std::path::PathBuf {
        let pid_file = folder.join("pid");
        fs::write(&pid_file, text).unwrap();
        pid_file
    }

    #[tokio::test]
    async fn a_service_goes_on_as_it_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let sleeper = Sleeper(Command::new("sleep").arg("60").spawn().unwrap());
        let pid = i32::try_from(sleeper.0.id()).unwrap();
        let service = service(folder.path(), &format!("{pid}\n"));
        let resting = find("web", &service).unwrap();
        assert_eq!(resting.found, Found::Running);
        resting.pause().await.unwrap();
        assert_eq!(stat(pid).unwrap().0, 'T');
        let paused = find("web", &service).unwrap();
        assert_eq!(paused.found, Found::Paused);
        paused.pause().await.unwrap();
        paused.resume().await.unwrap();
        assert_eq!(stat(pid).unwrap().0, 'T', "one that was paused stays so");
        resting.resume().await.unwrap();
        while stat(pid).unwrap().0 == 'T' {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    #[test]
    fn a_number_that_has_become_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for own in [std::process::id(), std::os::unix::process::parent_id()] {
            let refused = find("web", &service(folder.path(), &own.to_string())).unwrap_err();
            assert!(refused.message.contains("pstore itself"), "{}", refused.message);
        }
    }

    #[tokio::test]
    async fn one_that_has_ended_and_one_with_another_number_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let absent = find("web", &folder.path().join("absent")).unwrap();
        assert_eq!(absent.found, Found::Stopped);
        absent.pause().await.unwrap();
        absent.resume().await.unwrap();
        for odd in ["one", "0", "1", "-1", ""] {
            find("web", &service(folder.path(), odd)).unwrap_err();
        }
        let sleeper = Sleeper(Command::new("sleep").arg("60").spawn().unwrap());
        let pid = i32::try_from(sleeper.0.id()).unwrap();
        let what = Handle::Process { pid, began: 1 };
        let another = Resting { service: "web".to_owned(), found: Found::Running, what };
        another.pause().await.unwrap();
        assert_ne!(stat(pid).unwrap().0, 'T', "its number is another's");
    }
}
