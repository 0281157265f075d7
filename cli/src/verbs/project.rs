//! `project` turns the arguments of `pstore project` into a request, and its outcome into text.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

use engine::{
    Engine,
    failure::Failure,
    text::{escape, size},
};
use volumes::project::{
    delete::{self, DeleteRequest},
    list::{self, ListRequest, ProjectListOutcome, SavedState, ShowRequest},
    metadata::VolumeManifest,
    restore::{self, ProjectRestoreOutcome, RestoreRequest},
    save::{self, SaveOutcome, SaveRequest},
};

use crate::{
    answer::Answer,
    args::{
        ProjectArgs, ProjectDeleteArgs, ProjectListArgs, ProjectRestoreArgs, ProjectSaveArgs,
        ProjectShowArgs, ProjectVerb, StateArgs,
    },
    table::{
        Align::{Left, Right},
        Table,
    },
};

pub(super) async fn run(engine: Engine, args: &ProjectArgs) -> Result<Answer, Failure> {
    match &args.verb {
        ProjectVerb::Save(args) => save(engine, args).await,
        ProjectVerb::List(args) => list(engine, args).await,
        ProjectVerb::Show(args) => show(engine, args).await,
        ProjectVerb::Restore(args) => restore(engine, args).await,
        ProjectVerb::Delete(args) => delete(engine, args).await,
    }
}

impl StateArgs {
    /// The file, and which state; a file of the whole name comes first.
    fn parts(&self) -> Result<(PathBuf, Option<String>), Failure> {
        let bytes = self.state.as_bytes();
        let at = bytes.iter().rposition(|byte| *byte == b'@');
        match at {
            Some(at) if !PathBuf::from(&self.state).exists() => {
                let reference = str::from_utf8(&bytes[at + 1..])
                    .map_err(|_| Failure::usage("what stands after the @ is no name of a saved state"))?;
                Ok((OsStr::from_bytes(&bytes[..at]).into(), Some(reference.to_owned())))
            }
            _ => Ok((PathBuf::from(&self.state), None)),
        }
    }
}

async fn save(engine: Engine, args: &ProjectSaveArgs) -> Result<Answer, Failure> {
    let request = SaveRequest {
        file: args.file.clone(),
        reason: args.reason.reason(),
        labels: args.labels.clone(),
        actor: args.actor.name(),
        wait: args.wait,
        docker_host: args.docker.docker_host.clone(),
        no_links: false,
    };
    let outcome = save::save(&engine, &request).await?;
    let brief = Some(format!("{}\n", outcome.snapshot.snapshot_id));
    Ok(Answer { brief, ..Answer::of(&outcome, saved(&outcome))? })
}

fn saved(outcome: &SaveOutcome) -> String {
    let mut text = format!(
        "Saved {} of {}/{} in {}\n",
        outcome.sha256_prefix,
        outcome.tenant_id,
        outcome.project_id,
        size::seconds(outcome.elapsed)
    );
    let mut lines = vec![
        ("  id", outcome.snapshot.snapshot_id.clone()),
        ("  size", size::bytes(outcome.size_bytes)),
        (
            "  stored",
            format!(
                "{} for {} of new content",
                size::bytes(outcome.stored_bytes),
                size::bytes(outcome.new_bytes)
            ),
        ),
    ];
    lines.extend(waits(&outcome.snapshot.volume_manifests).map(|text| ("  waits", text)));
    if outcome.rested_ms > 0 {
        lines.push(("  rested", format!("services, for {} ms", outcome.rested_ms)));
    }
    if !outcome.removed.is_empty() {
        lines.push(("  removed", outcome.removed.join(", ")));
    }
    text.push_str(&fields(&lines));
    text
}

/// For how long each database kept those waiting who write.
fn waits(volumes: &std::collections::BTreeMap<String, VolumeManifest>) -> impl Iterator<Item = String> + '_ {
    volumes.iter().flat_map(|(name, volume)| {
        volume.sqlite.iter().map(move |database| {
            let log = if database.checkpointed { "" } else { ", its log held by a reader" };
            format!(
                "at most {} ms for {name}/{} ({}{log})",
                database.writers_waited_ms, database.path, database.integrity_check
            )
        })
    })
}

async fn list(engine: Engine, args: &ProjectListArgs) -> Result<Answer, Failure> {
    let outcome = list::list(&engine, &ListRequest { file: args.file.clone() }).await?;
    Answer::of(&outcome, table(&outcome))
}

fn table(outcome: &ProjectListOutcome) -> String {
    let mut table = Table::new(&[
        ("", Left),
        ("SAVED (UTC)", Left),
        ("STATE", Left),
        ("SIZE", Right),
        ("STORED", Right),
        ("REASON", Left),
        ("VERSION", Left),
        ("LABELS", Left),
    ]);
    for state in &outcome.snapshots {
        table.row(vec![
            if state.current { "*" } else { "" }.to_owned(),
            state.metadata.timestamp.split('.').next().unwrap_or_default().replace('T', " "),
            state.sha256_prefix.clone(),
            size::bytes(state.size_bytes),
            size::bytes(state.stored_bytes),
            state.metadata.reason.word().to_owned(),
            state.metadata.app_version.clone(),
            labels(state),
        ]);
    }
    table.render()
}

