//! `pstore sessions`

use std::path::Path;

use fuse::mount::info::Info;
use serde_json::{Value, json};
use store::{ErrorKind, catalog::clock};

use super::{
    Context, capture as capturing,
    commit::Published,
    mount::{Candidate, Taking, candidates, rescue},
    snapshot,
};
use crate::{
    answer::Answer,
    args::{DiscardArgs, RescueArgs, SessionsArgs, SessionsVerb},
    failure::Failure,
    settings::Settings,
    size,
    table::{Align, Table},
};

pub(super) async fn run(
    context: impl FnOnce() -> Result<Context, Failure>,
    settings: &Settings,
    args: &SessionsArgs,
) -> Result<Answer, Failure> {
    match &args.verb {
        None => Ok(list(&candidates(settings, Taking::Look, |_, _| true)?.0)),
        Some(SessionsVerb::Rescue(args)) => rescue_one(&context()?, args).await,
        Some(SessionsVerb::Discard(args)) => discard(settings, args),
    }
}

fn list(candidates: &[Candidate]) -> Answer {
    let now = clock::unix_ms();
    let described: Vec<Value> = candidates.iter().map(|candidate| describe(candidate, now)).collect();
    let mut text = "there is no unfinished session\n".to_owned();
    if !candidates.is_empty() {
        let mut table = Table::new(&[
            ("session", Align::Left),
            ("profile", Align::Left),
            ("mode", Align::Left),
            ("began", Align::Left),
            ("changed", Align::Right),
            ("mountpoint", Align::Left),
        ]);
        for (candidate, described) in candidates.iter().zip(&described) {
            table.row(vec![
                candidate.session.id(),
                candidate.info.profile.clone(),
                candidate.info.mode.as_str().to_owned(),
                crate::time::utc(candidate.info.started_at_ms),
                size::bytes(described["dirty_bytes"].as_u64().unwrap_or(0)),
                candidate.info.mountpoint.display().to_string(),
            ]);
        }
        text = table.render();
    }
    Answer::new(json!({ "sessions": described }), text)
}

fn describe(candidate: &Candidate, now: u64) -> Value {
    let info = &candidate.info;
    json!({
        "session": candidate.session.id(),
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

fn chosen(settings: &Settings, prefix: &str) -> Result<Candidate, Failure> {
    let wanted = prefix.to_ascii_uppercase();
    let fits = |path: &Path, _: &Info| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&wanted))
    };
    let (mut fitting, _) = candidates(settings, Taking::Take, fits)?;
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

async fn rescue_one(context: &Context, args: &RescueArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    let candidate = chosen(&context.settings, &args.session)?;
    let (id, stored_in) = (candidate.session.id(), candidate.info.store.clone());
    if stored_in != context.location.shown() {
        let message = format!("session {id} is of the store {stored_in}");
        return Err(Failure::usage(message).hint(format!("--store {stored_in}")));
    }
    let Published { lineage, report, remarks, .. } = rescue(context, candidate, args).await?;
    let warnings = snapshot::warnings(&report, remarks);
    let text = format!("{} {}: session {id} is stored\n", lineage.name, report.sha256_prefix);
    if report.held_back.is_some() {
        context
            .console
            .say(&format!("session {id} is kept; `pstore sessions discard {id} --confirm` drops it"));
    }
    let mut document = snapshot::document(&lineage, &report, &warnings);
    document["session"] = json!(id);
    let verdict = capturing::held_back(&report);
    let brief = Some(format!("{}\n", report.snapshot_id));
    Ok(Answer { brief, verdict, ..Answer::new(document, text) })
}

fn discard(settings: &Settings, args: &DiscardArgs) -> Result<Answer, Failure> {
    let candidate = chosen(settings, &args.session)?;
    let id = candidate.session.id();
    if !args.confirm {
        let bytes = size::bytes(candidate.unfinished.written_bytes());
        let message =
            format!("{bytes} that were written in session {id} of {} would be gone", candidate.info.profile);
        return Err(
            Failure::usage(message).hint(format!("`pstore sessions discard {id} --confirm` drops them"))
        );
    }
    candidate.session.remove()?;
    Ok(Answer::new(json!({ "session": id, "discarded": true }), format!("session {id} is gone\n")))
}
