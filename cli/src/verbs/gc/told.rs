//! What a collection did or would do, told.

use std::{fmt::Write, time::Duration};

use engine::text::size::{self, plural};
use serde_json::{Value, json};
use store::{
    format::condemned::Phase,
    ops::gc::{Document, Plan, Step, Stranded, Tally},
};

use crate::table::{
    Align::{Left, Right},
    Table,
};

pub(super) fn document(plan: &Plan) -> Value {
    let tally = |tally: Tally| json!({ "packs": tally.packs, "bytes": tally.bytes });
    let by_cause = plan.by_cause().into_iter().map(|(cause, (tally, oldest))| {
        json!({ "cause": cause.as_str(), "packs": tally.packs, "bytes": tally.bytes, "oldest_ms": ms(oldest) })
    });
    let by_profile = plan.by_lineage().into_iter().map(|(lineage, (tally, oldest))| {
        json!({
            "profile_id": lineage.as_ref().map(|lineage| &lineage.name.profile),
            "chrome_major_version": lineage.as_ref().map(|lineage| lineage.chrome_major),
            "packs": tally.packs,
            "bytes": tally.bytes,
            "oldest_ms": ms(oldest),
        })
    });
    json!({
        "tenant_id": plan.tenant,
        "deleted": tally(plan.deleted),
        "condemned": tally(plan.condemned_total()),
        "condemned_by_cause": by_cause.collect::<Vec<Value>>(),
        "condemned_by_profile": by_profile.collect::<Vec<Value>>(),
        "repacked": {
            "packs": plan.repacked.emptied.packs,
            "bytes": plan.repacked.emptied.bytes,
            "kept_bytes": plan.repacked.kept_bytes,
            "saved_bytes": plan.repacked.saved_bytes(),
            "records": plan.repacked.records,
            "failed": plan.repacked.failed,
        },
        "waiting": tally(plan.waiting()),
        "needed": tally(plan.needed),
        "live_bytes": plan.live_bytes,
        "writing": tally(plan.writing),
        "documents": plan.documents.iter().map(condemned).collect::<Vec<Value>>(),
        "revoked": plan.revoked.iter().map(|(id, _)| json!(id)).collect::<Vec<Value>>(),
        "finished_deletions": plan.finished_deletions,
        "indexes_rewritten": plan.indexes_rewritten,
        "indexes_removed": plan.indexes_removed,
        "indexes_merged": plan.indexes_merged,
        "events_merged": plan.events_merged,
        "events_removed": plan.events_removed,
        "leftovers": plan.leftovers,
        "stranded_sessions": plan.stranded.iter().map(stranded).collect::<Vec<Value>>(),
        "pending": plan.pending.len(),
    })
}

fn stranded(stranded: &Stranded) -> Value {
    let Stranded { session, host, lineage, record } = stranded;
    json!({
        "session": session,
        "host": host,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "record": record,
    })
}

fn condemned(document: &Document) -> Value {
    let mut line = json!({
        "id": document.id,
        "phase": phase(document.phase),
        "packs": document.named.packs,
        "bytes": document.named.bytes,
        "step": "arm",
        "left_ms": Value::Null,
        "writers": [],
        "pardoned": 0,
    });
    match &document.step {
        Step::Arm => {}
        Step::WaitForGrace { left } => {
            (line["step"], line["left_ms"]) = (json!("wait_for_grace"), json!(ms(*left)));
        }
        Step::WaitForWriters { writers } => {
            (line["step"], line["writers"]) = (json!("wait_for_writers"), json!(writers));
        }
        Step::Sweep { pardoned, .. } => {
            (line["step"], line["pardoned"]) = (json!("sweep"), json!(pardoned));
        }
    }
    line
}

pub(super) fn text(plans: &[Plan], dry: bool) -> String {
    let mut text = String::new();
    let mut what = Table::new(&[
        ("TENANT", Left),
        ("WHAT", Left),
        ("PACKS", Right),
        ("BYTES", Right),
        ("OLDEST", Right),
    ]);
    let mut whose = Table::new(&[
        ("TENANT", Left),
        ("CONDEMNED OF", Left),
        ("PACKS", Right),
        ("BYTES", Right),
        ("OLDEST", Right),
    ]);
    let mut profiles = 0;
    for plan in plans {
        let mut row = |name: String, tally: Tally, oldest: Option<Duration>| {
            let oldest = oldest.map_or_else(|| "-".to_owned(), age);
            let cells = [plan.tenant.to_string(), name, size::count(tally.packs), size::bytes(tally.bytes)];
            what.row(cells.into_iter().chain([oldest]).collect());
        };
        row(if dry { "would be deleted" } else { "deleted" }.to_owned(), plan.deleted, None);
        for (cause, (tally, oldest)) in plan.by_cause() {
            let done = if dry { "would be condemned" } else { "condemned" };
            row(format!("{done}: {}", cause.as_str()), tally, Some(oldest));
        }
        if plan.repacked.emptied.packs > 0 {
            let done = if dry { "would be emptied" } else { "emptied" };
            row(done.to_owned(), plan.repacked.emptied, None);
        }
        row("waiting since earlier".to_owned(), plan.waiting(), None);
        row("being written".to_owned(), plan.writing, None);
        row("needed".to_owned(), plan.needed, None);
        for (lineage, (tally, oldest)) in plan.by_lineage() {
            profiles += 1;
            whose.row(vec![
                plan.tenant.to_string(),
                lineage.map_or_else(|| "(not known)".to_owned(), |lineage| lineage.to_string()),
                size::count(tally.packs),
                size::bytes(tally.bytes),
                age(oldest),
            ]);
        }
    }
    text.push_str(&what.render());
    if profiles > 0 {
        let _ = write!(text, "\n{}", whose.render());
    }
    text.push_str(&documents(plans));
    for plan in plans {
        text.push_str(&remarks(plan, dry));
    }
    text
}

