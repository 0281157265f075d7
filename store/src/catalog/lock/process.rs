//! Whether the process that holds a lock is dead.
//!
//! A lock outlives the host that took it, so it is not enough to ask this one. But when the
//! holder was a process of this very machine, there is no need to wait for the lock to
//! expire. Being wrong here costs a holder its lock and nothing else, as with any expiry.

use std::fs;

use crate::format::{Unknown, process::Process};

/// This process; `None` where `/proc` does not tell.
pub(super) fn this() -> Option<Process> {
    let pid = std::process::id();
    Some(Process {
        boot_id: boot_id()?,
        pid_namespace: pid_namespace()?,
        pid,
        started: started(pid)?,
        unknown: Unknown::new(),
    })
}

/// Whether `process` was one of this machine, and is no more.
pub(super) fn is_dead(process: &Process) -> bool {
    let here = boot_id().is_some_and(|id| id == process.boot_id)
        && pid_namespace().is_some_and(|id| id == process.pid_namespace);
    here && started(process.pid) != Some(process.started)
}

fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

fn pid_namespace() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok()?.into_os_string().into_string().ok()
}

/// The 22nd field of `stat`. The second, the program's name, may hold anything; the others
/// are counted from its closing bracket. A zombie has ended: it holds nothing any more.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_machine_that_has_ended_is_dead() {
        let own = this().unwrap();
        assert!(!is_dead(&own));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = Process { pid: child.id(), ..own.clone() };
        child.wait().unwrap();
        assert!(is_dead(&gone));
        assert!(is_dead(&Process { started: own.started + 1, ..own.clone() }), "the number was used again");
        assert!(!is_dead(&Process { boot_id: "another".into(), ..gone.clone() }));
        assert!(!is_dead(&Process { pid_namespace: "pid:[1]".into(), ..gone }));
    }
}
