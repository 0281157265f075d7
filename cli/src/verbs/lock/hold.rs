//! `hold` runs a command under the lock of a profile, and stops it when the lock is lost.

use std::{ffi::OsString, sync::Arc};

use engine::{
    LOCK_TOKEN,
    failure::Failure,
    host::supervise::{self, Signals},
    outcome::LineageFields,
};
use serde_json::json;
use store::{ErrorKind, catalog::lock::Terms};

use crate::{answer::Answer, args::HoldArgs, verbs::Engine};

pub(super) async fn run(engine: Engine, args: &HoldArgs) -> Result<Answer, Failure> {
    let mut command = supervise::command(&args.command)?;
    let mut signals = Signals::listen();
    let settings = engine.settings.tenant(&args.lineage.profile.tenant);
    let taking = async {
        let controls = engine.lock_controls(&args.lineage.name(), &args.actor.name()).await?;
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        let patience = engine.patience(&args.lineage.profile, args.wait);
        Ok(controls.acquire(terms, patience).await?)
    };
    let hold = Arc::new(supervise::take_lock(&mut signals, &engine.interrupt, taking).await?);
    let environment = [
        (LOCK_TOKEN, OsString::from(hold.token().await.to_string())),
        ("PSTORE_RUN_ID", OsString::from(&hold.controls().actor().run_id)),
    ];
    let keeper = hold.keep(settings.lock_renew);
    command.envs(environment);
    let guarded = supervise::run(&engine, &mut signals, command, None, Some(&keeper), None).await;
    drop(keeper);
    if let Err(error) = hold.release().await {
        engine.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
    let guarded = guarded?;
    let lineage = LineageFields::from(hold.controls().lineage());
    let document = json!({
        "tenant_id": lineage.tenant_id,
        "profile_id": lineage.profile_id,
        "chrome_major_version": lineage.chrome_major_version,
        "outcome": if guarded.lost.is_some() { "lock_lost" } else { "ended" },
        "command_exit_code": guarded.code,
    });
    let verdict = guarded.lost.map(|message| (ErrorKind::LockLost, message));
    let exit = verdict.is_none().then_some(guarded.code);
    Ok(Answer { verdict, exit, ..Answer::new(document, String::new()) })
}
