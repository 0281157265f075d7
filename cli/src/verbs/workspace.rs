//! `workspace` turns the arguments of `pstore workspace` and `pstore checkpoint` into requests, and their outcomes into text.

use std::fmt::Write;

use engine::{
    Engine,
    failure::Failure,
    text::{escape, path, size},
    workspace::{
        ChangeKind, ChangesOutcome, CheckpointFields, CheckpointOutcome, CheckpointResult,
        CheckpointsOutcome, EventsOutcome, FileAction, Origin, PathHistoryOutcome, PathKind, PathState,
        RevertAction, RevertOutcome, WatchState, WorkspaceDiffRequest, WorkspaceOutcome,
    },
};

use crate::{
    answer::Answer,
    args::{CheckpointArgs, WorkspaceArgs, WorkspaceChangesArgs, WorkspaceStartArgs, WorkspaceVerb},
    console::Console,
    daemon,
    table::{Align, Table},
};

pub(super) async fn run(engine: Engine, args: &WorkspaceArgs) -> Result<Answer, Failure> {
    match &args.verb {
        WorkspaceVerb::Start(args) => start(engine, args).await,
        WorkspaceVerb::Stop(args) => status(&engine.workspace_stop(&args.request()).await?),
        WorkspaceVerb::Status(args) => status(&engine.workspace_status(&args.request()).await?),
        WorkspaceVerb::List(args) => list(&engine.workspace_list(&args.request()).await?),
        WorkspaceVerb::Changes(args) => changes(&engine, args).await,
        WorkspaceVerb::Revert(args) => revert(&engine.workspace_revert(&args.request()).await?),
        WorkspaceVerb::History(args) => history(&engine.workspace_history(&args.request()).await?),
        WorkspaceVerb::Delete(args) => {
            let outcome = engine.workspace_delete(&args.request()).await?;
            let rest = match outcome.snapshot_deleted {
                true => "",
                false => "; its snapshot stays while others need it, or it is the newest",
            };
            let text = format!("deleted {}{rest}\n", shown(&outcome.deleted));
            Answer::of(&outcome, text)
        }
        WorkspaceVerb::Fork(args) => {
            let outcome = engine.workspace_fork(&args.request()).await?;
            let text = format!(
                "forked {} to {}, {}\n{}",
                shown(&outcome.from),
                outcome.workspace.directory.display(),
                size::plural(outcome.files, "file", "files"),
                status_text(&outcome.workspace)
            );
            Answer::of(&outcome, text)
        }
        WorkspaceVerb::Promote(args) => revert(&engine.workspace_promote(&args.request()).await?),
        WorkspaceVerb::Events(args) => events(&engine.workspace_events(&args.request()).await?),
    }
}

async fn start(engine: Engine, args: &WorkspaceStartArgs) -> Result<Answer, Failure> {
    if args.daemon {
        return daemon::watch(engine, &args.request()).await;
    }
    let outcome = engine
        .workspace_start(&args.request(), || {
            daemon::launch(std::env::args_os().skip(1), &engine.interrupt, "the workspace was watched")
        })
        .await?;
    status(&outcome)
}

fn status(outcome: &WorkspaceOutcome) -> Result<Answer, Failure> {
    Answer::of(outcome, status_text(outcome))
}

fn status_text(outcome: &WorkspaceOutcome) -> String {
    let name = format!("{}/{}", outcome.tenant_id, outcome.profile_id);
    let state = match (outcome.state, outcome.watcher_pid) {
        (WatchState::Watched, Some(pid)) => format!("watched by process {pid}"),
        _ => "not watched".to_owned(),
    };
    let mut text = format!("{} is a workspace of {name}, {state}\n", outcome.directory.display());
    let _ = writeln!(
        text,
        "  method  {}\n  ring    {} of {}, every {} s\n  named   {} of {}\n  events  {}",
        outcome.method.word(),
        outcome.auto_used,
        outcome.auto_max,
        outcome.auto_interval,
        outcome.manual_used,
        outcome.manual_max,
        outcome.session_db.display()
    );
    if let Some(failure) = &outcome.last_failure {
        let _ =
            writeln!(text, "  failed  {}, the last: {}", outcome.failed_checkpoints, escape::line(failure));
    }
    text
}

/// A checkpoint as people call it.
fn shown(checkpoint: &CheckpointFields) -> String {
    match &checkpoint.name {
        Some(name) => format!("{} ({name})", checkpoint.checkpoint),
        None => checkpoint.checkpoint.clone(),
    }
}

pub(super) async fn checkpoint(engine: Engine, args: &CheckpointArgs) -> Result<Answer, Failure> {
    let outcome = engine.workspace_checkpoint(&args.request()).await?;
    if let Some(warning) = &outcome.warning {
        engine.warn(warning);
    }
    told(&outcome)
}

