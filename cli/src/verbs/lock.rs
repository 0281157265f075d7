//! `pstore lock …`

mod hold;
pub(super) mod told;

use std::{ops::RangeInclusive, time::Duration};

use engine::{
    failure::Failure,
    names::{ActorName, LineageName},
    text::escape,
};
use serde_json::json;
use store::{
    catalog::{lineage_handle::LineageHandle, lock::Terms},
    format::pointer::Target,
    id::Nonce,
    name::Lineage,
};

use super::Engine;
use crate::{
    answer::Answer,
    args::{AcquireArgs, HeldArgs, LockArgs, LockShowArgs, LockVerb},
};

/// As the setting has it. A shorter lock is lost to any server or disk that is slow for a moment; one
/// that nobody gives back must end some day.
const TTL: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(86_400);

pub(super) async fn run(engine: Engine, args: &LockArgs) -> Result<Answer, Failure> {
    match &args.verb {
        LockVerb::Acquire(args) => acquire(engine, args).await,
        LockVerb::Renew(args) => renew(engine, args).await,
        LockVerb::Release(args) => release(engine, args).await,
        LockVerb::Show(args) => show(engine, args).await,
        LockVerb::Hold(args) => hold::run(engine, args).await,
    }
}

/// The pointer and lock of a lineage that need not exist yet.
async fn controls(engine: &Engine, args: &LineageName, by: &ActorName) -> Result<LineageHandle, Failure> {
    let (tenant, lineage) = engine.writable_lineage(args).await?;
    Ok(LineageHandle::new(tenant, lineage, engine.actor(by)))
}

async fn acquire(engine: Engine, args: &AcquireArgs) -> Result<Answer, Failure> {
    let controls = controls(&engine, &args.lineage.name(), &args.actor.name()).await?;
    let settings = engine.settings.tenant(&controls.lineage().name.tenant);
    let ttl = args.ttl.unwrap_or(settings.lock_ttl);
    if !TTL.contains(&ttl) {
        return Err(Failure::usage("--ttl takes from 5 to 86400 seconds").hint("--ttl 300"));
    }
    // This process ends at once; the lock must not end with it.
    let patience = engine.patience(&args.lineage.profile, args.wait);
    let hold = controls.acquire(Terms { ttl, with_process: false }, patience).await?;
    let (token, lock, pointer) = (hold.token().await, hold.lock().await, hold.pointer().await);
    let mut document = told::document(controls.lineage(), &lock);
    let fields = document.as_object_mut().expect("an object");
    fields.insert("outcome".to_owned(), json!(hold.outcome().as_str()));
    fields.insert("token".to_owned(), json!(token));
    fields.insert("active_sha256_prefix".to_owned(), json!(pointer.active_sha256_prefix));
    let mut text = told::text(controls.lineage(), &lock, ttl);
    text.push_str(&format!("token     {token}\n"));
    text.push_str(&match pointer.target() {
        Target::Nothing => "current   none yet\n".to_owned(),
        _ => escape::fields(&[("current", pointer.active_sha256_prefix.clone())]),
    });
    Ok(Answer { brief: Some(format!("{token}\n")), ..Answer::new(document, text) })
}

async fn renew(engine: Engine, args: &HeldArgs) -> Result<Answer, Failure> {
    let (controls, token) = held(&engine, args).await?;
    let hold = controls.adopt(token).await?;
    let lock = hold.renew().await?;
    let token = hold.token().await;
    let mut document = told::document(controls.lineage(), &lock);
    let fields = document.as_object_mut().expect("an object");
    fields.insert("outcome".to_owned(), json!("renewed"));
    fields.insert("token".to_owned(), json!(token));
    let mut text = told::text(controls.lineage(), &lock, lock.ttl());
    text.push_str(&format!("token     {token}\n"));
    Ok(Answer { brief: Some(format!("{token}\n")), ..Answer::new(document, text) })
}

async fn release(engine: Engine, args: &HeldArgs) -> Result<Answer, Failure> {
    let (controls, token) = held(&engine, args).await?;
    let lineage = controls.lineage().clone();
    let released = match controls.lock().await? {
        Some(read) => controls.release(token, read).await?,
        None => false,
    };
    if released {
        return Ok(Answer::new(outcome(&lineage, "released"), format!("the lock of {lineage} is free\n")));
    }
    let text = format!("the lock of {lineage} was not held with this token any more\n");
    Ok(Answer::new(outcome(&lineage, "not_held"), text))
}

fn outcome(lineage: &Lineage, word: &str) -> serde_json::Value {
    let mut document = told::names(lineage);
    document["outcome"] = json!(word);
    document
}

async fn held(engine: &Engine, args: &HeldArgs) -> Result<(LineageHandle, Nonce), Failure> {
    let token = engine.lock_token(args.token)?.ok_or_else(|| {
        Failure::usage("--token is missing").hint("it is what `pstore lock acquire` has printed")
    })?;
    let (tenant, lineage) = engine.lineage_to_change(&args.lineage.name()).await?;
    Ok((LineageHandle::new(tenant, lineage, engine.actor(&args.actor.name())), token))
}

async fn show(engine: Engine, args: &LockShowArgs) -> Result<Answer, Failure> {
    let (tenant, lineage) = engine.lineage_to_judge(&args.lineage.name()).await?;
    let controls = LineageHandle::new(tenant, lineage, Default::default());
    let survey = controls.survey().await?;
    Ok(told::shown(&controls, &survey))
}
