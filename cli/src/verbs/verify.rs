//! `pstore verify`

mod told;

use engine::{
    Engine,
    failure::Failure,
    names::{SnapshotName, Subject},
    turns::Turns,
};
use store::{
    ErrorKind,
    catalog::clock,
    format::record::Record,
    name::Tenant,
    ops::verify::{self, Options, Report, Sample},
};

use self::told::{Checked, Scope};
use crate::{
    answer::Answer,
    args::{ChosenArgs, VerifyArgs},
};

pub(super) async fn run(engine: Engine, args: &VerifyArgs) -> Result<Answer, Failure> {
    let checked = match &args.subject {
        Some(Subject::Snapshot(name)) => of_profile(&engine, name, args).await.map_err(without_verify)?,
        Some(Subject::Tenant(tenant)) => of_tenants(&engine, Some(tenant), args).await?,
        None => of_tenants(&engine, None, args).await?,
    };
    Ok(Answer { verdict: checked.verdict(), ..Answer::new(checked.document(), checked.text()) })
}

fn options(args: &VerifyArgs, chosen: Option<&Record>) -> Options {
    let parts = args.read_data.filter(|parts| *parts > 1);
    Options {
        only: chosen.map(|record| record.record),
        read_data: !args.structure,
        sample: parts.map(|parts| Sample::of_day(parts, clock::unix_ms())),
        repair: args.repair,
        memory_bytes: verify::DEFAULT_MEMORY_BYTES,
    }
}

async fn of_profile(engine: &Engine, name: &SnapshotName, args: &VerifyArgs) -> Result<Checked, Failure> {
    let snapshot = ChosenArgs { name: name.clone(), chrome_major: args.chrome_major, sha: args.sha.clone() };
    let reference = snapshot.named()?;
    if let Some(reference) = reference.filter(|_| args.repair) {
        let message = format!("--repair looks at all snapshots, and @{reference} names one");
        let hint = format!("`pstore verify {} --repair`", name.profile);
        return Err(Failure::usage(message).hint(hint));
    }
    let (tenant, lineage) = match args.repair {
        true => engine.lineage_to_change(&snapshot.lineage()).await?,
        false => engine.lineage(&snapshot.lineage()).await?,
    };
    let chosen = match reference {
        Some(reference) => Some(engine.snapshot(&tenant, &lineage, Some(reference)).await?),
        None => None,
    };
    let options = options(args, chosen.as_ref());
    let report = verify::verify(&tenant, &lineage, options, engine.progress()).await?;
    let scope = Scope::Lineage { lineage, chosen: chosen.map(Box::new) };
    Ok(Checked { scope, options, report, failed: Vec::new(), passed_over: None })
}

async fn of_tenants(engine: &Engine, named: Option<&Tenant>, args: &VerifyArgs) -> Result<Checked, Failure> {
    if let Some((flag, tenant)) = of_one_profile(args).zip(named) {
        let message = format!("{flag} is about one profile, and {tenant} is a tenant");
        return Err(Failure::usage(message).hint(format!(
            "`pstore verify {tenant}/PROFILE {flag} …`; `pstore list {tenant}` names its profiles"
        )));
    }
    let options = options(args, None);
    let mut turns = Turns::of(engine, named, "verify").await?;
    let mut report = Report::default();
    for tenant in turns.tenants() {
        let looked = of_tenant(engine, &tenant, options).await.map_err(without_verify);
        let Some(looked) = turns.took(&tenant, looked)? else { continue };
        add(&mut report, looked);
    }
    let scope = match named {
        Some(tenant) => Scope::Tenant(tenant.clone()),
        None => Scope::All { tenants: turns.tenants().len() },
    };
    Ok(Checked {
        scope,
        options,
        report,
        passed_over: turns.verdict().map(|failure| (failure.kind, failure.message)),
        failed: turns.into_failed(),
    })
}

/// The option that says something of one profile.
fn of_one_profile(args: &VerifyArgs) -> Option<&'static str> {
    match (args.chrome_major, &args.sha) {
        (Some(_), _) => Some("--chrome-major"),
        (None, Some(_)) => Some("--sha"),
        (None, None) => None,
    }
}

async fn of_tenant(engine: &Engine, tenant: &Tenant, options: Options) -> Result<Report, Failure> {
    let store = match options.repair {
        true => engine.tenant_to_change(tenant).await?,
        false => engine.tenant(tenant).await?,
    };
    Ok(verify::verify_tenant(&store, options, engine.progress()).await?)
}

/// Tenants share nothing.
fn add(all: &mut Report, one: Report) {
    all.snapshots += one.snapshots;
    all.packs += one.packs;
    all.chunks += one.chunks;
    all.read_bytes += one.read_bytes;
    all.damage.extend(one.damage);
    all.repaired.extend(one.repaired);
    all.marked.extend(one.marked);
    all.lineages.extend(one.lineages);
}

/// Whoever reads this has run `pstore verify` already.
fn without_verify(failure: Failure) -> Failure {
    match &failure.hint {
        Some(hint) if failure.kind == ErrorKind::Damaged && hint.contains("`pstore verify ") => failure
            .hint("bring the object back from a backup of the store; without it nothing more can be checked"),
        _ => failure,
    }
}
