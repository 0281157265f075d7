//! `pstore sessions`

use std::path::{Path, PathBuf};

use engine::{failure::Failure, settings::Settings, text::size};
use fuse::overlay::session::{Place, SessionDir};
use serde_json::{Value, json};
use store::{
    ErrorKind,
    catalog::{clock, pins, session_root},
    id::RecordId,
    name::Tenant,
};

use super::{
    Engine, capture as capturing,
    commit::Published,
    copies,
    mount::{About, Candidate, Sessions, Taking, Unreadable, is_named, rescue},
    snapshot,
};
use crate::{
    answer::Answer,
    args::{DiscardArgs, RescueArgs, SessionsArgs, SessionsVerb, SetAsideArgs},
    table::{Align, Table},
};

pub(super) async fn run(
    engine: impl FnOnce() -> Result<Engine, Failure>,
    settings: &Settings,
    args: &SessionsArgs,
) -> Result<Answer, Failure> {
    match (&args.verb, &args.remote) {
        (None, None) => list(settings),
        (None, Some(tenant)) => list_remote(&engine()?, tenant).await,
        (Some(SessionsVerb::Rescue(args)), _) => rescue_one(&engine()?, args).await,
        (Some(SessionsVerb::Discard(DiscardArgs { session, remote: Some(tenant), confirm })), _) => {
            discard_remote(&engine()?, tenant, session, *confirm).await
        }
        (Some(SessionsVerb::Discard(args)), _) => discard(engine, settings, args).await,
        (Some(SessionsVerb::SetAside(args)), _) => set_aside(settings, args),
    }
}

fn list(settings: &Settings) -> Result<Answer, Failure> {
    let now = clock::unix_ms();
    let mut described: Vec<Value> = Vec::new();
    for place in [Place::Here, Place::Aside] {
        let found = Sessions::find(settings, place, Taking::Look, |_, _| true)?;
        described.extend(found.unfinished.iter().map(|candidate| describe(candidate, place, now)));
        described.extend(found.unreadable.iter().map(|unreadable| describe_unreadable(unreadable, place)));
    }
    let copies = copies::left();
    let mut text = "there is no unfinished session\n".to_owned();
    if !described.is_empty() {
        let mut table = Table::new(&[
            ("SESSION", Align::Left),
            ("PROFILE", Align::Left),
            ("MODE", Align::Left),
            ("BEGAN", Align::Left),
            ("CHANGED", Align::Right),
            ("MOUNTPOINT", Align::Left),
            ("STATE", Align::Left),
        ]);
        let mut problems = String::new();
        for session in &described {
            let text = |field: &str| session[field].as_str().unwrap_or("-").to_owned();
            let profile = match (session["tenant_id"].as_str(), session["profile_id"].as_str()) {
                (Some(tenant), Some(profile)) => format!("{tenant}/{profile}"),
                _ => "-".to_owned(),
            };
            table.row(vec![
                text("session"),
                profile,
                text("mode"),
                session["started_at_ms"].as_u64().map_or_else(|| "-".to_owned(), engine::text::time::utc),
                session["dirty_bytes"].as_u64().map_or_else(|| "-".to_owned(), size::bytes),
                text("mountpoint"),
                text("state"),
            ]);
            if let Some(problem) = session["problem"].as_str() {
                problems += &format!("{}, in {}: {problem}\n", text("session"), text("path"));
            }
        }
        text = table.render() + &problems;
    }
    copies.iter().for_each(|copy| text += &format!("{}\n", copy.advice()));
    let copies: Vec<Value> = copies.iter().map(|copy| json!(copy.fields())).collect();
    Ok(Answer::new(json!({ "sessions": described, "copies": copies }), text))
}

fn state(place: Place, is_readable: bool) -> &'static str {
    match (place, is_readable) {
        (Place::Aside, _) => "set_aside",
        (Place::Here, true) => "unfinished",
        (Place::Here, false) => "unreadable",
    }
}

