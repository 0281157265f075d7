//! `render_collection` writes the report of a collection, or its plan, for people.

use std::fmt::Write;

use engine::{
    text::size::{self, plural},
    verbs::gc::{CauseTally, Collection, CollectionStep, PackTally, ProfileTally, StrandedSession},
};
use store::name::{ChromeMajor, Lineage, Profile, ProfileName, Tenant};

use crate::table::{
    Align::{Left, Right},
    Table,
};

pub(super) fn text(plans: &[Collection], dry: bool) -> String {
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
        let mut row = |name: String, tally: PackTally, oldest: Option<u64>| {
            let oldest = oldest.map_or_else(|| "-".to_owned(), size::age);
            let cells =
                [plan.tenant_id.to_string(), name, size::count(tally.packs), size::bytes(tally.bytes)];
            what.row(cells.into_iter().chain([oldest]).collect());
        };
        row(if dry { "would be deleted" } else { "deleted" }.to_owned(), plan.deleted, None);
        for CauseTally { cause, tally, oldest_ms } in &plan.condemned_by_cause {
            let done = if dry { "would be condemned" } else { "condemned" };
            row(format!("{done}: {}", cause.word()), *tally, Some(*oldest_ms));
        }
        if plan.repacked.tally.packs > 0 {
            let done = if dry { "would be emptied" } else { "emptied" };
            row(done.to_owned(), plan.repacked.tally, None);
        }
        row("waiting since earlier".to_owned(), plan.waiting, None);
        row("being written".to_owned(), plan.writing, None);
        row("needed".to_owned(), plan.needed, None);
        for profile in &plan.condemned_by_profile {
            profiles += 1;
            whose.row(vec![
                plan.tenant_id.to_string(),
                lineage(&plan.tenant_id, profile)
                    .map_or_else(|| "(not known)".to_owned(), |it| it.to_string()),
                size::count(profile.tally.packs),
                size::bytes(profile.tally.bytes),
                size::age(profile.oldest_ms),
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

fn documents(plans: &[Collection]) -> String {
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
        let now = match document.step {
            CollectionStep::Arm => "the writers to wait for are put down".to_owned(),
            CollectionStep::WaitForGrace => {
                format!("waits {} for the grace", size::age(document.left_ms.unwrap_or_default()))
            }
            CollectionStep::WaitForWriters => {
                format!("waits for {}", plural(document.writers.len() as u64, "writer", "writers"))
            }
            CollectionStep::Sweep if document.pardoned == 0 => "goes".to_owned(),
            CollectionStep::Sweep => {
                format!("goes, but for {} needed after all", plural(document.pardoned, "pack", "packs"))
            }
        };
        table.row(vec![
            document.id.to_string(),
            document.phase.word().to_owned(),
            size::count(document.tally.packs),
            size::bytes(document.tally.bytes),
            now,
        ]);
    }
    if any { format!("\n{}", table.render()) } else { String::new() }
}

fn remarks(plan: &Collection, dry: bool) -> String {
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
        let _ = writeln!(text, "\n{}: {}", plan.tenant_id, told.join(", "));
    }
    for stranded in &plan.stranded_sessions {
        let StrandedSession { session, host, record, .. } = stranded;
        let tenant = &plan.tenant_id;
        let lineage = named(tenant, &stranded.profile_id, stranded.chrome_major_version);
        let _ = writeln!(
            text,
            "\nwarning: session {session} of {lineage} on {host:?} builds on record {record}, which is missing; on that \
             host `pstore sessions rescue {session} --as {tenant}/rescued` stores what it holds, if the snapshot is in \
             its cache, and `pstore sessions discard {session} --confirm` gives it up"
        );
    }
    let repacked = plan.repacked;
    if repacked.tally.packs > 0 {
        let _ = writeln!(
            text,
            "\n{}: {} of the emptied packs {} needed by {}; the other {} {} saved",
            plan.tenant_id,
            size::bytes(repacked.kept_bytes),
            if dry { "would be copied, being" } else { "were copied, being" },
            plural(repacked.records, "snapshot", "snapshots"),
            size::bytes(repacked.saved_bytes),
            if dry { "would be" } else { "are" },
        );
    }
    if repacked.failed > 0 {
        let packs = plural(repacked.failed, "pack was", "packs were");
        let _ = writeln!(
            text,
            "\n{0}: {packs} not emptied; `pstore verify {0}` says what is damaged",
            plan.tenant_id
        );
    }
    let going = plan.deleted.bytes + plan.condemned.bytes + plan.waiting.bytes;
    let saving = going.saturating_sub(repacked.kept_bytes);
    if dry && saving > 0 {
        let _ = writeln!(
            text,
            "\n{}: {} would be freed once all of it is gone",
            plan.tenant_id,
            size::bytes(saving)
        );
    } else if plan.pending > 0 {
        let _ = writeln!(text, "\n{}: run `pstore gc` again later to free what is condemned", plan.tenant_id);
    }
    text
}

fn lineage(tenant: &Tenant, tally: &ProfileTally) -> Option<Lineage> {
    Some(named(tenant, tally.profile_id.as_ref()?, tally.chrome_major_version?))
}

fn named(tenant: &Tenant, profile: &Profile, chrome_major: ChromeMajor) -> Lineage {
    Lineage { name: ProfileName { tenant: tenant.clone(), profile: profile.clone() }, chrome_major }
}
