//! `sessions` turns the arguments of `pstore sessions` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    settings::Settings,
    text::{size, time},
    verbs::sessions::{
        self, DiscardOutcome, DiscardRequest, ListedSession, RescueRequest, SessionsOutcome, SessionsRequest,
        SetAsideRequest,
        remote::{DiscardRemoteRequest, RemoteSessionsRequest},
    },
};
use store::name::Tenant;

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
        (Some(SessionsVerb::Rescue(args)), _) => rescue(&engine()?, args).await,
        (Some(SessionsVerb::Discard(DiscardArgs { session, remote: Some(tenant), confirm })), _) => {
            let request =
                DiscardRemoteRequest { session: session.clone(), tenant: tenant.clone(), confirm: *confirm };
            discard_remote(&engine()?, &request).await
        }
        (Some(SessionsVerb::Discard(args)), _) => discard(engine, settings, args).await,
        (Some(SessionsVerb::SetAside(args)), _) => set_aside(settings, args),
    }
}

fn list(settings: &Settings) -> Result<Answer, Failure> {
    let outcome = sessions::list(settings, &SessionsRequest {})?;
    Answer::of(&outcome, listed(&outcome))
}

fn listed(outcome: &SessionsOutcome) -> String {
    let mut text = "there is no unfinished session\n".to_owned();
    if !outcome.sessions.is_empty() {
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
        for session in &outcome.sessions {
            table.row(row(session));
            if let Some(problem) = &session.problem {
                problems += &format!("{}, in {}: {problem}\n", session.session, session.path.display());
            }
        }
        text = table.render() + &problems;
    }
    outcome.copy_advice.iter().for_each(|advice| text += &format!("{advice}\n"));
    text
}

fn row(session: &ListedSession) -> Vec<String> {
    let none = || "-".to_owned();
    let profile = match (&session.tenant_id, &session.profile_id) {
        (Some(tenant), Some(profile)) => format!("{tenant}/{profile}"),
        _ => none(),
    };
    vec![
        session.session.clone(),
        profile,
        session.mode.map_or_else(none, |mode| mode.as_str().to_owned()),
        session.started_at_ms.map_or_else(none, time::utc),
        session.dirty_bytes.map_or_else(none, size::bytes),
        session.mountpoint.as_ref().map_or_else(none, |path| path.display().to_string()),
        session.state.as_str().to_owned(),
    ]
}

fn set_aside(settings: &Settings, args: &SetAsideArgs) -> Result<Answer, Failure> {
    let outcome = sessions::set_aside(settings, &SetAsideRequest { session: args.session.clone() })?;
    let (id, path) = (&outcome.session, outcome.path.display());
    let text = match outcome.was_aside {
        true => format!("session {id} is set aside already, in {path}\n"),
        false => format!("session {id} is set aside, in {path}; `pstore sessions` still lists it\n"),
    };
    Answer::of(&outcome, text)
}

async fn rescue(engine: &Engine, args: &RescueArgs) -> Result<Answer, Failure> {
    let request = RescueRequest {
        session: args.session.clone(),
        other: args.other.clone(),
        force: args.force,
        capture: args.capture.options(),
    };
    let outcome = engine.rescue_session(&request).await?;
    let captured = &outcome.captured;
    let name = captured.lineage.lineage().name;
    let mut text = format!("{name} {}: session {} is stored\n", captured.sha256_prefix, outcome.session);
    text.extend(outcome.replaced.iter().map(|replaced| format!("it replaces {replaced}\n")));
    let brief = Some(format!("{}\n", captured.snapshot_id));
    Ok(Answer { brief, ..Answer::of(&outcome, text)? })
}

async fn discard(
    engine: impl FnOnce() -> Result<Engine, Failure>,
    settings: &Settings,
    args: &DiscardArgs,
) -> Result<Answer, Failure> {
    let request = DiscardRequest { session: args.session.clone(), confirm: args.confirm };
    let outcome = sessions::discard(settings, &request, engine).await?;
    let DiscardOutcome { session, was_copy, root_problem, .. } = &outcome;
    let mut text = match was_copy {
        true => format!("the copy {session} is gone\n"),
        false => format!("session {session} is gone\n"),
    };
    if let Some(problem) = root_problem {
        text += &format!("what it was built on stays for its sake until that expires: {problem}\n");
    }
    Answer::of(&outcome, text)
}

async fn list_remote(engine: &Engine, tenant: &Tenant) -> Result<Answer, Failure> {
    let outcome = engine.remote_sessions(&RemoteSessionsRequest { tenant: tenant.clone() }).await?;
    if outcome.kept.is_empty() {
        return Answer::of(&outcome, format!("no snapshot of {tenant} is kept for an unfinished session\n"));
    }
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("HOST", Align::Left),
        ("PROFILE", Align::Left),
        ("SNAPSHOT", Align::Left),
        ("RENEWED", Align::Right),
        ("EXPIRES", Align::Right),
    ]);
    for session in &outcome.kept {
        table.row(vec![
            session.session.to_string(),
            session.host.clone(),
            format!("{tenant}/{}", session.profile_id),
            session.record.to_string(),
            format!("{} h ago", session.age_ms / 3_600_000),
            format!("in {} d", session.expires_in_ms / 86_400_000),
        ]);
    }
    Answer::of(&outcome, table.render())
}

async fn discard_remote(engine: &Engine, request: &DiscardRemoteRequest) -> Result<Answer, Failure> {
    let discarded = engine.discard_remote_session(request).await?;
    let (tenant, id, host) = (&request.tenant, &discarded.outcome.session, &discarded.host);
    let text = format!("no snapshot of {tenant} is kept for session {id} on {host:?} any more\n");
    Answer::of(&discarded.outcome, text)
}
