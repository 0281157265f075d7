//! `pstore snapshot`

mod summary;

use capture::chrome::profile::Facts;
use engine::failure::Failure;
use store::{
    ErrorKind,
    catalog::{
        lock::Terms,
        pointer::{self, VersionedPointer},
    },
    content::TenantStore,
    format::pointer::Target,
    id::Nonce,
    name::{ChromeMajor, Lineage},
    ops::write::snapshot::{LockUse, Report},
};

use super::{
    Engine,
    capture::{self as capturing, Job},
    copies,
};
use crate::{answer::Answer, args::SnapshotArgs};

pub(super) use summary::{document, text};

pub(super) async fn run(engine: Engine, args: &SnapshotArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    if !args.directory.is_dir() {
        let message = format!("there is no directory {}", args.directory.display());
        return Err(Failure::new(ErrorKind::NotFound, message));
    }
    engine.location.keep_apart(&args.directory)?;
    let token = engine.lock_token(args.lock_token)?;
    let still = capturing::hold_still(&args.directory, &args.capture).await?;
    let chrome_major = chrome_major(&engine, args, &still.facts)?;
    let lineage = Lineage { name: args.profile.clone(), chrome_major };
    let remarks = still.remarks();
    let mut actor = engine.actor(&args.capture.actor.name());
    if token.is_some() && args.capture.actor.run_id.as_deref().unwrap_or_default().is_empty() {
        // Whoever holds the lock is who acts.
        actor.run_id.clear();
    }
    let tenant = engine.writable_tenant(&lineage.name.tenant).await?;
    take_in(&engine, &tenant, &lineage).await;
    let job = Job {
        tenant: &tenant,
        lineage: lineage.clone(),
        directory: &args.directory,
        actor,
        lock: lock_use(args, &engine, &lineage, token),
        made_of: copies::made_of(&engine, &args.directory, &lineage).filter(|_| !args.force),
    };
    let is_copy = job.made_of.is_some();
    let captured = capturing::capture(&engine, &args.capture, job, still, engine.progress());
    let report = captured.await.map_err(|failure| passed_by(failure, is_copy, args, &lineage))?;
    engine.prune(&tenant, &lineage, &report).await;
    let warnings = warnings(&report, remarks);
    warnings.iter().for_each(|warning| engine.warn(warning));
    let verdict = capturing::held_back(&report);
    let hint = verdict.is_some().then(|| capturing::moving(&lineage, report.record));
    let brief = Some(format!("{}\n", report.snapshot_id));
    let document = document(&lineage, &report, &warnings);
    Ok(Answer { brief, verdict, hint, ..Answer::new(document, text(&lineage, &report)) })
}

/// Others have stored a snapshot since a run made the copy that is to be stored now.
fn passed_by(failure: Failure, is_copy: bool, args: &SnapshotArgs, lineage: &Lineage) -> Failure {
    if !is_copy || failure.kind != ErrorKind::PointerMoved {
        return failure;
    }
    let (directory, Lineage { name, chrome_major }) = (args.directory.display(), lineage);
    failure.hint(format!(
        "`pstore snapshot {directory} {name} --chrome-major {chrome_major} --force` replaces what is current; \
         `pstore snapshot {directory} {}/ANOTHER --chrome-major {chrome_major}` stores it as another profile",
        name.tenant
    ))
}

/// What another program has made the current snapshot is what this one is built on and
/// compared with, if it can be.
async fn take_in(engine: &Engine, tenant: &TenantStore, lineage: &Lineage) {
    let is_foreign = |read: &Option<VersionedPointer>| {
        read.as_ref().is_some_and(|read| matches!(read.pointer.target(), Target::Foreign(_)))
    };
    if pointer::read(tenant, lineage).await.is_ok_and(|read| is_foreign(&read))
        && let Err(failure) = engine.adopt(lineage).await
    {
        engine.warn(&format!("the current snapshot cannot be built on: {}", failure.message));
    }
}

/// What a person should know about a snapshot though it was stored.
pub(super) fn warnings(report: &Report, remarks: Vec<String>) -> Vec<String> {
    let mut warnings = summary::warnings(report);
    warnings.extend(capturing::warnings(report));
    warnings.extend(remarks);
    warnings
}

/// Under which lock: the caller's if there is a token, else one of our own.
fn lock_use(args: &SnapshotArgs, engine: &Engine, lineage: &Lineage, token: Option<Nonce>) -> LockUse {
    match token {
        Some(token) => LockUse::Held(token),
        None => {
            let settings = engine.settings.tenant(&lineage.name.tenant);
            let terms = Terms { ttl: settings.lock_ttl, with_process: true };
            let patience = engine.patience(&lineage.name, args.wait);
            LockUse::Take { terms, renew_every: settings.lock_renew, patience }
        }
    }
}

fn chrome_major(engine: &Engine, args: &SnapshotArgs, facts: &Facts) -> Result<ChromeMajor, Failure> {
    match (args.chrome_major, facts.major()) {
        (Some(given), Some(found)) if given != found && !args.force => {
            let (directory, name) = (args.directory.display(), &args.profile);
            let message =
                format!("{directory} was last used by Chrome {found}, and is not stored as Chrome {given}");
            Err(Failure::new(ErrorKind::VersionMismatch, message).hint(format!(
                "`pstore snapshot {directory} {name} --chrome-major {found}` stores it as what it is; --force stores it as Chrome {given}"
            )))
        }
        (Some(given), Some(found)) if given != found => {
            engine.warn(&format!(
                "the directory was last used by Chrome {found}, but is stored as Chrome {given}"
            ));
            Ok(given)
        }
        (Some(given), _) => Ok(given),
        (None, Some(found)) => {
            engine.say(&format!("taking Chrome {found} from the directory's `Last Version`"));
            Ok(found)
        }
        (None, None) => {
            let message = format!("which Chrome wrote {} is not known", args.directory.display());
            Err(Failure::usage(message).hint("say it with --chrome-major, for example --chrome-major 131"))
        }
    }
}
