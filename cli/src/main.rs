//! `pstore` is the command line: it parses arguments, runs one verb and exits with its code.
//!
//! Flags become values before any work starts; values become calls of the library; its reports become text or one
//! JSON document on stdout. Remarks go to stderr.

mod answer;
mod args;
mod console;
mod daemon;
mod json_log;
mod progress;
mod progress_lines;
mod table;
mod top;
mod verbs;

use std::{pin::Pin, process::ExitCode, time::Duration};

use capture::cell;
use engine::{
    failure::{Failure, codes},
    host::signals,
    interrupt::Interrupt,
    threads,
};
use fuse::mount::write_out::{self, WrittenOut};

use crate::{answer::Answer, args::Invocation, console::Console, verbs::complete};

/// The allocator. That of the C library keeps what many threads have freed; `.cargo/config.toml` has this one give it back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How long work that was interrupted may take to clean up after itself.
const LAST_BREATH: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    if std::env::args_os().skip(1).eq([cell::VERB]) {
        return cell();
    }
    if std::env::args_os().skip(1).eq([write_out::VERB]) {
        return write_out();
    }
    if std::env::args_os().nth(1).is_some_and(|verb| verb == complete::VERB) {
        return complete();
    }
    let invocation = match args::parse() {
        Ok(invocation) => invocation,
        Err(refusal) => return refusal.print(),
    };
    let console = invocation.console;
    console::started();
    console.log_to_stderr();
    let ended = run(invocation);
    console.step("done");
    match ended {
        Some(Ok(answer)) => console.answer(&answer),
        Some(Err(failure)) => console.failure(&failure),
        None => {
            console.say("interrupted; what was there before is untouched");
            ExitCode::from(codes::code(store::ErrorKind::Interrupted))
        }
    }
}

/// This process is one that another has started to examine databases. It has no console and no
/// settings, and starts no threads before it has confined itself.
fn cell() -> ExitCode {
    match cell::serve(std::io::stdin().lock(), std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(codes::code(store::ErrorKind::Io)),
    }
}

/// This process is one that the daemon of a mount has started to have mapped files written out.
fn write_out() -> ExitCode {
    match write_out::serve(std::io::stdin().lock()) {
        Ok(WrittenOut::All) => ExitCode::SUCCESS,
        Ok(WrittenOut::Moved) => ExitCode::from(write_out::MOVED),
        Ok(WrittenOut::Some) => ExitCode::from(write_out::LEFT_OUT),
        Err(_) => ExitCode::from(codes::code(store::ErrorKind::Io)),
    }
}

/// Somebody types a line and asks what could come next. No matter what goes wrong, only words are
/// printed.
fn complete() -> ExitCode {
    let words = std::env::args_os().skip(2).collect();
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        let words = runtime.block_on(complete::run(words));
        runtime.shutdown_background();
        console::print(&words);
    }
    ExitCode::SUCCESS
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
    let ended = runtime.block_on(until_told(invocation, console));
    // Half-written directories go when the threads that fill them notice.
    runtime.shutdown_timeout(LAST_BREATH);
    ended
}

/// Runs the verb. If the user or the host wants it to end, one that has to clean up may do
/// so; any other is dropped. One that has something at rest is waited for until it goes on, unless it is told a second
/// time.
async fn until_told(invocation: Invocation, console: Console) -> Option<Result<Answer, Failure>> {
    let guards = invocation.verb.sees_to_signals();
    let interrupt = Interrupt::new();
    let mut verb = std::pin::pin!(verbs::run(invocation, console, interrupt.clone()));
    tokio::select! {
        answer = &mut verb => return Some(answer),
        () = async { signals::told_to_end().await }, if !guards => {}
    }
    // What can no longer be prevented is finished, and told as it is.
    if !interrupt.point_of_no_return().prevent() {
        return Some(verb.await);
    }
    if !interrupt.raise() && !interrupt.is_unsettled() {
        return None;
    }
    // Who forwards a signal may send it twice: the second counts once the user has been told so.
    let mut again = None;
    loop {
        tokio::select! {
            answer = &mut verb => match answer {
                Err(failure) if failure.kind == store::ErrorKind::Interrupted => return None,
                answer => return Some(answer),
            },
            () = tokio::time::sleep(LAST_BREATH) => match interrupt.is_unsettled() {
                true if again.is_some() => {}
                true => {
                    again = Some(Box::pin(signals::told_to_end()));
                    console.say("what was stopped or paused is put back first; another signal ends this at once");
                }
                false => return None,
            },
            () = told_again(&mut again) => return Some(Err(left_at_rest())),
        }
    }
}

/// Ends with the next signal, if it is listened to.
async fn told_again(again: &mut Option<Pin<Box<impl Future<Output = ()>>>>) {
    match again {
        Some(again) => again.await,
        None => std::future::pending().await,
    }
}

/// The failure of work that was told twice to end.
fn left_at_rest() -> Failure {
    let message = "ended before everything was put back that was stopped, paused or made";
    Failure::new(store::ErrorKind::Interrupted, message)
        .hint("the next `pstore container` or `pstore project` command puts it back")
}
