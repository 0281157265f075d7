//! `pstore snapshot`

mod summary;

use std::collections::BTreeMap;

use store::{
    Error, ErrorKind,
    catalog::lock::Terms,
    format::{
        WRITER,
        event::Actor,
        record::{CapturedBy, CapturedIn},
    },
    id::RecordId,
    name::{ChromeMajor, Lineage},
    ops::snapshot::{self, About, LockUse, Request},
};

use super::Context;
use crate::{
    answer::Answer,
    args::SnapshotArgs,
    chrome::{self, Facts},
    failure::Failure,
    progress,
    settings::Settings,
};

/// How much of the tenant's indexes a snapshot looks at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;

pub(super) async fn run(context: Context, args: &SnapshotArgs) -> Result<Answer, Failure> {
    if !args.directory.is_dir() {
        let message = format!("there is no directory {}", args.directory.display());
        return Err(Failure::new(ErrorKind::NotFound, message));
    }
    context.location.keep_apart(&args.directory)?;
    let labels = labels(args)?;
    let facts = Facts::read(&args.directory);
    let lineage = Lineage { name: args.profile.clone(), chrome_major: chrome_major(&context, args, &facts)? };
    let actor = context.actor(&args.actor);
    let tenant = context.writable_tenant(&lineage.name.tenant).await?;
    let request = Request {
        directory: args.directory.clone(),
        max_bytes: Some(context.settings.tenant(&lineage.name.tenant).max_profile_bytes),
        rescan: args.rescan,
        index_budget: INDEX_BUDGET_BYTES,
        threads: crate::threads(),
        actor: actor.clone(),
        lock: lock_use(args, &context, &lineage),
        examiner: None,
        hold_back: None,
        about: about(args, &context.settings, &actor, labels, facts),
        lineage,
    };
    let stop = context.interrupt.raised();
    let report = snapshot::snapshot(&tenant, &request, progress::watch(context.console), stop).await;
    let report = report.map_err(|error| match stored(&error) {
        Some(record) => Failure::from(error).hint(moving(&request.lineage, record)),
        None => error.into(),
    })?;
    let warnings = summary::warnings(&report);
    warnings.iter().for_each(|warning| context.console.warn(warning));
    let brief = Some(format!("{}\n", report.snapshot_id));
    let document = summary::document(&request.lineage, &report, &warnings);
    Ok(Answer { brief, ..Answer::new(document, summary::text(&request.lineage, &report)) })
}

/// The snapshot that was stored before things went wrong.
fn stored(error: &Error) -> Option<RecordId> {
    match error {
        Error::PointerNotFlipped { record, .. } => Some(*record),
        Error::LockLost { record, .. } | Error::PointerMoved { record, .. } => *record,
        _ => None,
    }
}

/// The command that moves the pointer to what is stored already.
fn moving(lineage: &Lineage, record: RecordId) -> String {
    let Lineage { name, chrome_major } = lineage;
    format!(
        "`pstore rollback {name} --chrome-major {chrome_major} --sha {record} --confirm` moves the pointer to it"
    )
}

/// Under which lock: the caller's if there is a token, else one of our own.
fn lock_use(args: &SnapshotArgs, context: &Context, lineage: &Lineage) -> LockUse {
    match args.lock_token {
        Some(token) => LockUse::Held(token),
        None => {
            let settings = context.settings.tenant(&lineage.name.tenant);
            let terms = Terms { ttl: settings.lock_ttl, with_process: true };
            LockUse::Take { terms, renew_every: settings.lock_renew, wait: args.wait }
        }
    }
}

fn chrome_major(context: &Context, args: &SnapshotArgs, facts: &Facts) -> Result<ChromeMajor, Failure> {
    match (args.chrome_major, facts.major()) {
        (Some(given), Some(found)) if given != found => {
            context.console.warn(&format!(
                "the directory was last used by Chrome {found}, but is stored as Chrome {given}"
            ));
            Ok(given)
        }
        (Some(given), _) => Ok(given),
        (None, Some(found)) => {
            context.console.say(&format!("taking Chrome {found} from the directory's `Last Version`"));
            Ok(found)
        }
        (None, None) => {
            let message = format!("which Chrome wrote {} is not known", args.directory.display());
            Err(Failure::usage(message).hint("say it with --chrome-major, for example --chrome-major 131"))
        }
    }
}

fn labels(args: &SnapshotArgs) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = BTreeMap::new();
    for (key, value) in &args.labels {
        if labels.insert(key.clone(), value.clone()).is_some() {
            return Err(Failure::usage(format!("the label {key:?} is given twice")));
        }
    }
    Ok(labels)
}

fn about(
    args: &SnapshotArgs,
    settings: &Settings,
    actor: &Actor,
    labels: BTreeMap<String, String>,
    facts: Facts,
) -> About {
    About {
        captured_by: CapturedBy {
            host: actor.host.clone(),
            host_run_id: actor.host_run_id.clone(),
            writer_version: WRITER.to_owned(),
            unknown: Default::default(),
        },
        captured_in: args
            .host_region
            .clone()
            .or_else(|| settings.host_region())
            .map(|host_region| CapturedIn { host_region, egress_ip_geo: None, unknown: Default::default() }),
        reason: args.reason.0.clone(),
        labels,
        notes: args.notes.clone(),
        chrome_last_version: facts.last_version,
        exit_type: facts.exit_type,
        chrome_uptime_seconds: 0,
        fallback: None,
        exclusions: chrome::EXCLUSIONS.map(str::to_owned).to_vec(),
    }
}
