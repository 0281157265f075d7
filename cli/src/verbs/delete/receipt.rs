//! What is told of the deletion of a profile or a tenant: the plan, and the receipt.

use std::collections::BTreeSet;

use engine::text::{escape, size, time};
use serde_json::{Value, json};
use store::{
    format::tombstone::{Deletion, Progress},
    ops::removal::{Survey, Unfinished},
};

use super::Subject;
use crate::answer::Answer;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Planned,
    Deleted,
    /// Somebody reads a snapshot, which is still there.
    Deleting,
    TombstonePlanned,
    TombstoneRemoved,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Planned | Self::TombstonePlanned => "planned",
            Self::Deleted => "deleted",
            Self::Deleting => "deleting",
            Self::TombstoneRemoved => "tombstone_removed",
        }
    }
}

pub(super) fn answer(
    subject: &Subject,
    outcome: Outcome,
    survey: &Survey,
    deletion: Option<&Deletion>,
) -> Answer {
    let text = match outcome {
        Outcome::Planned => planned(subject, survey, deletion),
        Outcome::Deleted | Outcome::Deleting => deleted(subject, deletion),
        Outcome::TombstonePlanned => format!(
            "{subject} was deleted {}\nnothing was written; add --confirm to remove the tombstone: it can begin anew then\n",
            told(deletion)
        ),
        Outcome::TombstoneRemoved => {
            format!("the tombstone of {subject} is removed: it can begin anew\n")
        }
    };
    Answer::new(document(subject, outcome, survey, deletion), text)
}

fn told(deletion: Option<&Deletion>) -> String {
    deletion.map_or_else(String::new, |deletion| deletion.told().to_string())
}

fn planned(subject: &Subject, survey: &Survey, deletion: Option<&Deletion>) -> String {
    let majors: Vec<String> = survey.majors.iter().map(ToString::to_string).collect();
    let chrome = if majors.is_empty() { String::new() } else { format!(" (Chrome {})", majors.join(", ")) };
    let foreign = match survey.foreign {
        0 => String::new(),
        foreign => format!(", {foreign} of another program"),
    };
    let tags: Vec<&str> = survey.tags.iter().map(String::as_str).collect();
    let mut lines = vec![("deletes", format!("all of {subject}"))];
    if let Subject::Tenant(_) = subject {
        lines.push(("profiles", size::count(survey.profiles)));
    }
    lines.push((
        "snapshots",
        format!(
            "{}{chrome}, {} stored for them",
            size::count(survey.snapshots),
            size::bytes(survey.stored_bytes)
        ),
    ));
    lines.push((
        "archives",
        format!("{}{foreign}, {}", size::count(survey.archives), size::bytes(survey.archive_bytes)),
    ));
    lines.push(("tags", if tags.is_empty() { "none".to_owned() } else { tags.join(", ") }));
    if survey.damaged > 0 {
        lines.push(("damaged", size::plural(survey.damaged, "record", "records")));
    }
    let users = users(survey);
    if users.is_empty() {
        lines.push(("in use by", "nobody".to_owned()));
    }
    lines.extend(users.into_iter().map(|user| ("in use by", user)));
    if deletion.is_some() {
        lines.push(("begun", told(deletion)));
    }
    format!(
        "{}nothing was written; add --confirm to delete it: it cannot be brought back\n",
        escape::fields(&lines)
    )
}

/// Who keeps it from being deleted, a line for each.
fn users(survey: &Survey) -> BTreeSet<String> {
    let holders = survey.holders.iter().map(|(lineage, holder)| {
        format!(
            "the lock of {lineage}: {holder}; `pstore force-unlock {} --chrome-major {} --reason WHY --confirm` takes it away",
            lineage.name, lineage.chrome_major
        )
    });
    let unfinished = survey.unfinished.iter().map(|Unfinished { lineage, session, .. }| match session {
        Some((id, host)) => {
            format!("session {id} of {lineage} on {host:?}; --ignore-session {id} gives it up")
        }
        None => format!("somebody who reads a snapshot of {lineage}"),
    });
    holders.chain(unfinished).collect()
}

fn deleted(subject: &Subject, deletion: Option<&Deletion>) -> String {
    let Some(deletion) = deletion else { return String::new() };
    let what = format!(
        "{}, {}, {} stored for them",
        size::plural(deletion.snapshots, "snapshot", "snapshots"),
        size::plural(deletion.archives, "archive", "archives"),
        size::bytes(deletion.stored_bytes)
    );
    let mut lines = vec![
        ("deleted", subject.to_string()),
        ("at", format!("{} UTC by {}", time::utc(deletion.at_ms), deletion.by.name())),
    ];
    if !deletion.reason.is_empty() {
        lines.push(("reason", deletion.reason.clone()));
    }
    lines.push(("gone", what));
    lines.push(match deletion.state {
        Progress::Begun => (
            "due",
            format!(
                "`pstore gc {}` frees the content, and a day later removes every object but the tombstone",
                subject.tenant()
            ),
        ),
        Progress::Done => ("left", "nothing but the tombstone".to_owned()),
    });
    escape::fields(&lines)
}

fn document(subject: &Subject, outcome: Outcome, survey: &Survey, deletion: Option<&Deletion>) -> Value {
    let profile = match subject {
        Subject::Profile(name) => Some(&name.profile),
        Subject::Tenant(_) => None,
    };
    let is_plan = outcome == Outcome::Planned;
    let count = |found: u64, said: fn(&Deletion) -> u64| match deletion {
        Some(deletion) if !is_plan => said(deletion),
        _ => found,
    };
    let is_over = deletion.is_some_and(|deletion| deletion.state == Progress::Done);
    json!({
        "outcome": outcome.as_str(),
        "tenant_id": subject.tenant(),
        "profile_id": profile,
        "deleted_at_ms": deletion.map(|deletion| deletion.at_ms),
        "deleted_by": deletion.map(by),
        "reason": deletion.map(|deletion| &deletion.reason),
        "snapshots": count(survey.snapshots, |deletion| deletion.snapshots),
        "archives": count(survey.archives, |deletion| deletion.archives),
        "stored_bytes": count(survey.stored_bytes + survey.archive_bytes, |deletion| deletion.stored_bytes),
        "tags": survey.tags,
        "in_use": in_use(survey),
        "gc_due": deletion.is_some() && !is_over,
    })
}

pub(in crate::verbs) fn by(deletion: &Deletion) -> Value {
    json!({ "user": deletion.by.user, "host": deletion.by.host, "run_id": deletion.by.run_id })
}

fn in_use(survey: &Survey) -> Vec<Value> {
    let line =
        |kind: &str, lineage: &store::name::Lineage, session: Option<String>, host: &str, run: &str| {
            json!({
                "kind": kind,
                "profile_id": lineage.name.profile,
                "chrome_major_version": lineage.chrome_major,
                "session": session,
                "host": host,
                "run_id": run,
            })
        };
    let holders = survey
        .holders
        .iter()
        .map(|(lineage, holder)| line("lock", lineage, None, &holder.host, &holder.run_id));
    let unfinished = survey.unfinished.iter().map(|Unfinished { lineage, session, .. }| match session {
        Some((id, host)) => line("session", lineage, Some(id.to_string()), host, ""),
        None => line("reader", lineage, None, "", ""),
    });
    holders.chain(unfinished).collect()
}
