//! `pstore diff`

mod profile;

use engine::{
    failure::Failure,
    names::LineageName,
    text::{path, size},
};
use serde_json::{Value, json};
use store::{
    format::record::Record,
    ops::read::{
        diff::{self, Change, Diff, Line, Side, Totals},
        resolve::Reference,
    },
};

use self::profile::Profile;
use super::Engine;
use crate::{answer::Answer, args::DiffArgs};

pub(super) async fn run(engine: Engine, args: &DiffArgs) -> Result<Answer, Failure> {
    let (before, after) = pair(args)?;
    let asked = LineageName { profile: args.name.profile.clone(), chrome_major: args.chrome_major };
    let (tenant, lineage) = engine.lineage(&asked).await?;
    let before = engine.snapshot(&tenant, &lineage, Some(before)).await?;
    let after = engine.snapshot(&tenant, &lineage, after).await?;
    let diff = diff::diff(&tenant, &before, &after).await?;
    let profile = match args.profile {
        true => Some(Profile::compare(&tenant, &before, &after).await?),
        false => None,
    };
    let totals = &diff.totals;
    let changes = (!args.stat).then(|| diff.lines.iter().map(document).collect::<Vec<Value>>());
    let document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "before": snapshot(&before),
        "after": snapshot(&after),
        "added": totals.added,
        "removed": totals.removed,
        "changed": totals.changed,
        "metadata_changed": totals.metadata_changed,
        "type_changed": totals.type_changed,
        "unchanged": totals.unchanged,
        "new_bytes": totals.new_bytes,
        "gone_bytes": totals.gone_bytes,
        "changes": changes,
        "profile": profile.as_ref().map(Profile::document),
    });
    let told = profile.as_ref().map(Profile::text).unwrap_or_default();
    let files = text(&before, &after, &diff, args.stat || profile.is_some());
    Ok(Answer::new(document, format!("{told}{files}")))
}

/// The earlier snapshot, and the later one, if it is said which.
fn pair(args: &DiffArgs) -> Result<(&Reference, Option<&Reference>), Failure> {
    let profile = &args.name.profile;
    let others: Vec<&Reference> =
        args.references.iter().map(|other| other.of(profile)).collect::<Result<_, _>>()?;
    let mut named = args.name.typed().into_iter().chain(others);
    match (named.next(), named.next(), named.next()) {
        (Some(before), after, None) => Ok((before, after)),
        (None, ..) => {
            let message = format!("diff must be told which snapshot of {profile} is the earlier one");
            Err(Failure::usage(message).hint(format!(
                "`pstore diff {profile}@latest~1` compares the current one with the one before it"
            )))
        }
        (.., Some(third)) => {
            let message = format!("diff compares two snapshots, and {third} is the third");
            Err(Failure::usage(message).hint(format!("leave it out: `pstore diff {profile}@A B`")))
        }
    }
}

fn snapshot(record: &Record) -> Value {
    json!({
        "snapshot_id": record.content.as_ref().map(|content| content.snapshot_id),
        "record": record.record,
        "sha256_prefix": record.sha256_prefix(),
        "captured_at_ms": record.captured_at_ms,
        "uncompressed_size_bytes": record.uncompressed_size_bytes,
    })
}

fn document(line: &Line) -> Value {
    let (path, path_hex) = path::json(line.path.as_bytes());
    let Line { change, before, after, metadata, .. } = line;
    let change = match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Content => "content",
        Change::Metadata => "metadata",
        Change::Type => "type",
    };
    json!({
        "change": change,
        "path": path,
        "path_hex": path_hex,
        "kind_before": before.map(|side| side.kind),
        "kind_after": after.map(|side| side.kind),
        "size_before": before.map(|side| side.size),
        "size_after": after.map(|side| side.size),
        "gone_bytes": before.map_or(0, |side| side.unshared_bytes),
        "new_bytes": after.map_or(0, |side| side.unshared_bytes),
        "metadata": metadata.names(),
    })
}

fn text(before: &Record, after: &Record, diff: &Diff, stat: bool) -> String {
    let mut text = String::new();
    for line in diff.lines.iter().filter(|_| !stat) {
        let sign = match line.change {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Content => 'M',
            Change::Metadata => 'm',
            Change::Type => 'T',
        };
        let path = path::shown(line.path.as_bytes());
        text.push_str(format!("{sign} {path}  {}", detail(line)).trim_end());
        text.push('\n');
    }
    let (from, to) = (before.sha256_prefix(), after.sha256_prefix());
    text.push_str(&format!("{from} to {to}: {}\n", total(&diff.totals)));
    text
}

/// What there is to say beyond sign and path.
fn detail(line: &Line) -> String {
    let is_file = |side: &Side| matches!(side.kind, "file" | "hard_link");
    let told = |side: &Side| if is_file(side) { size::bytes(side.size) } else { side.kind.replace('_', " ") };
    let new = line.after.filter(|side| side.unshared_bytes > 0);
    let new = new.map(|side| format!(", {} new", size::bytes(side.unshared_bytes))).unwrap_or_default();
    match (line.change, &line.before, &line.after) {
        (Change::Metadata, ..) => line.metadata.names().join(", "),
        (Change::Content, Some(a), Some(b)) if is_file(b) => format!("{} -> {}{new}", told(a), told(b)),
        // A link that leads elsewhere.
        (Change::Content, ..) => String::new(),
        (Change::Type, Some(a), Some(b)) => {
            format!("{} -> {}{new}", a.kind.replace('_', " "), b.kind.replace('_', " "))
        }
        (_, Some(side), None) => told(side),
        (_, _, Some(side)) => format!("{}{new}", told(side)),
        (_, None, None) => String::new(),
    }
}

fn total(totals: &Totals) -> String {
    let Totals { added, removed, changed, metadata_changed, type_changed, .. } = *totals;
    let counts = [
        (added, "added"),
        (removed, "removed"),
        (changed, "changed"),
        (metadata_changed, "in metadata alone"),
        (type_changed, "something else now"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", size::count(count)))
        .collect();
    let counts = if counts.is_empty() { "no difference".to_owned() } else { counts.join(", ") };
    format!(
        "{counts}; {} -> {}, {} new, {} gone",
        size::bytes(totals.bytes_before),
        size::bytes(totals.bytes_after),
        size::bytes(totals.new_bytes),
        size::bytes(totals.gone_bytes)
    )
}