fn documents(plans: &[Plan]) -> String {
    let mut table = Table::new(&[
        ("CONDEMNED EARLIER", Left),
        ("PHASE", Left),
        ("PACKS", Right),
        ("BYTES", Right),
        ("NOW", Left),
    ]);
    let mut any = false;
    for document in plans.iter().flat_map(|plan| &plan.documents) {
        any = true;
        let now = match &document.step {
            Step::Arm => "the writers to wait for are put down".to_owned(),
            Step::WaitForGrace { left } => format!("waits {} for the grace", age(*left)),
            Step::WaitForWriters { writers } => {
                format!("waits for {}", plural(writers.len() as u64, "writer", "writers"))
            }
            Step::Sweep { pardoned: 0, .. } => "goes".to_owned(),
            Step::Sweep { pardoned, .. } => {
                format!("goes, but for {} needed after all", plural(*pardoned, "pack", "packs"))
            }
        };
        table.row(vec![
            document.id.to_string(),
            phase(document.phase).to_owned(),
            size::count(document.named.packs),
            size::bytes(document.named.bytes),
            now,
        ]);
    }
    if any { format!("\n{}", table.render()) } else { String::new() }
}

fn remarks(plan: &Plan, dry: bool) -> String {
    let mut text = String::new();
    let counts = [
        (plan.revoked.len() as u64, "write", "writes", "given up for dead"),
        (plan.finished_deletions, "deletion", "deletions", "finished"),
        (plan.indexes_rewritten, "index", "indexes", "rewritten"),
        (plan.indexes_removed, "index", "indexes", "removed"),
        (plan.indexes_merged, "index", "indexes", "merged"),
        (plan.events_merged, "event", "events", "merged"),
        (plan.events_removed, "old event", "old events", "removed"),
        (plan.leftovers, "leftover", "leftovers", "removed"),
    ];
    let would = if dry { "would be " } else { "" };
    let told: Vec<String> = counts
        .iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, many, done)| format!("{} {would}{done}", plural(*n, one, many)))
        .collect();
    if !told.is_empty() {
        let _ = writeln!(text, "\n{}: {}", plan.tenant, told.join(", "));
    }
    for Stranded { session, host, lineage, record } in &plan.stranded {
        let tenant = &plan.tenant;
        let _ = writeln!(
            text,
            "\nwarning: session {session} of {lineage} on {host:?} builds on record {record}, which is missing; on that \
             host `pstore sessions rescue {session} --as {tenant}/rescued` stores what it holds, if the snapshot is in \
             its cache, and `pstore sessions discard {session} --confirm` gives it up"
        );
    }
    let repacked = plan.repacked;
    if repacked.emptied.packs > 0 {
        let _ = writeln!(
            text,
            "\n{}: {} of the emptied packs {} needed by {}; the other {} {} saved",
            plan.tenant,
            size::bytes(repacked.kept_bytes),
            if dry { "would be copied, being" } else { "were copied, being" },
            plural(repacked.records, "snapshot", "snapshots"),
            size::bytes(repacked.saved_bytes()),
            if dry { "would be" } else { "are" },
        );
    }
    if repacked.failed > 0 {
        let packs = plural(repacked.failed, "pack was", "packs were");
        let _ = writeln!(
            text,
            "\n{0}: {packs} not emptied; `pstore verify {0}` says what is damaged",
            plan.tenant
        );
    }
    let going = plan.deleted.bytes + plan.condemned_total().bytes + plan.waiting().bytes;
    let saving = going.saturating_sub(repacked.kept_bytes);
    if dry && saving > 0 {
        let _ = writeln!(
            text,
            "\n{}: {} would be freed once all of it is gone",
            plan.tenant,
            size::bytes(saving)
        );
    } else if !plan.pending.is_empty() {
        let _ = writeln!(text, "\n{}: run `pstore gc` again later to free what is condemned", plan.tenant);
    }
    text
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Condemned => "condemned",
        Phase::Armed => "armed",
        Phase::Sweep => "sweep",
        Phase::Swept => "swept",
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// In the largest unit that fits.
fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}
