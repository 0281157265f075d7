//! `stop` ends the processes that run on a user-data-dir, so that it holds still.
//!
//! It asks a browser over DevTools if it can, else by SIGINT: both make the browser write everything and close.
//! SIGTERM comes only after these, since a headless Chrome then exits at once and drops the cookies of the last half
//! minute. When the time is up it kills the browser.
//!
//! `leave_running` ends nothing, for a mount that can be captured beside its browser.
//!
//! When `stop` returns without an error, no visible process runs Chrome on the directory. Unless the caller checks that
//! itself, no visible process has a file in it open for writing either.

mod outcome;

pub use outcome::{Ended, StopError, StopOptions, Stopped};

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    cookie_databases::cookie_databases,
    cookie_writer::write_cookies,
    held_cookies::{self, Attempt, CookieState, HeldCookies},
    process::{self, Identity},
    processes::{self, BrowserProcess, Users},
    profile::Facts,
    singleton::{self, Lock},
};

/// How often to look whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A browser that gives no answer for this long will not obey.
const ASK: Duration = Duration::from_secs(2);
/// The children of a browser that has ended find that out by themselves.
const CHILDREN: Duration = Duration::from_secs(2);

/// Ends every Chrome on `directory` and waits until it holds still.
pub fn stop(directory: &Path, options: &StopOptions) -> Result<Stopped, StopError> {
    let began = Instant::now();
    let mut found = look(directory)?;
    if found.browsers.is_empty() && found.runs() {
        // Their browser has just gone: they are about to go, too.
        wait_for(&found.child_ids(), began + CHILDREN);
        found = look(directory)?;
    }
    if found.runs() && !options.allow_stop {
        return Err(running(&found));
    }
    let crashed_before = found.browsers.is_empty() && left_by_a_crash(directory);
    let lock = Lock::read(directory).filter(|lock| !found.runs() && !lock.is_of_this_host());
    let ended = if !found.browsers.is_empty() {
        end(directory, &found, began + options.wait, options.wait / 4)?
    } else if found.runs() {
        kill(&found.child_ids())?;
        Ended::Killed
    } else {
        Ended::NotRunning
    };
    let unseen_processes = match options.open_wait {
        Some(wait) => wait_until_closed(directory, wait)?,
        None => see_that_none_runs(directory)?,
    };
    Ok(Stopped {
        ended,
        took: began.elapsed(),
        uptime: found.browsers.iter().map(|browser| browser.uptime).max(),
        pids: found.browsers.iter().map(|browser| browser.pid).collect(),
        crashed: crashed_before
            || ended == Ended::Killed
            || ended != Ended::NotRunning && Facts::read(directory).says_crashed,
        lock_of_another_host: lock,
        unwritten_cookies: None,
        held_cookies: None,
        unseen_processes,
    })
}

