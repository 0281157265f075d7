//! `sessions` has the steps of mounts: begun, written to, committed, cut short, resumed.

use std::{fs, thread, time::Duration, time::Instant};

use serde_json::Value;

use super::{
    content::{self, SLOTS},
    fleet::{Fleet, MAJOR, PROFILES, Step, expect, record_of},
    host::{Cut, Session},
    ledger::{Crash, Found, Ledger},
};

fn place(fleet: &mut Fleet, host: usize, what: &str) -> std::path::PathBuf {
    let place = fleet.hosts[host].home.join(what);
    fs::create_dir_all(&place).ok();
    place
}

fn tenant_of(profile: &str) -> &str {
    profile.split('/').next().unwrap()
}

/// Mounts a profile, or goes on with the session that was cut short.
pub fn mount(fleet: &mut Fleet, host: usize) -> Step {
    let profile = *fleet.lot.pick(&PROFILES).unwrap();
    if fleet.hosts[host].mounts.iter().any(|mount| mount.profile == profile && !mount.fork) {
        return Ok(None);
    }
    let at = fleet.hosts[host].left.iter().position(|left| left.profile == profile && !left.fork);
    let left = at.map(|at| fleet.hosts[host].left.remove(at));
    let begun = begin(fleet, host, profile, left.as_ref());
    if let (Some(left), Ok(None) | Err(_)) = (left, &begun) {
        fleet.hosts[host].left.push(left);
    }
    match begun? {
        None => Ok(Some(format!("cannot mount {profile} now"))),
        Some(words) => Ok(Some(words)),
    }
}

/// `None` if somebody else is in the way.
fn begin(fleet: &mut Fleet, host: usize, profile: &str, left: Option<&Session>) -> Step {
    let place = place(fleet, host, &profile.replace('/', "-"));
    let words = ["mount", profile, place.to_str().unwrap(), "--chrome-major", MAJOR];
    let ended = fleet.hosts[host].commands().run(words);
    let pointer = fleet.pointers.get(profile).cloned();
    // A commit that had moved the pointer has come about, whatever became of the daemon.
    let built_on = left.and_then(|left| match &left.cut {
        Some(Cut::Moved { record }) => Some(record.clone()),
        _ => left.record.clone(),
    });
    let passed_by = left.is_some() && pointer != built_on;
    let mut allowed = vec![0];
    if fleet.may_be_locked(profile) {
        allowed.push(24);
    }
    if passed_by {
        // The pointer may have been moved so often that it no longer knows of the commit.
        allowed.extend([26, 28]);
    }
    expect(&ended, &allowed)?;
    if ended.code != Some(0) {
        return Ok(None);
    }
    let mounted = ended.document;
    // A commit that was cut short before the pointer moved is finished, if nobody else came between.
    let may_move = left.is_some_and(|left| matches!(left.cut, Some(Cut::Unmoved)) && !passed_by);
    let (_, current) = fleet.list(profile)?;
    if current != pointer {
        let record = current.clone().filter(|_| may_move);
        let record = record.ok_or_else(|| {
            format!("{profile} points at {current:?}, and only a mount came between: it was at {pointer:?}")
        })?;
        fleet.moved(profile, &record);
        fleet.learn(profile, &record)?;
    }
    let found = content::look(&place, SLOTS);
    let resumed = mounted["resumed"] == true;
    if let Some(left) = left {
        let base = built_on.as_ref().and_then(|record| fleet.known.get(record)).cloned();
        // A session without changes is none: then all there was is in its snapshot.
        let kept = if resumed { found.clone() } else { base.unwrap_or_default() };
        left.ledger().survived(left.crash, &kept)?;
    }
    if let (false, Some(record)) = (resumed, &current)
        && fleet.known.get(record).is_some_and(|known| *known != found)
    {
        return Err(format!("{record} is mounted as {found:?}, and is {:?}", fleet.known[record]));
    }
    let session = Session::new(profile, false, &place, mounted, current);
    start(fleet, host, session, found);
    Ok(Some(format!("mounts {profile}{}", if resumed { ", going on with a session" } else { "" })))
}