fn describe(candidate: &Candidate, place: Place, now: u64) -> Value {
    let info = &candidate.info;
    json!({
        "session": candidate.session.id(),
        "state": state(place, true),
        "problem": Value::Null,
        "path": candidate.session.path(),
        "store": info.store,
        "tenant_id": info.profile.split('/').next(),
        "profile_id": info.profile.split('/').nth(1),
        "chrome_major_version": info.chrome_major,
        "mode": info.mode.as_str(),
        "mountpoint": info.mountpoint,
        "record": info.record,
        "started_at_ms": info.started_at_ms,
        "age_ms": now.saturating_sub(info.started_at_ms),
        "dirty_bytes": candidate.unfinished.written_bytes(),
    })
}

fn describe_unreadable(unreadable: &Unreadable, place: Place) -> Value {
    let Unreadable { id, path, problem, about: About { store, profile, chrome_major, mode } } = unreadable;
    let part = |at: usize| profile.as_ref().and_then(|profile| profile.split('/').nth(at));
    json!({
        "session": id,
        "state": state(place, false),
        "problem": problem,
        "path": path,
        "store": store,
        "tenant_id": part(0),
        "profile_id": part(1),
        "chrome_major_version": chrome_major,
        "mode": mode.map(|mode| mode.as_str()),
        "mountpoint": Value::Null,
        "record": Value::Null,
        "started_at_ms": Value::Null,
        "age_ms": Value::Null,
        "dirty_bytes": Value::Null,
    })
}

/// The one session whose id starts so, wherever it lies.
enum Chosen {
    Readable(Box<Candidate>),
    Unreadable(Unreadable),
}

impl Chosen {
    fn path(&self) -> PathBuf {
        match self {
            Self::Readable(candidate) => candidate.session.path().to_owned(),
            Self::Unreadable(unreadable) => unreadable.path.clone(),
        }
    }

    fn id(&self) -> String {
        match self {
            Self::Readable(candidate) => candidate.session.id(),
            Self::Unreadable(unreadable) => unreadable.id.clone(),
        }
    }
}

fn chosen(settings: &Settings, prefix: &str, taking: Taking) -> Result<Chosen, Failure> {
    let named = [prefix.to_owned()];
    let fits = |path: &Path, _: &About| is_named(path, &named);
    let mut fitting = Vec::new();
    for place in [Place::Here, Place::Aside] {
        let found = Sessions::find(settings, place, taking, fits)?;
        fitting.extend(found.unfinished.into_iter().map(|candidate| Chosen::Readable(Box::new(candidate))));
        fitting.extend(found.unreadable.into_iter().map(Chosen::Unreadable));
    }
    match (fitting.pop(), fitting.is_empty()) {
        (Some(found), true) => Ok(found),
        (None, _) => {
            Err(Failure::new(ErrorKind::NotFound, format!("there is no unfinished session {prefix}"))
                .hint("`pstore sessions` lists them; one that is mounted is among `pstore mounts`"))
        }
        _ => Err(Failure::new(ErrorKind::Ambiguous, format!("{prefix} fits several sessions"))
            .hint("give more of it")),
    }
}

fn set_aside(settings: &Settings, args: &SetAsideArgs) -> Result<Answer, Failure> {
    // Only looked at: what is held could not be moved by whoever is to move it.
    let found = chosen(settings, &args.session, Taking::Look)?;
    let (id, path) = (found.id(), found.path());
    drop(found);
    if path.parent().and_then(Path::file_name).is_some_and(|folder| folder == ".aside") {
        let text = format!("session {id} is set aside already, in {}\n", path.display());
        return Ok(Answer::new(json!({ "session": id, "path": path }), text));
    }
    let Some(path) = SessionDir::set_aside(&path)? else {
        let message = format!("somebody uses session {id}");
        return Err(Failure::new(ErrorKind::InUse, message).hint("`pstore mounts` shows what is mounted"));
    };
    let text =
        format!("session {id} is set aside, in {}; `pstore sessions` still lists it\n", path.display());
    Ok(Answer::new(json!({ "session": id, "path": path }), text))
}