/// Ends nothing: has the browser on `directory` write its cookies, and tells which processes run there, for a
/// capture beside it. `is_written_to` if somebody has files there open for writing, whether or not it can be
/// seen; `attempt` is the number of this try.
pub fn leave_running(directory: &Path, is_written_to: bool, attempt: &Attempt) -> Result<Stopped, StopError> {
    let found = look(directory)?;
    let (mut unwritten, mut held) = (None, Vec::new());
    for browser in &found.browsers {
        let written = match &browser.devtools {
            Some(endpoint) => write_cookies(directory, endpoint).map(|written| (endpoint.clone(), written)),
            None => Err("the browser has no DevTools port".to_owned()),
        };
        match written {
            Ok(written) => held.push(written),
            Err(why) => unwritten = unwritten.or(Some(why)),
        }
    }
    let databases = cookie_databases(directory);
    // Of several databases or browsers nobody knows which belong together.
    let held_cookies = match (&databases[..], held.pop(), &held[..]) {
        ([database], Some((endpoint, written)), []) => database
            .strip_prefix(directory)
            .ok()
            .map(|below| HeldCookies::new(endpoint, below.to_owned(), written, attempt.clone())),
        _ => None,
    };
    let unwritten_cookies = match (databases.len(), found.browsers.is_empty()) {
        (0, _) => None,
        (_, true) => is_written_to.then(|| "who writes there cannot be seen".to_owned()),
        (1, false) => unwritten,
        // DevTools reaches the cookies of one profile, and says not of which.
        (several, false) => unwritten.or_else(|| {
            Some(format!("there are {several} databases of cookies, and one browser writes one"))
        }),
    };
    let runs = !found.browsers.is_empty();
    Ok(Stopped {
        ended: if runs { Ended::Running } else { Ended::NotRunning },
        uptime: found.browsers.iter().map(|browser| browser.uptime).max(),
        pids: found.browsers.iter().map(|browser| browser.pid).collect(),
        crashed: !found.runs() && left_by_a_crash(directory),
        lock_of_another_host: Lock::read(directory).filter(|lock| !found.runs() && !lock.is_of_this_host()),
        unwritten_cookies,
        held_cookies,
        unseen_processes: found.unseen_processes,
        ..Stopped::default()
    })
}

/// The cookies of the one browser that runs on `directory`, if `changed`, paths below it, are parts of the one database
/// of cookies and nothing else. `None` also if it cannot be asked.
pub fn cookies_alone(directory: &Path, changed: &[String]) -> Option<CookieState> {
    let databases = cookie_databases(directory);
    let [database] = &databases[..] else { return None };
    let parts = held_cookies::files(database.strip_prefix(directory).ok()?);
    if changed.is_empty() || !changed.iter().all(|path| parts.iter().any(|part| part == Path::new(path))) {
        return None;
    }
    let found = look(directory).ok()?;
    let [browser] = &found.browsers[..] else { return None };
    let told = held_cookies::told_now(browser.devtools.as_ref()?);
    told.inspect_err(|error| tracing::warn!(%error, "the browser does not tell its cookies"))
        .ok()
        .map(|told| told.state())
}

/// Fails if a Chrome runs on `directory`.
pub fn require_unused(directory: &Path) -> Result<(), StopError> {
    let found = look(directory)?;
    if found.runs() { Err(running(&found)) } else { Ok(()) }
}

/// Fails if somebody has a file in `directory` open for writing.
pub fn require_closed(directory: &Path) -> Result<(), StopError> {
    let found = look(directory)?;
    if found.holders.is_empty() { Ok(()) } else { Err(still_open(found)) }
}

/// Has every browser on `directory` close as a person would, and waits until they have. What else
/// uses the directory is left alone.
pub fn close(directory: &Path, wait: Duration) -> Result<Ended, StopError> {
    let found = look(directory)?;
    match found.browsers.is_empty() {
        true => Ok(Ended::NotRunning),
        false => end(directory, &found, Instant::now() + wait, wait / 4),
    }
}

/// A Chrome that runs has links and says `Crashed`, to be found if it never comes to say
/// otherwise; so this means something only while none runs.
fn left_by_a_crash(directory: &Path) -> bool {
    !singleton::present(directory).is_empty() || Facts::read(directory).says_crashed
}

fn look(directory: &Path) -> Result<Users, StopError> {
    processes::users(directory).map_err(|source| StopError::Look { directory: directory.to_owned(), source })
}

fn running(users: &Users) -> StopError {
    let browsers = users.browsers.iter().map(|browser| (browser.pid, browser.command.clone()));
    let children = users.children.iter().map(|child| (child.id.pid, child.command.clone()));
    // The children say nothing that their browser does not.
    let (pids, commands) = if users.browsers.is_empty() { children.unzip() } else { browsers.unzip() };
    StopError::Running { pids, commands }
}