/// Takes away files that a crash has left torn, and starts the writer.
fn start(fleet: &mut Fleet, host: usize, mut session: Session, mut found: Found) {
    found.retain(|slot, found| {
        let whole = found.is_ok();
        if !whole {
            fs::remove_file(session.place.join(content::name(*slot))).unwrap();
        }
        whole
    });
    let (log, seed, from) = (fleet.path("log"), fleet.lot.number(), fleet.generations(1_000_000));
    session.start_writer(log, found, seed, from);
    fleet.hosts[host].mounts.push(session);
}

pub fn fork(fleet: &mut Fleet, host: usize) -> Step {
    let profile = *fleet.lot.pick(&PROFILES).unwrap();
    let Some(pointer) = fleet.pointers.get(profile).cloned() else { return Ok(None) };
    if fleet.hosts[host].mounts.iter().chain(&fleet.hosts[host].left).any(|session| session.fork) {
        return Ok(None);
    }
    let place = fleet.path("fork");
    fs::create_dir(&place).unwrap();
    let words = ["mount", "--fork", profile, place.to_str().unwrap(), "--chrome-major", MAJOR];
    let ended = fleet.hosts[host].commands().run(words);
    expect(&ended, &[0])?;
    let found = content::look(&place, SLOTS);
    if fleet.known.get(&pointer).is_some_and(|known| *known != found) {
        return Err(format!("{pointer} is forked as {found:?}, and is {:?}", fleet.known[&pointer]));
    }
    let session = Session::new(profile, true, &place, ended.document, Some(pointer));
    start(fleet, host, session, found);
    Ok(Some(format!("forks {profile}")))
}

fn draw(fleet: &mut Fleet, host: usize) -> Option<usize> {
    let mounts = fleet.hosts[host].mounts.len();
    (mounts > 0).then(|| fleet.lot.below(mounts))
}

/// Where the commits of a session go.
fn destination(session: &Session) -> String {
    if session.fork { format!("{}/forks", tenant_of(&session.profile)) } else { session.profile.clone() }
}

fn commit_words(session: &Session) -> Vec<String> {
    let mut words = vec!["commit".to_owned(), session.place.display().to_string()];
    if session.fork {
        words.extend(["--as".to_owned(), destination(session)]);
    }
    words
}

/// Compares the snapshot that a commit reported with the writes that were done.
fn committed(
    fleet: &mut Fleet,
    profile: &str,
    before: &Ledger,
    after: &Ledger,
    document: &Value,
) -> Result<String, String> {
    let record = record_of(document);
    fleet.moved(profile, &record);
    let found = fleet.learn(profile, &record)?;
    before.committed(after, &found).map_err(|reason| format!("{record} of {profile}: {reason}"))?;
    Ok(record)
}

/// The exit codes that a commit to this profile may have. Somebody may always have a file open. Another
/// profile than the session's own may be locked by one that died on another host.
fn commit_codes(fleet: &Fleet, session: &Session, profile: &str) -> Vec<i32> {
    let mut codes = if session.lost && !session.fork { vec![25, 26, 32] } else { vec![0, 32] };
    if session.fork && fleet.may_be_locked(profile) {
        codes.push(24);
    }
    codes
}

/// Commits when the writer has finished its present write.
pub fn commit(fleet: &mut Fleet, host: usize) -> Step {
    let Some(at) = draw(fleet, host) else { return Ok(None) };
    fleet.hosts[host].mounts[at].stop_writer();
    let words = commit_at(fleet, host, at)?;
    let session = fleet.hosts[host].mounts.remove(at);
    let found = content::look(&session.place, SLOTS);
    start(fleet, host, session, found);
    Ok(Some(words))
}