async fn rescue_one(engine: &Engine, args: &RescueArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    let candidate = match chosen(&engine.settings, &args.session, Taking::Take)? {
        Chosen::Readable(candidate) => *candidate,
        Chosen::Unreadable(Unreadable { id, path, problem, .. }) => {
            let message = format!("session {id} cannot be read: {problem}");
            return Err(Failure::new(ErrorKind::SessionUnreadable, message)
                .hint(format!("it lies in {}; the pstore that wrote it may read it", path.display())));
        }
    };
    let (id, stored_in) = (candidate.session.id(), candidate.info.store.clone());
    if stored_in != engine.location.shown() {
        let message = format!("session {id} is of the store {stored_in}");
        return Err(Failure::usage(message).hint(format!("--store {stored_in}")));
    }
    let Published { lineage, report, remarks, replaced, .. } = rescue(engine, candidate, args).await?;
    let warnings = snapshot::warnings(&report, remarks);
    let mut text = format!("{} {}: session {id} is stored\n", lineage.name, report.sha256_prefix);
    text.extend(replaced.iter().map(|replaced| format!("it replaces {replaced}\n")));
    if report.held_back.is_some() {
        engine.say(&format!("session {id} is kept; `pstore sessions discard {id} --confirm` drops it"));
    }
    let mut document = snapshot::document(&lineage, &report, &warnings);
    document["session"] = json!(id);
    document["replaced"] = json!(replaced);
    let verdict = capturing::held_back(&report);
    let brief = Some(format!("{}\n", report.snapshot_id));
    Ok(Answer { brief, verdict, ..Answer::new(document, text) })
}

async fn discard(
    engine: impl FnOnce() -> Result<Engine, Failure>,
    settings: &Settings,
    args: &DiscardArgs,
) -> Result<Answer, Failure> {
    if let Some(copy) = copies::find(&args.session)? {
        let id = copy.discard(args.confirm)?;
        let text = format!("the copy {id} is gone\n");
        return Ok(Answer::new(json!({ "session": id, "discarded": true }), text));
    }
    let found = chosen(settings, &args.session, Taking::Take)?;
    let id = found.id();
    if !args.confirm {
        let message = match &found {
            Chosen::Readable(candidate) => {
                let bytes = size::bytes(candidate.unfinished.written_bytes());
                format!(
                    "{bytes} that were written in session {id} of {} would be gone",
                    candidate.info.profile
                )
            }
            Chosen::Unreadable(unreadable) => {
                format!(
                    "what was written in session {id} would be gone, which cannot be read: {}",
                    unreadable.problem
                )
            }
        };
        return Err(
            Failure::usage(message).hint(format!("`pstore sessions discard {id} --confirm` drops them"))
        );
    }
    let about = match found {
        Chosen::Readable(candidate) => {
            candidate.session.remove()?;
            Some((candidate.info.store.clone(), candidate.info.lineage().map(|of| of.name.tenant)))
        }
        Chosen::Unreadable(Unreadable { path, about, .. }) => {
            // One that is in use is not unreadable because of that: it must be free.
            let aside = SessionDir::set_aside(&path)?;
            let Some(aside) = aside else {
                return Err(Failure::new(ErrorKind::InUse, format!("somebody uses session {id}")));
            };
            std::fs::remove_dir_all(&aside)
                .map_err(|error| store::Error::io("cannot remove", &aside, error))?;
            let tenant = about.profile.and_then(|profile| profile.split('/').next()?.parse().ok());
            about.store.map(|store| (store, tenant))
        }
    };
    let mut text = format!("session {id} is gone\n");
    // After it: while there is a session, what it builds on stays.
    let kept = match (id.parse::<RecordId>(), about) {
        (Ok(session), Some((store, Some(tenant)))) => forget(engine, &store, &tenant, session).await.err(),
        _ => Some("where that is stored is not known".to_owned()),
    };
    if let Some(reason) = &kept {
        text += &format!("what it was built on stays for its sake until that expires: {reason}\n");
    }
    Ok(Answer::new(json!({ "session": id, "discarded": true }), text))
}

