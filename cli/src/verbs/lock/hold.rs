//! `pstore lock hold`

use std::{ffi::OsString, sync::Arc};

use engine::{LOCK_TOKEN, failure::Failure};
use serde_json::json;
use store::{ErrorKind, catalog::lock::Terms};

use super::{controls, told};
use crate::{
    answer::Answer,
    args::HoldArgs,
    verbs::{
        Engine,
        guard::{self, Signals},
    },
};

pub(super) async fn run(engine: Engine, args: &HoldArgs) -> Result<Answer, Failure> {
    let mut signals = Signals::listen();
    let settings = engine.settings.tenant(&args.lineage.profile.tenant);
    let taking = async {
        let controls = controls(&engine, &args.lineage.name(), &args.actor.name()).await?;
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        let patience = engine.patience(&args.lineage.profile, args.wait);
        Ok(controls.acquire(terms, patience).await?)
    };
    let hold = Arc::new(guard::take_lock(&mut signals, &engine.interrupt, taking).await?);
    let environment = [
        (LOCK_TOKEN, OsString::from(hold.token().await.to_string())),
        ("PSTORE_RUN_ID", OsString::from(&hold.controls().actor().run_id)),
    ];
    let keeper = hold.keep(settings.lock_renew);
    let mut command = guard::command(&args.command);
    command.envs(environment);
    let guarded = guard::run(&engine, &mut signals, command, None, Some(&keeper), None).await;
    drop(keeper);
    if let Err(error) = hold.release().await {
        engine.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
    let guarded = guarded?;
    let mut document = told::names(hold.controls().lineage());
    document["outcome"] = json!(if guarded.lost.is_some() { "lock_lost" } else { "ended" });
    document["command_exit_code"] = json!(guarded.code);
    let verdict = guarded.lost.map(|message| (ErrorKind::LockLost, message));
    let exit = verdict.is_none().then_some(guarded.code);
    Ok(Answer { verdict, exit, ..Answer::new(document, String::new()) })
}
