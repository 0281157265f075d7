//! `pstore list`

mod expiry;
mod rows;

use capture::load::damaged;
use engine::{
    failure::{Failure, pointer_repair},
    location::Purpose,
    names::{LineageName, Scope},
    taking_in,
    text::escape,
    verbs::delete::DeletedBy,
};
use serde_json::{Value, json};
use store::{
    format::{record::Record, tombstone::Deletion},
    id::RecordId,
    name::{Lineage, Tenant},
    ops::read::{
        profiles::{self, Profile},
        resolve::{self, Listing},
    },
};

use super::Engine;
use crate::{
    answer::Answer,
    args::ListArgs,
    table::{Align::Left, Table},
};

pub(super) async fn run(engine: Engine, args: &ListArgs) -> Result<Answer, Failure> {
    match &args.scope {
        Some(Scope::Tenant(tenant)) if args.expiry => expiry::run(&engine, tenant, None).await,
        Some(Scope::Profile(profile)) if args.expiry => {
            expiry::run(&engine, &profile.tenant, Some(profile)).await
        }
        None => tenants(engine).await,
        Some(Scope::Tenant(_)) if args.chrome_major.is_some() => {
            Err(Failure::usage("--chrome-major goes with TENANT/PROFILE"))
        }
        Some(Scope::Tenant(tenant)) => profiles(engine, tenant).await,
        Some(Scope::Profile(profile)) => {
            let lineage = LineageName { profile: profile.clone(), chrome_major: args.chrome_major };
            snapshots(engine, &lineage).await
        }
    }
}

async fn tenants(engine: Engine) -> Result<Answer, Failure> {
    let all = engine.tenants().await?;
    let store = engine.store(Purpose::Read).await?;
    let deleted = profiles::deleted_tenants(&store, &all).await;
    let is_deleted = |tenant: &Tenant| deleted.iter().any(|(other, _)| other == tenant);
    let tenants: Vec<&Tenant> = all.iter().filter(|tenant| !is_deleted(tenant)).collect();
    let mut text: String = tenants.iter().map(|tenant| format!("{tenant}\n")).collect();
    for (tenant, deletion) in &deleted {
        text.push_str(&format!("{tenant}  deleted {}\n", deletion.told()));
    }
    let lines = deleted.iter().map(|(tenant, deletion)| {
        let mut line = of_deletion(deletion);
        line["tenant_id"] = json!(tenant);
        line
    });
    let document = json!({
        "store": engine.location.shown(),
        "tenants": tenants,
        "deleted": lines.collect::<Vec<Value>>(),
    });
    Ok(Answer::new(document, text))
}

fn of_deletion(deletion: &Deletion) -> Value {
    json!({
        "deleted_at_ms": deletion.at_ms,
        "deleted_by": DeletedBy::from(deletion),
        "reason": deletion.reason,
    })
}

async fn profiles(engine: Engine, tenant: &Tenant) -> Result<Answer, Failure> {
    let tenant = engine.tenant_to_list(tenant).await?;
    let profiles = profiles::profiles(&tenant).await?;
    let mut table = Table::new(&[("PROFILE", Left), ("CHROME", Left), ("STATE", Left)]);
    for Profile { name, majors, deletion } in &profiles {
        let majors: Vec<String> = majors.iter().map(ToString::to_string).collect();
        let state =
            deletion.as_ref().map_or_else(String::new, |deletion| format!("deleted {}", deletion.told()));
        table.row(vec![name.to_string(), majors.join(", "), state]);
    }
    let lines = profiles.iter().map(|Profile { name, majors, deletion }| {
        json!({
            "profile_id": name.profile,
            "chrome_major_versions": majors,
            "deletion": deletion.as_ref().map(of_deletion),
        })
    });
    let document = json!({ "tenant_id": tenant.tenant, "profiles": lines.collect::<Vec<Value>>() });
    Ok(Answer::new(document, table.render()))
}

async fn snapshots(engine: Engine, args: &LineageName) -> Result<Answer, Failure> {
    let tenant = engine.tenant_to_list(&args.profile.tenant).await?;
    let (chosen, majors) = engine.chosen(&tenant, args).await?;
    let majors = if args.chrome_major.is_some() { vec![chosen.chrome_major] } else { majors };
    let mut listings = Vec::new();
    for chrome_major in majors {
        let lineage = Lineage { name: args.profile.clone(), chrome_major };
        let listing = resolve::list(&tenant, &lineage).await?;
        tell(&engine, &lineage, &listing);
        listings.push((lineage, listing));
    }
    let pointers: Vec<Value> = listings.iter().map(|(lineage, listing)| pointer(lineage, listing)).collect();
    let is_chosen = |pointer: &&Value| pointer["chrome_major_version"] == json!(chosen.chrome_major);
    let own = pointers.iter().find(is_chosen).cloned().unwrap_or_default();
    let mut listings: Vec<Listing> = listings.into_iter().map(|(_, listing)| listing).collect();
    listings.retain(|listing| !listing.records.is_empty() || !listing.archives.is_empty());
    let document = json!({
        "tenant_id": args.profile.tenant,
        "profile_id": args.profile.profile,
        "chrome_major_version": chosen.chrome_major,
        "active_sha256_prefix": own["active_sha256_prefix"],
        "pointer_damage": own["pointer_damage"],
        "foreign": own["foreign"],
        "lineages": pointers,
        "snapshots": listings.iter().flat_map(rows::json).collect::<Vec<Value>>(),
    });
    Ok(Answer::new(document, rows::table(&listings)))
}

/// Which snapshot of a Chrome's is current.
fn pointer(lineage: &Lineage, listing: &Listing) -> Value {
    json!({
        "chrome_major_version": lineage.chrome_major,
        "active_sha256_prefix": rows::active(listing),
        "pointer_damage": listing.pointer_damage.as_ref().map(ToString::to_string),
        "foreign": listing.foreign.is_some(),
    })
}

/// What a person should know of a listing.
fn tell(engine: &Engine, lineage: &Lineage, listing: &Listing) {
    if let Some(prefix) = &listing.foreign {
        engine.warn(&format!(
            "another program has moved the pointer of {lineage} to its archive {}",
            escape::line(prefix)
        ));
        engine.say(&format!("hint: {}", taking_in(lineage)));
    }
    if let Some(damage) = &listing.pointer_damage {
        engine.warn(&format!("{damage}; which of these is current is not known"));
        engine.say(&format!(
            "hint: {}",
            pointer_repair(&lineage.name.to_string(), Some(&lineage.chrome_major.to_string()))
        ));
    }
    let is_listed = |id: &RecordId| listing.records.iter().any(|record| record.record == *id);
    if let Some(missing) = listing.latest.filter(|latest| !is_listed(latest)) {
        engine.warn(&format!(
            "the current snapshot of {lineage} is missing: its pointer names record {missing}, which is not there or \
             cannot be read"
        ));
        let other = listing.records.last().map_or_else(|| "PREFIX".to_owned(), Record::sha256_prefix);
        engine.say(&format!(
            "hint: `pstore rollback {} --chrome-major {} --sha {other} --confirm` makes another one current; \
             `pstore gc` waits for that",
            lineage.name, lineage.chrome_major
        ));
    }
    for archive in &listing.archives {
        if let Err(error) = &archive.manifest {
            engine.warn(&format!("an archive of another program cannot be listed: {error}"));
        }
    }
    listing.records.iter().filter_map(damaged).for_each(|warning| engine.warn(&warning));
}