/// A trigger without a store, or with settings that cannot be read: the agent goes on all the same.
pub(super) fn unopened(console: Console, failure: &Failure) -> Result<Answer, Failure> {
    let outcome = CheckpointOutcome::failed(failure);
    if let Some(warning) = &outcome.warning {
        console.warn(warning);
    }
    told(&outcome)
}

fn told(outcome: &CheckpointOutcome) -> Result<Answer, Failure> {
    let brief = outcome.checkpoint.as_ref().map(|checkpoint| format!("{}\n", checkpoint.checkpoint));
    Ok(Answer { brief: Some(brief.unwrap_or_default()), ..Answer::of(outcome, taken(outcome))? })
}

fn taken(outcome: &CheckpointOutcome) -> String {
    let name = outcome.checkpoint.as_ref().map(shown).unwrap_or_default();
    match outcome.outcome {
        CheckpointResult::Created => format!(
            "{name} taken in {} ms{}, {} read, {} stored\n",
            outcome.elapsed_ms,
            outcome.pause_ms.map(|pause| format!(", writers paused for {pause:.1} ms")).unwrap_or_default(),
            size::plural(outcome.read_files, "file", "files"),
            size::bytes(outcome.stored_bytes)
        ),
        CheckpointResult::Unchanged => format!("nothing has changed since {name}\n"),
        CheckpointResult::TooSoon => "a trigger took a checkpoint less than an interval ago\n".to_owned(),
        CheckpointResult::HandedOver => "the watcher takes it\n".to_owned(),
        CheckpointResult::SwitchedOff => "workspace.triggers does not name this trigger\n".to_owned(),
        CheckpointResult::Failed => "no checkpoint was taken\n".to_owned(),
    }
}

fn list(outcome: &CheckpointsOutcome) -> Result<Answer, Failure> {
    let mut table = Table::new(&[
        ("CHECKPOINT", Align::Left),
        ("TAKEN (UTC)", Align::Left),
        ("NAME", Align::Left),
        ("TRIGGER", Align::Left),
        ("FILES", Align::Right),
        ("SIZE", Align::Right),
        ("CREATED", Align::Right),
        ("MODIFIED", Align::Right),
        ("DELETED", Align::Right),
        ("RESTORED", Align::Right),
        ("DESCRIPTION", Align::Left),
    ]);
    for checkpoint in &outcome.checkpoints {
        let events = checkpoint.events;
        table.row(vec![
            checkpoint.checkpoint.clone(),
            checkpoint.timestamp.chars().take(19).collect::<String>().replace('T', " "),
            checkpoint.name.clone().unwrap_or_else(|| "-".to_owned()),
            checkpoint.trigger.word().to_owned(),
            size::count(checkpoint.files_count),
            size::bytes(checkpoint.bytes),
            size::count(events.created),
            size::count(events.modified),
            size::count(events.deleted),
            size::count(events.restored),
            checkpoint.description.clone(),
        ]);
    }
    let used = |origin| outcome.checkpoints.iter().filter(|found| found.origin == origin).count();
    let text = format!(
        "{}{}{} of {} in the ring, {} of {} named\n",
        table.render(),
        warnings(outcome.checkpoints.iter()),
        used(Origin::Auto),
        outcome.auto_max,
        used(Origin::Manual),
        outcome.manual_max
    );
    Answer::of(outcome, text)
}

async fn changes(engine: &Engine, args: &WorkspaceChangesArgs) -> Result<Answer, Failure> {
    let outcome = engine.workspace_changes(&args.request()).await?;
    let mut text = changes_text(&outcome);
    if args.diff {
        for change in outcome.changes.iter().filter(|change| change.kind == PathKind::File) {
            // A name that is no text cannot be asked for by its text.
            if change.path_hex.is_some() || change.change == ChangeKind::Metadata {
                continue;
            }
            let request = WorkspaceDiffRequest {
                directory: args.directory.clone(),
                path: change.path.clone().into(),
                since: Some(outcome.since.checkpoint.clone()),
                context: None,
            };
            let diff = engine.workspace_diff(&request).await?;
            match diff.is_text {
                true => text += &plain(&diff.diff),
                false => {
                    text += &format!("{} is no text, or too long\n", path::shown(change.path.as_bytes()))
                }
            }
        }
    }
    Answer::of(&outcome, text)
}

/// Text of others' files, which must not tell a terminal what to do.
fn plain(text: &str) -> String {
    let is_plain = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    text.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect()
}

