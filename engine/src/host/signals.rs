//! `signals` listens to the signals of this process.

use std::fs;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens to a signal, unless our parent wants it ignored, as `nohup` and shells
/// that start a command in the background do.
pub fn listen(kind: SignalKind) -> Option<Signal> {
    if is_ignored(kind) { None } else { signal(kind).ok() }
}

/// Waits for the next one, for ever if nobody listens.
#[crate::boxed]
pub async fn next(signal: &mut Option<Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending().await
    }
}

/// Listens from now on; ends with the first signal that asks the process to end, from the terminal or as hosts
/// do it.
pub fn told_to_end() -> impl Future<Output = ()> {
    let mut interrupt = listen(SignalKind::interrupt());
    let mut terminate = listen(SignalKind::terminate());
    async move {
        tokio::select! {
            () = next(&mut interrupt) => {}
            () = next(&mut terminate) => {}
        }
    }
}

/// Whether there is a terminal, which sends an interrupt to all processes that run on it.
pub fn have_a_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    ignored >> (kind.as_raw_value() - 1) & 1 == 1
}
