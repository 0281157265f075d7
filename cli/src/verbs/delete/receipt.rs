//! `receipt` writes the plan and the receipt of a deletion in words.

use std::collections::BTreeSet;

use engine::{
    text::{escape, size, time},
    verbs::delete::{DeletionReceipt, Removal, Subject},
};
use store::{
    format::tombstone::{Deletion, Progress},
    ops::removal::{Survey, Unfinished},
};

pub(super) fn text(receipt: &DeletionReceipt) -> String {
    let DeletionReceipt { outcome, subject, survey, deletion, .. } = receipt;
    let deletion = deletion.as_ref();
    match outcome {
        Removal::Planned => planned(subject, survey, deletion),
        Removal::Deleted | Removal::Deleting => deleted(subject, deletion),
        Removal::TombstonePlanned => format!(
            "{subject} was deleted {}\nnothing was written; add --confirm to remove the tombstone: it can begin anew then\n",
            told(deletion)
        ),
        Removal::TombstoneRemoved => {
            format!("the tombstone of {subject} is removed: it can begin anew\n")
        }
    }
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