/// Nothing is kept in the store for a session any more; else why.
async fn forget(
    engine: impl FnOnce() -> Result<Engine, Failure>,
    store: &str,
    tenant: &Tenant,
    session: RecordId,
) -> Result<(), String> {
    let engine = engine().map_err(|failure| failure.message)?;
    if engine.location.shown() != store {
        return Err(format!("it is of the store {store}"));
    }
    let tenant = engine.writable_tenant(tenant).await.map_err(|failure| failure.message)?;
    session_root::forget(&tenant, session).await.map(drop).map_err(|error| error.to_string())
}

async fn list_remote(engine: &Engine, tenant: &Tenant) -> Result<Answer, Failure> {
    let store = engine.tenant(tenant).await?;
    let found = pins::read(&store).await?;
    let mut described = Vec::new();
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("HOST", Align::Left),
        ("PROFILE", Align::Left),
        ("SNAPSHOT", Align::Left),
        ("RENEWED", Align::Right),
        ("EXPIRES", Align::Right),
    ]);
    for found in found.iter().filter(|found| found.holds) {
        let Some(session) = &found.pin.session else { continue };
        let left = found.pin.ttl().saturating_sub(found.age);
        described.push(json!({
            "session": session.id,
            "host": session.host,
            "tenant_id": tenant,
            "profile_id": session.profile_id,
            "chrome_major_version": session.chrome_major_version,
            "record": found.pin.record,
            "age_ms": found.age.as_millis() as u64,
            "expires_in_ms": left.as_millis() as u64,
        }));
        table.row(vec![
            session.id.to_string(),
            session.host.clone(),
            format!("{tenant}/{}", session.profile_id),
            found.pin.record.to_string(),
            format!("{} h ago", found.age.as_secs() / 3600),
            format!("in {} d", left.as_secs() / 86_400),
        ]);
    }
    let none = format!("no snapshot of {tenant} is kept for an unfinished session\n");
    let text = if described.is_empty() { none } else { table.render() };
    Ok(Answer::new(json!({ "kept": described }), text))
}

async fn discard_remote(
    engine: &Engine,
    tenant: &Tenant,
    prefix: &str,
    confirm: bool,
) -> Result<Answer, Failure> {
    let store = engine.writable_tenant(tenant).await?;
    let wanted = prefix.to_ascii_uppercase();
    let found = pins::read(&store).await?;
    let mut sessions: Vec<_> = found.iter().filter_map(|found| found.pin.session.as_ref()).collect();
    sessions.retain(|session| session.id.to_string().starts_with(&wanted));
    sessions.sort_by_key(|session| session.id);
    sessions.dedup_by_key(|session| session.id);
    let session = match sessions.as_slice() {
        [] => {
            let message = format!("no snapshot of {tenant} is kept for a session {prefix}");
            return Err(Failure::new(ErrorKind::NotFound, message)
                .hint(format!("`pstore sessions --remote {tenant}` lists them")));
        }
        [session] => session,
        _ => {
            let message = format!("{prefix} fits several sessions");
            return Err(Failure::new(ErrorKind::Ambiguous, message).hint("give more of it"));
        }
    };
    let (id, host) = (session.id, &session.host);
    if !confirm {
        let message = format!(
            "what session {id} on {host:?} builds on could be deleted, and what it holds could no longer be rescued"
        );
        return Err(Failure::usage(message).hint(format!(
            "`pstore sessions discard {id} --remote {tenant} --confirm` if that host is gone for ever"
        )));
    }
    session_root::forget(&store, id).await?;
    let text = format!("no snapshot of {tenant} is kept for session {id} on {host:?} any more\n");
    Ok(Answer::new(json!({ "session": id, "discarded": true }), text))
}