/// Commits while the writer goes on.
pub fn commit_beside(fleet: &mut Fleet, host: usize) -> Step {
    let Some(at) = draw(fleet, host) else { return Ok(None) };
    thread::sleep(Duration::from_millis(fleet.lot.below(60) as u64));
    commit_at(fleet, host, at).map(Some)
}

fn commit_at(fleet: &mut Fleet, host: usize, at: usize) -> Result<String, String> {
    let session = &fleet.hosts[host].mounts[at];
    let (profile, before) = (destination(session), session.ledger());
    let ended = fleet.hosts[host].commands().run(commit_words(session));
    let session = &fleet.hosts[host].mounts[at];
    let after = session.ledger();
    expect(&ended, &commit_codes(fleet, session, &profile))?;
    if ended.code != Some(0) {
        return Ok(format!("cannot commit {profile}: {:?}", ended.code));
    }
    let record = committed(fleet, &profile, &before, &after, &ended.document)?;
    let session = &mut fleet.hosts[host].mounts[at];
    if !session.fork {
        session.record = Some(record.clone());
    }
    Ok(format!("commits to {profile} as {record}"))
}

/// Commits, and kills the daemon meanwhile.
pub fn cut_commit(fleet: &mut Fleet, host: usize) -> Step {
    let Some(at) = draw(fleet, host) else { return Ok(None) };
    thread::sleep(Duration::from_millis(fleet.lot.below(60) as u64));
    let wait = Duration::from_millis(fleet.lot.below(250) as u64);
    let session = &fleet.hosts[host].mounts[at];
    let (profile, before) = (destination(session), session.ledger());
    let running = fleet.hosts[host].commands().start(commit_words(session));
    thread::sleep(wait);
    let mut session = fleet.hosts[host].mounts.remove(at);
    session.kill(Crash::OfTheDaemon);
    let after = session.ledger();
    let ended = running.wait();
    let lost = session.lost && !session.fork;
    let mut codes = commit_codes(fleet, &session, &profile);
    codes.extend([3, 14]);
    let pointer = fleet.pointers.get(&profile).cloned();
    let (_, current) = fleet.list(&profile)?;
    fleet.deaths.insert(session.profile.clone(), Instant::now());
    fleet.deaths.insert(profile.clone(), Instant::now());
    let mut words =
        format!("is killed while it commits to {profile}, after {} ms: {:?}", wait.as_millis(), ended.code);
    if current != pointer {
        let record = current.filter(|_| !lost).ok_or("the pointer moved, though the lock was lost")?;
        committed(fleet, &profile, &before, &after, &serde_json::json!({ "record": record }))?;
        words.push_str(", when the pointer had moved");
        if ended.code == Some(0) || session.fork {
            session.record = Some(record.clone());
        }
        session.cut = Some(Cut::Moved { record });
    } else {
        let unchanged = ended.code == Some(0) && Some(record_of(&ended.document)) == current;
        if ended.code == Some(0) && !unchanged {
            return Err(format!("{profile} was committed, and the pointer is where it was: {ended:#?}"));
        }
        session.cut = (!unchanged).then_some(Cut::Unmoved);
    }
    expect(&ended, &codes)?;
    fleet.hosts[host].left.push(session);
    Ok(Some(words))
}

fn unmount(fleet: &mut Fleet, host: usize, how: &str) -> Step {
    let Some(at) = draw(fleet, host) else { return Ok(None) };
    let mut session = fleet.hosts[host].mounts.remove(at);
    session.stop_writer();
    let (profile, ledger) = (session.profile.clone(), session.ledger());
    let ended = fleet.hosts[host].commands().run(["unmount", session.place.to_str().unwrap(), how]);
    let lost = how == "--commit" && session.lost;
    let code = ended.code;
    if let Err(reason) = expect(&ended, if lost { &[25, 26] } else { &[0] }) {
        fleet.hosts[host].mounts.push(session);
        return Err(reason);
    }
    match how {
        "--commit" if code == Some(0) => {
            committed(fleet, &profile, &ledger, &ledger, &ended.document["committed"])?;
        }
        "--commit" => fleet.hosts[host].mounts.push(session),
        "--keep" => fleet.hosts[host].left.push(session),
        _ => {}
    }
    Ok(Some(format!("unmounts {profile} with {how}: {code:?}")))
}

