//! `processes` reads what the kernel says of processes, and signals them.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process, test_kill_process},
};
use serde::{Deserialize, Serialize};

/// In the flags of a process: it is a part of the kernel.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// What the kernel says of a process or of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its state, as a letter.
    pub state: char,
    /// The process that it is a child of.
    pub parent: i32,
    flags: u32,
    /// When it began, in the kernel's ticks.
    pub began: u64,
}

impl Stat {
    /// Of a process. `None` if there is none.
    pub fn of(pid: i32) -> Option<Self> {
        Self::read(&Path::new("/proc").join(pid.to_string()))
    }

    /// Of the process or thread with this folder.
    pub fn read(folder: &Path) -> Option<Self> {
        // A program may give itself any name.
        Self::parse(&String::from_utf8_lossy(&fs::read(folder.join("stat")).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name, in brackets, may hold brackets and blanks.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            began: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it is a part of the kernel.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }
}

/// A process; a number alone could be another's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The number.
    pub pid: i32,
    /// When it began, in the kernel's ticks.
    pub began: u64,
}

impl Process {
    /// Whether it has not ended; one that nobody has waited for yet is there.
    pub fn is_there(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.began == self.began)
    }

    /// Whether none of its threads runs. One that has ended is at rest.
    pub fn is_at_rest(self) -> bool {
        let threads = Path::new("/proc").join(self.pid.to_string()).join("task");
        let is_at_rest = |folder: &Path| Stat::read(folder).is_none_or(|stat| "TtZXx".contains(stat.state));
        !self.is_there()
            || fs::read_dir(threads).into_iter().flatten().flatten().all(|thread| is_at_rest(&thread.path()))
    }

    /// Whether this process may send it signals. One that has ended needs none.
    pub fn is_reachable(self) -> bool {
        Pid::from_raw(self.pid).is_none_or(|pid| test_kill_process(pid) != Err(Errno::PERM))
    }

    /// Sends it a signal. One that has ended gets none.
    pub fn signal(self, signal: Signal) -> Result<(), String> {
        if !self.is_there() {
            return Ok(());
        }
        let pid = Pid::from_raw(self.pid).ok_or("it has no number")?;
        match kill_process(pid, signal) {
            Err(Errno::SRCH) => Ok(()),
            sent => sent.map_err(|error| format!("process {}: {error}", self.pid)),
        }
    }
}

/// The processes that run and descend from one: of each line of descent the first. What descends from these is looked for
/// when they are at rest and begin no other.
pub fn running_below(first: Process) -> Vec<Process> {
    if !first.is_there() {
        return Vec::new();
    }
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for (parent, child) in all() {
        children.entry(parent).or_default().push(child);
    }
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    // The table is no moment's: a number in it may be that of one which has ended and of its successor.
    let (mut seen, mut left, mut running) = (HashSet::from([first.pid, own]), vec![first.pid], Vec::new());
    while let Some(pid) = left.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            match seen.insert(child.pid) {
                true if child.is_at_rest() => left.push(child.pid),
                true => running.push(*child),
                false => {}
            }
        }
    }
    running
}

/// All processes, each with the number of the one that it is a child of.
fn all() -> Vec<(i32, Process)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |pid| Stat::of(pid).map(|stat| (stat.parent, Process { pid, began: stat.began }));
    numbers.filter_map(read).collect()
}

/// Whether a process is this one, or one that it descends from.
pub fn is_above(pid: i32) -> bool {
    let mut own = i32::try_from(std::process::id()).ok();
    while let Some(above) = own.filter(|above| *above > 1) {
        if above == pid {
            return true;
        }
        own = Stat::of(above).map(|stat| stat.parent);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_whatever_a_program_calls_itself() {
        let rest = "S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 1 2 3";
        let stat = Stat::parse(&format!("42 (a) R 7 (b)) {rest}")).unwrap();
        assert_eq!((stat.state, stat.parent, stat.began), ('S', 1, 987_654));
        assert!(!stat.is_kernel_thread());
        let kernel =
            Stat::parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 33 0 0").unwrap();
        assert!(kernel.is_kernel_thread());
        assert_eq!(Stat::parse("42 (torn) S 1"), None);
        let own = Stat::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(!own.is_kernel_thread() && own.began > 0);
    }

    #[test]
    fn we_and_those_that_run_us_are_above_us() {
        for pid in [std::process::id(), std::os::unix::process::parent_id()] {
            assert!(is_above(i32::try_from(pid).unwrap()));
        }
        let child = std::process::Command::new("true").spawn().unwrap();
        assert!(!is_above(i32::try_from(child.id()).unwrap()));
        child.wait_with_output().unwrap();
    }
}