/// `hurry` is the part of the time, at its end, for those that did not take the first word.
fn end(directory: &Path, users: &Users, deadline: Instant, hurry: Duration) -> Result<Ended, StopError> {
    let browsers: Vec<_> = users.browsers.iter().map(|browser| browser.id).collect();
    let mut ended = Ended::NotRunning;
    for browser in &users.browsers {
        ended = ended.max(ask(browser, deadline)?);
    }
    // Better in a hurry than killed.
    if !wait_for(&browsers, deadline - hurry) {
        for browser in browsers.iter().filter(|browser| browser.runs()) {
            signal(*browser, Signal::TERM)?;
            ended = Ended::Terminated;
        }
    }
    if wait_for(&browsers, deadline) {
        if !wait_for(&users.child_ids(), Instant::now() + CHILDREN) {
            tracing::warn!("children of a Chrome that has ended still run; killing them");
            kill(&users.child_ids())?;
        }
        return Ok(ended);
    }
    let late: Vec<_> = browsers.iter().filter(|browser| browser.runs()).map(|browser| browser.pid).collect();
    tracing::warn!(?late, "Chrome did not end in time; killing it");
    // The browser first: it would start its children again. It may have new ones by now.
    let now = look(directory)?;
    kill(&[browsers, users.child_ids(), now.child_ids()].concat())?;
    Ok(Ended::Killed)
}

fn ask(browser: &BrowserProcess, deadline: Instant) -> Result<Ended, StopError> {
    if let Some(endpoint) = &browser.devtools {
        let timeout = ASK.min(deadline.saturating_duration_since(Instant::now()));
        match endpoint.close(timeout) {
            Ok(()) => return Ok(Ended::Closed),
            Err(error) => tracing::warn!(pid = browser.pid, "not closed over DevTools: {error}"),
        }
    }
    signal(browser.id, Signal::INT)?;
    Ok(Ended::Terminated)
}

fn kill(processes: &[Identity]) -> Result<(), StopError> {
    for process in processes.iter().filter(|process| process.runs()) {
        signal(*process, Signal::KILL)?;
    }
    // Ending takes a moment even so. What does not end is told by what it holds open.
    wait_for(processes, Instant::now() + CHILDREN);
    Ok(())
}

fn signal(process: Identity, signal: Signal) -> Result<(), StopError> {
    process.signal(signal).map_err(|source| StopError::Denied {
        pid: process.pid,
        command: process::command(process.pid),
        owner: process::owner(process.pid),
        source,
    })
}

fn wait_for(processes: &[Identity], deadline: Instant) -> bool {
    loop {
        if !processes.iter().any(|process| process.runs()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Finds a Chrome that its supervisor has started again meanwhile.
fn see_that_none_runs(directory: &Path) -> Result<usize, StopError> {
    let mut users = look(directory)?;
    if users.browsers.is_empty() && users.runs() {
        wait_for(&users.child_ids(), Instant::now() + CHILDREN);
        users = look(directory)?;
    }
    if users.runs() { Err(running(&users)) } else { Ok(users.unseen_processes) }
}

/// Also finds a Chrome that was started again meanwhile.
fn wait_until_closed(directory: &Path, wait: Duration) -> Result<usize, StopError> {
    let deadline = Instant::now() + wait;
    loop {
        let users = look(directory)?;
        if !users.browsers.is_empty() {
            return Err(running(&users));
        }
        if users.holders.is_empty() && users.children.is_empty() {
            return Ok(users.unseen_processes);
        }
        if Instant::now() >= deadline {
            return Err(still_open(users));
        }
        thread::sleep(LOOK_EVERY * 5);
    }
}

fn still_open(users: Users) -> StopError {
    let holders = users.holders.iter().map(|holder| (holder.pid, holder.command.clone()));
    let children = users.children.iter().map(|child| (child.id.pid, child.command.clone()));
    let (pids, commands) = holders.chain(children).unzip();
    let paths = users.holders.into_iter().flat_map(|holder| holder.paths).collect();
    StopError::StillOpen { pids, commands, paths }
}

#[cfg(test)]
mod tests;
