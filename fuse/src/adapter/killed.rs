//! `killed` tells when a thread that waits for an answer has been killed.
//!
//! The kernel waits for the answer to a request, whatever becomes of the thread that made it, and
//! `fuser` does not pass on that somebody wants to interrupt it. So `/proc` is asked about the thread.
//! Only a signal that ends the program counts (`SIGKILL`, or any other that it does not handle, for which
//! the kernel adds `SIGKILL`): a program that goes on would take an answer that it has no use for as
//! damage, and one that reads a mapping would be ended by `SIGBUS`.

use std::{fs, future, time::Duration};

/// How often it is looked whether the thread was killed. A read from a store that answers is over
/// before the first look.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The bit of `SIGKILL` in a mask of signals.
const KILL: u64 = 1 << 8;

/// Returns when the thread with this number has been killed; never if that cannot be known.
pub(super) async fn killed(thread: u32) {
    // The kernel names nobody for what it does by itself, or for threads of another namespace.
    if thread == 0 {
        return future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match fs::read_to_string(format!("/proc/{thread}/status")) {
            Ok(status) if is_killed(&status) => return,
            Ok(_) => {}
            Err(_) => return future::pending().await,
        }
    }
}

fn is_killed(status: &str) -> bool {
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & KILL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_has_to_end_counts() {
        let status = |mask: &str| format!("Name:\tcat\nSigPnd:\t{mask}\nShdPnd:\t0000000000004000\n");
        assert!(is_killed(&status("0000000000000100")));
        assert!(is_killed(&status("0000000000004100")));
        assert!(!is_killed(&status("0000000000004000")), "it handles SIGTERM by itself");
        assert!(!is_killed(&status("0000000000000000")));
        assert!(!is_killed(""));
    }
}
