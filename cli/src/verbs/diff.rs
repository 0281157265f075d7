//! `diff` turns the arguments of `pstore diff` into a request, and its outcome into text.

mod profile;

use engine::{
    Engine,
    contents::EntryKind,
    failure::Failure,
    text::{path, size},
    verbs::diff::{DiffKind, DiffOutcome, DiffRequest, MetadataField, PathChange},
};

use crate::{answer::Answer, args::DiffArgs};

pub(super) async fn run(engine: Engine, args: &DiffArgs) -> Result<Answer, Failure> {
    let request = DiffRequest {
        name: args.name.clone(),
        further: args.references.clone(),
        chrome_major: args.chrome_major,
        with_paths: !args.stat,
        with_profile: args.profile,
    };
    let outcome = engine.diff(&request).await?;
    let told = outcome.profile.as_ref().map(profile::text).unwrap_or_default();
    Answer::of(&outcome, format!("{told}{}", text(&outcome)))
}

fn text(outcome: &DiffOutcome) -> String {
    let mut text = String::new();
    let changes = outcome.changes.iter().flatten();
    for change in changes.filter(|_| outcome.profile.is_none()) {
        let sign = match change.change {
            DiffKind::Added => '+',
            DiffKind::Removed => '-',
            DiffKind::Content => 'M',
            DiffKind::Metadata => 'm',
            DiffKind::Type => 'T',
        };
        let path = path::shown(&change.path_bytes);
        text.push_str(format!("{sign} {path}  {}", detail(change)).trim_end());
        text.push('\n');
    }
    let (from, to) = (&outcome.before.sha256_prefix, &outcome.after.sha256_prefix);
    text.push_str(&format!("{from} to {to}: {}\n", total(outcome)));
    text
}

/// What there is to say beyond sign and path.
fn detail(change: &PathChange) -> String {
    let before = change.kind_before.zip(change.size_before);
    let after = change.kind_after.zip(change.size_after);
    let is_file = |kind: EntryKind| matches!(kind, EntryKind::File | EntryKind::HardLink);
    let word = |kind: EntryKind| kind.word().replace('_', " ");
    let told = |(kind, bytes)| if is_file(kind) { size::bytes(bytes) } else { word(kind) };
    let new = match change.new_bytes {
        0 => String::new(),
        bytes => format!(", {} new", size::bytes(bytes)),
    };
    match (change.change, before, after) {
        (DiffKind::Metadata, ..) => {
            let fields: Vec<&str> = change.metadata.iter().copied().map(MetadataField::word).collect();
            fields.join(", ")
        }
        (DiffKind::Content, Some(a), Some(b)) if is_file(b.0) => format!("{} -> {}{new}", told(a), told(b)),
        // A link that leads elsewhere.
        (DiffKind::Content, ..) => String::new(),
        (DiffKind::Type, Some((a, _)), Some((b, _))) => format!("{} -> {}{new}", word(a), word(b)),
        (_, Some(side), None) => told(side),
        (_, _, Some(side)) => format!("{}{new}", told(side)),
        (_, None, None) => String::new(),
    }
}

fn total(outcome: &DiffOutcome) -> String {
    let counts = [
        (outcome.added, "added"),
        (outcome.removed, "removed"),
        (outcome.changed, "changed"),
        (outcome.metadata_changed, "in metadata alone"),
        (outcome.type_changed, "something else now"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", size::count(count)))
        .collect();
    let counts = if counts.is_empty() { "no difference".to_owned() } else { counts.join(", ") };
    format!(
        "{counts}; {} -> {}, {} new, {} gone",
        size::bytes(outcome.bytes_before),
        size::bytes(outcome.bytes_after),
        size::bytes(outcome.new_bytes),
        size::bytes(outcome.gone_bytes)
    )
}
