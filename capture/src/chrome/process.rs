//! `process` reads one process's entries in `/proc`, and signals it.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};

/// Identifies a process for good: the number alone is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub pid: u32,
    /// In clock ticks since the machine was started.
    started_ticks: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) id: Identity,
    pub(super) parent: u32,
    /// Ended, though its parent has not asked yet how.
    zombie: bool,
}

impl Identity {
    #[cfg(test)]
    pub(super) fn of(pid: u32) -> Option<Self> {
        stat(pid).map(|stat| stat.id)
    }

    pub(super) fn runs(self) -> bool {
        match stat(self.pid) {
            Some(stat) if stat.id != self => false,
            // The first thread of a process may be gone while others still have its files open.
            Some(stat) if stat.zombie => {
                fs::read_dir(format!("/proc/{}/task", self.pid)).is_ok_and(|tasks| tasks.count() > 1)
            }
            found => found.is_some(),
        }
    }

    pub fn uptime(self) -> Duration {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let now: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default();
        let started = self.started_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        Duration::try_from_secs_f64(now - started).unwrap_or_default()
    }

    pub fn started(self) -> SystemTime {
        let now = SystemTime::now();
        now.checked_sub(self.uptime()).unwrap_or(now)
    }

    /// Sends `signal` if this process still runs; a process that ended is no error.
    pub(super) fn signal(self, signal: Signal) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return Ok(()) };
        // The descriptor is of the process that has the number now and stays so; only then is it
        // certain that the process asked about is the one that gets the signal.
        let sent = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) if self.runs() => pidfd_send_signal(descriptor, signal),
            // Kernels before 5.3, and containers that forbid the call.
            Err(Errno::NOSYS | Errno::PERM) if self.runs() => kill_process(pid, signal),
            Err(error) if error != Errno::SRCH && self.runs() => Err(error),
            _ => Ok(()),
        };
        match sent {
            Err(Errno::SRCH) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The numbers of all processes that can be seen.
pub(super) fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The second field, the program's name, may hold anything; the others are counted from its
/// closing bracket.
pub(super) fn stat(pid: u32) -> Option<Stat> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let started_ticks = fields.nth(17)?.parse().ok()?;
    Some(Stat { id: Identity { pid, started_ticks }, parent, zombie })
}

/// Its arguments; empty for kernel threads and for processes that have ended.
pub(super) fn command_line(pid: u32) -> Vec<OsString> {
    let mut bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|part| OsString::from_vec(part.to_vec())).collect()
}

/// For people: the command line, cut where it stops being of use.
pub(super) fn command(pid: u32) -> String {
    const MAX_CHARS: usize = 120;
    let words: Vec<_> = command_line(pid).iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => fs::read_to_string(format!("/proc/{pid}/comm"))
            .map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned()),
        None => line,
    }
}

/// The file it runs; `None` if it may not be known.
pub(super) fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The user who has started it. A process can choose the owner that `/proc` shows: one that cannot be
/// dumped is shown as root's, and one that became root on the way is still its user's.
pub(super) fn real_user(pid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().next()?.parse().ok()
}

pub(super) fn owner(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid())
}

/// This process and those it was started by: a stop must not end its own caller.
pub(super) fn own_line() -> Vec<u32> {
    let mut line = vec![std::process::id()];
    while let Some(stat) = line.last().and_then(|pid| stat(*pid)) {
        if stat.parent == 0 || line.contains(&stat.parent) {
            break;
        }
        line.push(stat.parent);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_number_that_was_used_again_is_another_process() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.runs());
        let other = Identity { started_ticks: own.started_ticks + 1, ..own };
        assert!(!other.runs());
        other.signal(Signal::KILL).unwrap();
        assert!(own.uptime() < Duration::from_secs(3600));
    }

    #[test]
    fn a_process_that_ended_and_waits_for_its_parent_does_not_run() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let id = Identity::of(child.id()).unwrap();
        assert!(id.runs());
        // Between its start and its becoming another program it has no command line.
        while command_line(child.id()).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(command(child.id()), "sleep 60");
        id.signal(Signal::KILL).unwrap();
        while id.runs() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(stat(child.id()).unwrap().zombie);
        id.signal(Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(Identity::of(child.id()), None);
    }

    #[test]
    fn one_is_in_ones_own_line() {
        let line = own_line();
        assert!(line.contains(&std::process::id()) && line.contains(&std::os::unix::process::parent_id()));
    }
}