fn changes_text(outcome: &ChangesOutcome) -> String {
    let mut text = String::new();
    for change in &outcome.changes {
        let sign = match change.change {
            ChangeKind::Created => '+',
            ChangeKind::Modified => 'M',
            ChangeKind::Deleted => '-',
            ChangeKind::Metadata => 'm',
        };
        let sizes = match (change.size_before, change.size_after) {
            (Some(before), Some(after)) if before != after => {
                format!("  {} -> {}", size::bytes(before), size::bytes(after))
            }
            (Some(bytes), _) | (_, Some(bytes)) => format!("  {}", size::bytes(bytes)),
            (None, None) => String::new(),
        };
        let slash = if change.kind == PathKind::Directory { "/" } else { "" };
        let _ = writeln!(text, "{sign} {}{slash}{sizes}", path::shown(change.path.as_bytes()));
    }
    let totals = outcome.totals;
    let _ = match totals.all() {
        0 => writeln!(text, "nothing has changed since {}", shown(&outcome.since)),
        _ => writeln!(
            text,
            "since {}: {} created, {} modified, {} deleted, {} with another mode or time",
            shown(&outcome.since),
            size::count(totals.created),
            size::count(totals.modified),
            size::count(totals.deleted),
            size::count(totals.metadata)
        ),
    };
    if let Some(offset) = outcome.next_offset {
        let _ = writeln!(text, "there are more: --offset {offset} goes on");
    }
    text
}

fn revert(outcome: &RevertOutcome) -> Result<Answer, Failure> {
    let mut text = String::new();
    for reverted in &outcome.paths {
        let sign = match reverted.action {
            RevertAction::Restored => '<',
            RevertAction::Removed => '-',
        };
        let _ = writeln!(text, "{sign} {}", path::shown(reverted.path.as_bytes()));
    }
    let counts =
        format!("{} restored and {} removed", size::count(outcome.restored), size::count(outcome.removed));
    let from = shown(&outcome.checkpoint);
    let _ = match (outcome.reverted, outcome.paths.is_empty(), &outcome.before) {
        (_, true, _) => writeln!(text, "it is as {from} has it already"),
        (false, ..) => writeln!(text, "{counts} would be, as {from} has them; nothing was done"),
        (true, _, Some(before)) => {
            writeln!(text, "{counts}, as {from} has them; what was there is in {}", shown(before))
        }
        (true, _, None) => writeln!(text, "{counts}, as {from} has them"),
    };
    Answer::of(outcome, text)
}

fn history(outcome: &PathHistoryOutcome) -> Result<Answer, Failure> {
    let mut table = Table::new(&[
        ("CHECKPOINT", Align::Left),
        ("TAKEN (UTC)", Align::Left),
        ("STATE", Align::Left),
        ("SIZE", Align::Right),
        ("NAME", Align::Left),
    ]);
    for version in &outcome.versions {
        let state = match version.state {
            PathState::Absent => "absent",
            PathState::Created => "created",
            PathState::Modified => "modified",
            PathState::Unchanged => "unchanged",
            PathState::Deleted => "deleted",
        };
        let checkpoint = version.checkpoint.as_ref();
        let time = |found: &CheckpointFields| found.timestamp.chars().take(19).collect::<String>();
        table.row(vec![
            checkpoint.map_or_else(|| "now".to_owned(), |found| found.checkpoint.clone()),
            checkpoint.map(time).unwrap_or_default().replace('T', " "),
            state.to_owned(),
            version.size.map(size::bytes).unwrap_or_default(),
            checkpoint.and_then(|found| found.name.clone()).unwrap_or_default(),
        ]);
    }
    let text = table.render() + &warnings(outcome.versions.iter().filter_map(|it| it.checkpoint.as_ref()));
    Answer::of(outcome, text)
}

/// What was wrong when checkpoints were taken, a line for each.
fn warnings<'a>(checkpoints: impl Iterator<Item = &'a CheckpointFields>) -> String {
    let warned = checkpoints.filter_map(|found| Some((found, found.warning.as_ref()?)));
    warned.map(|(found, warning)| format!("{}: {}\n", shown(found), escape::line(warning))).collect()
}

fn events(outcome: &EventsOutcome) -> Result<Answer, Failure> {
    let mut table = Table::new(&[
        ("ID", Align::Right),
        ("SEEN (UTC)", Align::Left),
        ("ACTION", Align::Left),
        ("SIZE", Align::Right),
        ("PATH", Align::Left),
    ]);
    for event in &outcome.events {
        let action = match event.action {
            FileAction::Created => "created",
            FileAction::Modified => "modified",
            FileAction::Deleted => "deleted",
            FileAction::Restored => "restored",
        };
        table.row(vec![
            event.id.to_string(),
            event.timestamp.chars().take(19).collect::<String>().replace('T', " "),
            action.to_owned(),
            event.size.map(size::bytes).unwrap_or_default(),
            path::shown(event.path.as_bytes()),
        ]);
    }
    let mut text = table.render();
    if let Some(after) = outcome.next_after {
        let _ = writeln!(text, "there are more: --after {after} goes on");
    }
    Answer::of(outcome, text)
}