fn labels(state: &SavedState) -> String {
    let tags = state.tags.iter().map(|tag| format!("tag:{tag}"));
    let labels = state.metadata.labels.iter().map(|(key, value)| format!("{key}={value}"));
    tags.chain(labels).collect::<Vec<_>>().join(" ")
}

async fn show(engine: Engine, args: &ProjectShowArgs) -> Result<Answer, Failure> {
    let (file, reference) = args.state.parts()?;
    let outcome = list::show(&engine, &ShowRequest { file, reference }).await?;
    let (state, metadata) = (&outcome.state, &outcome.state.metadata);
    let mut lines = vec![
        ("state", state.sha256_prefix.clone()),
        ("id", metadata.snapshot_id.clone()),
        ("saved", metadata.timestamp.clone()),
        ("parent", metadata.parent_snapshot_id.clone().unwrap_or_else(|| "none".to_owned())),
        ("reason", metadata.reason.word().to_owned()),
        ("version", metadata.app_version.clone()),
        ("digest", metadata.state_digest.clone()),
        ("size", size::bytes(state.size_bytes)),
        ("labels", labels(state)),
    ];
    for (name, volume) in &metadata.volume_manifests {
        lines.push((
            "volume",
            format!("{name}, {}, {}, {}", volume.consistency.word(), size::bytes(volume.size), volume.digest),
        ));
        for database in &volume.sqlite {
            lines.push(("database", format!("{name}/{}, {}", database.path, database.integrity_check)));
        }
        for dump in &volume.postgres {
            lines.push(("database", format!("{}, server {}", dump.database, dump.server_version)));
        }
    }
    let brief = Some(format!("{}\n", metadata.snapshot_id));
    Ok(Answer { brief, ..Answer::of(&outcome, escape::fields(&lines))? })
}

async fn restore(engine: Engine, args: &ProjectRestoreArgs) -> Result<Answer, Failure> {
    let (file, reference) = args.state.parts()?;
    let request = RestoreRequest {
        file,
        reference,
        to: args.to.clone(),
        force: args.force,
        into: args.into.clone(),
        preserve_special: args.preserve_special,
        actor: args.actor.name(),
        wait: args.wait,
        docker_host: args.docker.docker_host.clone(),
    };
    let outcome = restore::restore(&engine, &request).await?;
    let brief = Some(format!("{}\n", outcome.snapshot_id));
    Ok(Answer { brief, ..Answer::of(&outcome, restored(&outcome))? })
}

fn restored(outcome: &ProjectRestoreOutcome) -> String {
    let place = outcome.target.clone().unwrap_or_else(|| "its place".to_owned());
    let mut text = format!(
        "Restored {} of {}/{} to {place} in {}\n",
        outcome.sha256_prefix,
        outcome.tenant_id,
        outcome.project_id,
        size::seconds(outcome.elapsed)
    );
    let mut lines = vec![
        ("  files", format!("{}, {}", size::count(outcome.files), size::bytes(outcome.size_bytes))),
        ("  digest", format!("{} as it was saved", outcome.state_digest)),
    ];
    if !outcome.replaced.is_empty() {
        lines.push(("  replaced", outcome.replaced.join(", ")));
    }
    if !outcome.databases.is_empty() {
        lines.push(("  databases", format!("of {}, compared row by row", outcome.databases.join(", "))));
    }
    if let Some(id) = &outcome.saved_before {
        lines.push(("  before", format!("saved as {id}")));
    }
    text.push_str(&fields(&lines));
    text
}

async fn delete(engine: Engine, args: &ProjectDeleteArgs) -> Result<Answer, Failure> {
    let (file, reference) = args.state.parts()?;
    let reference = reference.ok_or_else(|| {
        Failure::usage("delete needs to be told which state")
            .hint("write it as FILE@REF; `pstore project list FILE` shows those there are")
    })?;
    let reason = args.reason.clone();
    let request = DeleteRequest { file, reference, actor: args.actor.name(), reason };
    let outcome = delete::delete(&engine, &request).await?;
    let name = format!("{}/{}", outcome.tenant_id, outcome.project_id);
    let text = format!(
        "Deleted {} of {name}; `pstore gc {}` frees the space\n",
        outcome.sha256_prefix, outcome.tenant_id
    );
    Answer::of(&outcome, text)
}

/// Lines below a heading.
fn fields(lines: &[(&str, String)]) -> String {
    lines.iter().map(|(name, value)| format!("{name:<11} {}\n", escape::line(value))).collect()
}
