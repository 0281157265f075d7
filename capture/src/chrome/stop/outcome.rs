//! `outcome` defines the options of a stop, its outcomes, and the obstacles in its way.

use std::{io, path::PathBuf, time::Duration};

use super::{HeldCookies, Lock};

#[derive(Clone, Debug)]
pub struct StopOptions {
    /// Without it, a Chrome that runs is an error.
    pub allow_stop: bool,
    /// How long it may take to end before it is killed.
    pub wait: Duration,
    /// How long, after that, files may stay open; `None` where somebody else sees to that, as a
    /// mount does for its own files.
    pub open_wait: Option<Duration>,
}

impl Default for StopOptions {
    fn default() -> Self {
        Self { allow_stop: true, wait: Duration::from_secs(8), open_wait: Some(Duration::from_secs(10)) }
    }
}

/// How a browser ended, by the data that this may have cost, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Ended {
    #[default]
    NotRunning,
    /// It was left alone, and runs on.
    Running,
    /// By itself, as it was asked over DevTools.
    Closed,
    /// By a signal it could handle. The profile tells how well: `Normal` after the first one.
    Terminated,
    Killed,
}

impl Ended {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotRunning => "not_running",
            Self::Running => "running",
            Self::Closed => "closed",
            Self::Terminated => "terminated",
            Self::Killed => "killed",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Stopped {
    pub ended: Ended,
    pub took: Duration,
    /// How long the browser had run when it was asked; the longest, if there were several.
    pub uptime: Option<Duration>,
    /// Of the browsers.
    pub pids: Vec<u32>,
    /// It was found crashed, had to be killed, or crashed on its way out.
    pub crashed: bool,
    /// Somebody may run it elsewhere, if the directory is shared: that cannot be seen from here.
    pub lock_of_another_host: Option<Lock>,
    /// Why a browser that runs on may have cookies in memory alone, if it may.
    pub unwritten_cookies: Option<String>,
    /// What a browser that runs on had when it wrote its cookies, if that is known.
    pub held_cookies: Option<HeldCookies>,
    /// How many processes were not to be looked into, for want of permission.
    pub unseen_processes: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("Chrome runs on it: {}", list(pids, commands))]
    Running { pids: Vec<u32>, commands: Vec<String> },
    #[error(
        "process {pid} ({command}) of user {} cannot be ended: {source}",
        owner.map_or_else(|| "?".to_owned(), |owner| owner.to_string())
    )]
    Denied {
        pid: u32,
        command: String,
        /// The number of the user it belongs to.
        owner: Option<u32>,
        #[source]
        source: io::Error,
    },
    #[error(
        "files in it are still open for writing: {}{}",
        list(pids, commands),
        paths.first().map_or_else(String::new, |path| format!(", for example {}", path.display()))
    )]
    StillOpen { pids: Vec<u32>, commands: Vec<String>, paths: Vec<PathBuf> },
    #[error("looking for its users in {}: {source}", directory.display())]
    Look {
        directory: PathBuf,
        #[source]
        source: io::Error,
    },
}

fn list(pids: &[u32], commands: &[String]) -> String {
    let named: Vec<_> =
        pids.iter().zip(commands).map(|(pid, command)| format!("process {pid} ({command})")).collect();
    named.join(", ")
}
