//! `service` brings services to rest that are processes, and lets them go on as they were found.
//!
//! A server's work is often done by its children, so all processes rest that descend from that of the service. Those above
//! come to rest first: from then on they begin no others, and do not see that their children rest. Those below go on first.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use engine::failure::Failure;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use store::{ErrorKind, error::IoContext};

use super::processes::{Process, Stat, is_above, running_below};

/// How long a process may take to stand still.
const STANDSTILL: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How often processes are looked for that descend from a service and run: so often as one descends from another, and
/// some more.
const MOST_ROUNDS: u32 = 200;

/// A service that rests, or did so already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resting {
    /// The service.
    pub service: String,
    /// The state in which it was found.
    pub found: Found,
    /// What stands behind it.
    pub what: Handle,
    /// The processes that descend from it and ran when they were found, those above first.
    #[serde(default)]
    pub with: Vec<Process>,
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
        // Other threads may go on when the first has ended.
        _ if !(Process { pid, began }).is_at_rest() => Found::Running,
        'Z' | 'X' => Found::Stopped,
        _ => Found::Paused,
    };
    let what = Handle::Process { pid, began };
    Ok(Resting { service: name.to_owned(), found, what, with: Vec::new() })
}

fn gone(name: &str) -> Resting {
    let what = Handle::Process { pid: 0, began: 0 };
    Resting { service: name.to_owned(), found: Found::Stopped, what, with: Vec::new() }
}

impl Resting {
    /// Brings to rest what runs of it. `noted` writes down what that is before it is stopped. Says what it may not stop of
    /// that which the service has begun.
    pub async fn pause(
        &mut self,
        mut noted: impl FnMut(&Self) -> Result<(), Failure>,
    ) -> Result<Vec<Process>, Failure> {
        let first = self.first();
        if self.found == Found::Running {
            self.stop(&[first]).await?;
        }
        for _ in 0..MOST_ROUNDS {
            let (running, of_others): (Vec<_>, Vec<_>) =
                running_below(first).into_iter().partition(|process| process.is_reachable());
            if running.is_empty() {
                return Ok(of_others);
            }
            for process in &running {
                if !self.with.contains(process) {
                    self.with.push(*process);
                }
            }
            noted(self)?;
            self.stop(&running).await?;
        }
        Err(self.failure("paused", "somebody lets its processes go on again and again"))
    }

    /// Stops processes, and waits until they stand still.
    async fn stop(&self, processes: &[Process]) -> Result<(), Failure> {
        for process in processes {
            process.signal(Signal::STOP).map_err(|problem| self.failure("paused", &problem))?;
        }
        let since = Instant::now();
        for process in processes {
            while !process.is_at_rest() {
                if since.elapsed() > STANDSTILL {
                    let problem = format!("process {} does not stand still", process.pid);
                    return Err(self.failure("paused", &problem));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Lets all go on that ran when it was found. What has ended meanwhile is left alone.
    #[crate::boxed]
    pub async fn resume(&self) -> Result<(), Failure> {
        let first = (self.found == Found::Running).then(|| self.first());
        let mut failed = None;
        for process in self.with.iter().rev().copied().chain(first) {
            if let Err(problem) = process.signal(Signal::CONT) {
                failed = failed.or(Some(problem));
            }
        }
        failed.map_or(Ok(()), |problem| Err(self.failure("resumed", &problem)))
    }

    /// The process that the service named.
    fn first(&self) -> Process {
        let Handle::Process { pid, began } = self.what;
        Process { pid, began }
    }

    fn failure(&self, what: &str, problem: &str) -> Failure {
        let message = format!("service {:?} cannot be {what}: {problem}", self.service);
        Failure::new(ErrorKind::Io, message)
            .hint("signals reach processes of the same user; root reaches all")
    }
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

    fn state(pid: i32) -> char {
        Stat::of(pid).unwrap().state
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
        let mut resting = find("web", &service).unwrap();
        assert_eq!(resting.found, Found::Running);
        resting.pause(|_| Ok(())).await.unwrap();
        assert_eq!(state(pid), 'T');
        let mut paused = find("web", &service).unwrap();
        assert_eq!(paused.found, Found::Paused);
        paused.pause(|_| Ok(())).await.unwrap();
        paused.resume().await.unwrap();
        assert_eq!(state(pid), 'T', "one that was paused stays so");
        resting.resume().await.unwrap();
        while state(pid) == 'T' {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A shell that has started `sleep` twice, in a shell of its own the second time; the numbers of these three.
    async fn family(folder: &Path) -> (Sleeper, [i32; 3]) {
        let script = "sleep 60 & echo $! > one; \
            sh -c 'sleep 60 & echo $! > three; echo $$ > two; wait' & wait";
        let sleeper = Sleeper(Command::new("sh").args(["-c", script]).current_dir(folder).spawn().unwrap());
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        // The last that is written.
        while !text("two").ends_with('\n') {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let found = ["one", "two", "three"].map(|name| text(name).trim().parse().unwrap());
        (sleeper, found)
    }

    #[tokio::test]
    async fn all_that_descends_from_a_service_rests_but_for_what_rested_before() {
        let folder = tempfile::tempdir().unwrap();
        let (shell, [one, two, three]) = family(folder.path()).await;
        let pid = i32::try_from(shell.0.id()).unwrap();
        let stopped = Process { pid: one, began: Stat::of(one).unwrap().began };
        stopped.signal(Signal::STOP).unwrap();
        while !stopped.is_at_rest() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let mut resting = find("web", &service(folder.path(), &pid.to_string())).unwrap();
        let mut noted = Vec::new();
        let note = |resting: &Resting| {
            // Each is written down while it runs yet.
            assert!(resting.with.last().is_some_and(|last| !last.is_at_rest()));
            noted.push(resting.with.iter().map(|process| process.pid).collect::<Vec<_>>());
            Ok(())
        };
        resting.pause(note).await.unwrap();
        assert_eq!(noted, [vec![two], vec![two, three]]);
        assert_eq!([pid, one, two, three].map(state), ['T'; 4]);
        // As one reads it who finds the note later.
        let text = serde_json::to_string(&resting).unwrap();
        let read: Resting = serde_json::from_str(&text).unwrap();
        read.resume().await.unwrap();
        while [pid, two, three].map(state).contains(&'T') {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        assert_eq!(state(one), 'T');
        for process in [one, two, three] {
            let _ = Process { pid: process, began: Stat::of(process).unwrap().began }.signal(Signal::KILL);
        }
    }

    #[test]
    fn a_note_of_an_older_pstore_is_read() {
        let text = r#"{"service":"web","found":"running","what":{"process":{"pid":42,"began":7}}}"#;
        let resting: Resting = serde_json::from_str(text).unwrap();
        assert_eq!((resting.first(), resting.with.len()), (Process { pid: 42, began: 7 }, 0));
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
        let mut absent = find("web", &folder.path().join("absent")).unwrap();
        assert_eq!(absent.found, Found::Stopped);
        absent.pause(|_| Ok(())).await.unwrap();
        absent.resume().await.unwrap();
        for odd in ["one", "0", "1", "-1", ""] {
            find("web", &service(folder.path(), odd)).unwrap_err();
        }
        let sleeper = Sleeper(Command::new("sleep").arg("60").spawn().unwrap());
        let pid = i32::try_from(sleeper.0.id()).unwrap();
        let what = Handle::Process { pid, began: 1 };
        let mut another =
            Resting { service: "web".to_owned(), found: Found::Running, what, with: Vec::new() };
        another.pause(|_| Ok(())).await.unwrap();
        assert_ne!(state(pid), 'T', "its number is another's");
    }
}
