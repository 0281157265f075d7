//! `pstore list`

use capture::load::damaged;
use serde_json::{Value, json};
use store::{
    catalog::records,
    format::record::Record,
    id::RecordId,
    name::{ChromeMajor, Profile, Tenant},
    ops::find::{self, Listing},
};

use super::{Context, context::taking_in};
use crate::{
    answer::Answer,
    args::{LineageArgs, ListArgs, Scope},
    failure::{Failure, POINTER_REPAIR},
    location::Purpose,
    plain, size,
    table::{
        Align::{Left, Right},
        Table,
    },
    time,
};

pub(super) async fn run(context: Context, args: &ListArgs) -> Result<Answer, Failure> {
    match &args.scope {
        None => tenants(context).await,
        Some(Scope::Tenant(_)) if args.chrome_major.is_some() => {
            Err(Failure::usage("--chrome-major goes with TENANT/PROFILE"))
        }
        Some(Scope::Tenant(tenant)) => profiles(context, tenant).await,
        Some(Scope::Profile(profile)) => {
            let lineage = LineageArgs { profile: profile.clone(), chrome_major: args.chrome_major };
            snapshots(context, &lineage).await
        }
    }
}

async fn tenants(context: Context) -> Result<Answer, Failure> {
    let store = context.store(Purpose::Read).await?;
    let tenants = context.answer(store.tenants()).await?;
    let text = tenants.iter().map(|tenant| format!("{tenant}\n")).collect();
    Ok(Answer::new(json!({ "store": context.location.shown(), "tenants": tenants }), text))
}

async fn profiles(context: Context, tenant: &Tenant) -> Result<Answer, Failure> {
    let tenant = context.tenant(tenant).await?;
    let mut profiles: Vec<(Profile, Vec<ChromeMajor>)> = Vec::new();
    for lineage in records::all_lineages(&tenant).await? {
        match profiles.last_mut() {
            Some((profile, majors)) if *profile == lineage.name.profile => majors.push(lineage.chrome_major),
            _ => profiles.push((lineage.name.profile, vec![lineage.chrome_major])),
        }
    }
    let mut table = Table::new(&[("PROFILE", Left), ("CHROME", Left)]);
    for (profile, majors) in &profiles {
        let majors: Vec<String> = majors.iter().map(ToString::to_string).collect();
        table.row(vec![format!("{}/{profile}", tenant.tenant), majors.join(", ")]);
    }
    let lines = profiles
        .iter()
        .map(|(profile, majors)| json!({ "profile_id": profile, "chrome_major_versions": majors }));
    let document = json!({ "tenant_id": tenant.tenant, "profiles": lines.collect::<Vec<Value>>() });
    Ok(Answer::new(document, table.render()))
}

async fn snapshots(context: Context, args: &LineageArgs) -> Result<Answer, Failure> {
    let (tenant, lineage) = context.lineage(args).await?;
    let listing = find::list(&tenant, &lineage).await?;
    if let Some(prefix) = &listing.foreign {
        context.console.warn(&format!(
            "another program has moved the pointer of {lineage} to the archive {}, which is not listed here",
            plain::line(prefix)
        ));
        context.console.say(&format!("hint: {}", taking_in(&lineage)));
    }
    let damage = listing.pointer_damage.as_ref().map(ToString::to_string);
    if let Some(damage) = &damage {
        context.console.warn(&format!("{damage}; which of these is current is not known"));
        context.console.say(&format!("hint: {POINTER_REPAIR}"));
    }
    let is_listed = |id: &RecordId| listing.records.iter().any(|record| record.record == *id);
    if let Some(missing) = listing.latest.filter(|latest| !is_listed(latest)) {
        context.console.warn(&format!(
            "the current snapshot of {lineage} is missing: its pointer names record {missing}, which is not there or \
             cannot be read"
        ));
        context.console.say("hint: `pstore rollback` makes another one current; `pstore gc` waits for that");
    }
    listing.records.iter().filter_map(damaged).for_each(|warning| context.console.warn(&warning));
    let document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "active_sha256_prefix": active(&listing),
        "pointer_damage": damage,
        "foreign": listing.foreign.is_some(),
        "snapshots": listing.records.iter().map(|record| line(record, &listing)).collect::<Vec<Value>>(),
    });
    Ok(Answer::new(document, table(&listing)))
}

fn active(listing: &Listing) -> String {
    let latest = listing.records.iter().find(|record| Some(record.record) == listing.latest);
    listing.foreign.clone().or_else(|| latest.map(Record::sha256_prefix)).unwrap_or_default()
}

fn line(record: &Record, listing: &Listing) -> Value {
    json!({
        "snapshot_id": record.content.as_ref().map(|content| content.snapshot_id),
        "record": record.record,
        "sha256_prefix": record.sha256_prefix(),
        "latest": Some(record.record) == listing.latest,
        "archive_sha256": record.archive_sha256,
        "captured_at_ms": record.captured_at_ms,
        "chrome_major_version": record.chrome_major_version,
        "uncompressed_size_bytes": record.uncompressed_size_bytes,
        "new_bytes": record.counts.new_bytes,
        "stored_bytes": record.counts.stored_bytes,
        "files": record.counts.files,
        "mode": record.mode,
        "reason": record.reason,
        "labels": record.labels,
        "tags": record.tags.keys().collect::<Vec<_>>(),
        "notes": record.notes,
        "complete": record.complete,
        "damaged_files": record.damage.as_ref().map(|damage| damage.files),
    })
}

fn table(listing: &Listing) -> String {
    let mut table = Table::new(&[
        (" ", Left),
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("NEW", Right),
        ("STORED", Right),
        ("MODE", Left),
        ("CHROME", Right),
        ("REASON", Left),
        ("LABELS", Left),
    ]);
    for record in &listing.records {
        let latest = Some(record.record) == listing.latest;
        let tags = record.tags.keys().map(|tag| format!("#{tag}"));
        let labels = record.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<String> = tags.chain(labels).collect();
        table.row(vec![
            if latest { "*" } else { " " }.to_owned(),
            time::utc(record.captured_at_ms),
            record.sha256_prefix(),
            size::bytes(record.uncompressed_size_bytes),
            size::bytes(record.counts.new_bytes),
            size::bytes(record.counts.stored_bytes),
            record.mode.as_str().to_owned(),
            record.chrome_major_version.to_string(),
            record.reason.as_str().to_owned(),
            labels.join(" "),
        ]);
    }
    table.render()
}
