//! `container` turns the arguments of `pstore container` into requests, and their outcomes into text.

use std::fmt::Write;

use engine::{
    Engine,
    failure::Failure,
    text::{escape, size, time},
};
use volumes::container::{
    self, ContainerListOutcome, ContainerRestoreOutcome, ContainerRestoreRequest, ContainerShowOutcome,
    ContainerSnapshotOutcome, ContainerSnapshotRequest, ContainerStatsOutcome, RestoreMode, RestoreResult,
    SnapshotResult,
};

use super::delete;
use crate::{
    answer::Answer,
    args::{ContainerArgs, ContainerRestoreArgs, ContainerSnapshotArgs, ContainerVerb},
    table::{
        Align::{Left, Right},
        Table,
    },
};

impl ContainerSnapshotArgs {
    fn request(&self) -> ContainerSnapshotRequest {
        ContainerSnapshotRequest {
            container: self.container.clone(),
            name: self.name.clone(),
            tenant: None,
            docker_host: self.docker.docker_host.clone(),
            only_of: None,
            description: self.description.clone(),
            trigger: self.trigger.trigger(),
            labels: self.labels.clone(),
            actor: self.actor.name(),
            wait: self.wait,
            time_limit: self.timeout,
            ending: None,
            fail_open: self.fail_open,
        }
    }
}

impl ContainerRestoreArgs {
    fn request(&self) -> ContainerRestoreRequest {
        ContainerRestoreRequest {
            snapshot: self.snapshot.clone(),
            docker_host: self.docker.docker_host.clone(),
            mode: if self.replace { RestoreMode::Replace } else { RestoreMode::New },
            container: self.name.clone(),
            start: match (self.start, self.no_start) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            health_wait: self.health_wait,
            dry_run: self.dry_run,
            actor: self.actor.name(),
        }
    }
}

pub(super) async fn run(engine: Engine, args: &ContainerArgs) -> Result<Answer, Failure> {
    match &args.verb {
        ContainerVerb::Snapshot(args) => {
            let outcome = container::snapshot(&engine, &args.request()).await?;
            let brief = outcome.snapshot_id.map(|id| format!("{id}\n")).unwrap_or_default();
            Ok(Answer { brief: Some(brief), ..Answer::of(&outcome, snapshot(&outcome))? })
        }
        ContainerVerb::Restore(args) => {
            let outcome = container::restore(&engine, &args.request()).await?;
            let brief = Some(format!("{}\n", outcome.container));
            Ok(Answer { brief, ..Answer::of(&outcome, restore(&outcome))? })
        }
        ContainerVerb::List(args) => {
            let outcome = container::list(&engine, &args.scope).await?;
            Answer::of(&outcome, list(&outcome))
        }
        ContainerVerb::Show(args) => {
            let outcome = container::show(&engine, &args.snapshot).await?;
            Answer::of(&outcome, show(&outcome))
        }
        ContainerVerb::Delete(args) => {
            let of = (args.reason.as_str(), &args.actor.name());
            let outcome = container::delete(&engine, &args.snapshot, of).await?;
            Answer::of(&outcome, delete::text(&outcome))
        }
        ContainerVerb::Stats(args) => {
            let outcome = container::stats(&engine, &args.tenant).await?;
            Answer::of(&outcome, stats(&outcome))
        }
    }
}

fn snapshot(outcome: &ContainerSnapshotOutcome) -> String {
    let mut text = String::new();
    if outcome.outcome == SnapshotResult::Failed {
        return text;
    }
    let _ = writeln!(
        text,
        "Snapshot {} of {} ({}) stored in {} ms, paused for {} ms",
        outcome.sha256_prefix.as_deref().unwrap_or_default(),
        escape::line(&outcome.container),
        outcome.name.as_deref().unwrap_or_default(),
        size::count(outcome.elapsed_ms),
        size::count(outcome.paused_ms),
    );
    let _ = writeln!(
        text,
        "  image    {}, {} in all",
        size::plural(outcome.layers, "layer", "layers"),
        size::bytes(outcome.uncompressed_size_bytes)
    );
    for volume in &outcome.volumes {
        let _ = writeln!(
            text,
            "  volume   {}: {}, {}",
            escape::line(&volume.name),
            size::plural(volume.files, "file", "files"),
            size::bytes(volume.bytes)
        );
    }
    let _ = writeln!(text, "  new      {}", size::bytes(outcome.new_bytes));
    let _ = writeln!(text, "  stored   {}", size::bytes(outcome.stored_bytes));
    if !outcome.removed.is_empty() {
        let _ = writeln!(text, "  removed  {}, beyond the limits", outcome.removed.join(", "));
    }
    text
}

