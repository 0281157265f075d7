//! `pstore`, the command line.
//!
//! Flags become values before any work starts; values become calls of the library; its
//! reports become text or one JSON document on stdout. Talk goes to stderr.

mod answer;
mod args;
mod chrome;
mod console;
mod exit;
mod failure;
mod location;
mod progress;
mod size;
mod table;
mod time;
mod verbs;

use std::{process::ExitCode, time::Duration};

use crate::{answer::Answer, args::Invocation, failure::Failure};

/// How long work that was interrupted may take to clean up after itself.
const LAST_BREATH: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let invocation = match args::parse() {
        Ok(invocation) => invocation,
        Err(refusal) => return refusal.print(),
    };
    let console = invocation.console;
    console.log_to_stderr();
    match run(invocation) {
        Some(Ok(answer)) => console.answer(&answer),
        Some(Err(failure)) => console.failure(&failure),
        None => {
            console.say("interrupted; what was stored before is untouched");
            ExitCode::from(exit::INTERRUPTED)
        }
    }
}

/// The verb's answer; `None` if the user interrupted it.
fn run(invocation: Invocation) -> Option<Result<Answer, Failure>> {
    let console = invocation.console;
    let threads = threads();
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return Some(Err(Failure::internal(format!("no threads can be started: {error}")))),
    };
    let ended = runtime.block_on(async {
        tokio::select! {
            answer = verbs::run(invocation, console) => Some(answer),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    // Half-written directories go when the threads that fill them notice.
    runtime.shutdown_timeout(LAST_BREATH);
    ended
}

/// Threads that wait, and as many again that compute.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}