pub fn unmount_commit(fleet: &mut Fleet, host: usize) -> Step {
    if fleet.hosts[host].mounts.iter().any(|mount| mount.fork) {
        return Ok(None);
    }
    unmount(fleet, host, "--commit")
}

pub fn unmount_discard(fleet: &mut Fleet, host: usize) -> Step {
    unmount(fleet, host, "--discard")
}

pub fn unmount_keep(fleet: &mut Fleet, host: usize) -> Step {
    unmount(fleet, host, "--keep")
}

pub fn kill(fleet: &mut Fleet, host: usize) -> Step {
    let Some(at) = draw(fleet, host) else { return Ok(None) };
    thread::sleep(Duration::from_millis(fleet.lot.below(40) as u64));
    let mut session = fleet.hosts[host].mounts.remove(at);
    session.kill(Crash::OfTheDaemon);
    let profile = session.profile.clone();
    fleet.deaths.insert(profile.clone(), Instant::now());
    fleet.hosts[host].left.push(session);
    Ok(Some(format!("loses the daemon of {profile}")))
}

pub fn restart(fleet: &mut Fleet, host: usize) -> Step {
    for mount in &fleet.hosts[host].mounts {
        fleet.deaths.insert(mount.profile.clone(), Instant::now());
    }
    fleet.hosts[host].restart();
    Ok(Some("starts again".to_owned()))
}

fn take_left(fleet: &mut Fleet, host: usize) -> Option<Session> {
    let left = fleet.hosts[host].left.len();
    (left > 0).then(|| {
        let at = fleet.lot.below(left);
        fleet.hosts[host].left.remove(at)
    })
}

/// Makes a snapshot of a profile aside from the rest of a session.
pub fn rescue(fleet: &mut Fleet, host: usize) -> Step {
    let Some(session) = take_left(fleet, host) else { return Ok(None) };
    let profile = format!("{}/rescued", tenant_of(&session.profile));
    let words = ["sessions", "rescue", &session.id, "--as", &profile];
    let ended = fleet.hosts[host].commands().run(words);
    expect(&ended, &[0, 3])?;
    if ended.code == Some(3) {
        // It held nothing that its snapshot has not: else it is lost.
        let kept = session.record.as_ref().and_then(|record| fleet.known.get(record)).cloned();
        let survived = session.ledger().survived(session.crash, &kept.unwrap_or_default());
        survived.map_err(|reason| format!("{} is gone: {reason}: {ended:#?}", session.id))?;
        return Ok(Some(format!("finds nothing in the session of {}", session.profile)));
    }
    let record = record_of(&ended.document);
    fleet.moved(&profile, &record);
    let found = fleet.learn(&profile, &record)?;
    session.ledger().survived(session.crash, &found)?;
    Ok(Some(format!("rescues a session of {} as {record}", session.profile)))
}

pub fn discard(fleet: &mut Fleet, host: usize) -> Step {
    let Some(session) = take_left(fleet, host) else { return Ok(None) };
    let ended = fleet.hosts[host].commands().run(["sessions", "discard", &session.id, "--confirm"]);
    expect(&ended, &[0, 3])?;
    Ok(Some(format!("discards a session of {}", session.profile)))
}

/// Nothing is mounted afterwards, and nothing waits.
pub fn settle_all(fleet: &mut Fleet) -> Result<(), String> {
    for host in 0..fleet.hosts.len() {
        while !fleet.hosts[host].mounts.is_empty() {
            unmount(fleet, host, "--keep")?;
        }
        while !fleet.hosts[host].left.is_empty() {
            rescue(fleet, host)?;
        }
    }
    Ok(())
}