fn restore(outcome: &ContainerRestoreOutcome) -> String {
    let (from, container) = (&outcome.sha256_prefix, escape::line(&outcome.container));
    let mut text = String::new();
    let _ = match outcome.outcome {
        RestoreResult::Created => {
            writeln!(
                text,
                "Made {container} of {}@{from} in {} ms",
                outcome.name,
                size::count(outcome.elapsed_ms)
            )
        }
        RestoreResult::Replaced => writeln!(
            text,
            "Replaced {container} by {}@{from} in {} ms",
            outcome.name,
            size::count(outcome.elapsed_ms)
        ),
        RestoreResult::Planned => writeln!(text, "Would make {container} of {}@{from}", outcome.name),
    };
    let _ = writeln!(text, "  image    {}", outcome.image);
    for volume in &outcome.volumes {
        let verified = if volume.verified { ", verified" } else { "" };
        let _ = writeln!(
            text,
            "  volume   {} at {}{verified}",
            escape::line(&volume.volume),
            escape::line(&volume.destination)
        );
    }
    if let Some(aside) = &outcome.set_aside {
        let _ = writeln!(text, "  old one  {aside}, stopped");
    }
    if let Some(before) = &outcome.before {
        let _ = writeln!(text, "  before   stored as {}@{before}", outcome.name);
    }
    let started = match (outcome.started, &outcome.health) {
        (true, Some(health)) => format!("started, {health}"),
        (true, None) => "started".to_owned(),
        (false, _) => "not started".to_owned(),
    };
    let _ = writeln!(text, "  state    {started}");
    text
}

fn list(outcome: &ContainerListOutcome) -> String {
    let mut table = Table::new(&[
        ("", Left),
        ("NAME", Left),
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("NEW", Right),
        ("STORED", Right),
        ("TRIGGER", Left),
        ("RUN", Left),
        ("DESCRIPTION", Left),
    ]);
    for row in &outcome.snapshots {
        table.row(vec![
            if row.latest { "*" } else { "" }.to_owned(),
            row.name.clone(),
            time::utc(row.captured_at_ms),
            row.sha256_prefix.clone(),
            size::bytes(row.uncompressed_size_bytes),
            size::bytes(row.new_bytes),
            size::bytes(row.stored_bytes),
            row.trigger.clone().unwrap_or_default(),
            row.run_id.clone().unwrap_or_default(),
            row.description.clone(),
        ]);
    }
    table.render()
}

fn show(outcome: &ContainerShowOutcome) -> String {
    let of = &outcome.container;
    let text_of = |value: &serde_json::Value| match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut fields = vec![
        ("snapshot", outcome.sha256_prefix.clone()),
        ("captured", format!("{} UTC on {}", time::utc(outcome.captured_at_ms), outcome.host)),
        ("container", format!("{} ({})", of.name, of.status.word())),
        (
            "image",
            format!(
                "{}, {}",
                of.image.reference,
                size::plural(of.image.layers.len() as u64, "layer", "layers")
            ),
        ),
        ("trigger", of.trigger.word().to_owned()),
    ];
    fields.extend(of.run_id.clone().map(|run| ("run", run)));
    if !of.description.is_empty() {
        fields.push(("about", of.description.clone()));
    }
    fields.push(("command", text_of(&of.config["Cmd"])));
    fields.push(("user", text_of(&of.config["User"])));
    fields.push(("directory", text_of(&of.config["WorkingDir"])));
    fields.push(("networks", of.networks.keys().cloned().collect::<Vec<_>>().join(", ")));
    for mount in &of.mounts {
        let what = mount.name.as_ref().or(mount.source.as_ref()).cloned().unwrap_or_default();
        fields.push(("mount", format!("{what} at {}", mount.destination)));
    }
    fields.push(("size", size::bytes(outcome.uncompressed_size_bytes)));
    fields.push(("stored", size::bytes(outcome.stored_bytes)));
    escape::fields(&fields)
}

fn stats(outcome: &ContainerStatsOutcome) -> String {
    let mut table =
        Table::new(&[("CONTAINER", Left), ("SNAPSHOTS", Right), ("SIZE", Right), ("STORED", Right)]);
    for container in &outcome.containers {
        table.row(vec![
            format!("{}/{}", outcome.tenant_id, container.profile_id),
            size::count(container.snapshots),
            size::bytes(container.uncompressed_size_bytes),
            size::bytes(container.stored_bytes),
        ]);
    }
    table.row(vec![
        "all".to_owned(),
        size::count(outcome.snapshots),
        size::bytes(outcome.uncompressed_size_bytes),
        size::bytes(outcome.stored_bytes),
    ]);
    let limits = &outcome.limits;
    format!(
        "{}\nlimits: {} days; {} snapshots of a container, {} and {} in all\n",
        table.render(),
        limits.max_age_days,
        limits.max_count,
        limits.tenant_max_count,
        size::bytes(limits.tenant_max_bytes)
    )
}
