//! `pstore lock …`

mod hold;
pub(super) mod told;

use std::{ops::RangeInclusive, time::Duration};

use serde_json::json;
use store::{
    catalog::{controls::Controls, lock::Terms},
    format::pointer::Target,
    id::Nonce,
    name::Lineage,
};

use super::Context;
use crate::{
    answer::Answer,
    args::{AcquireArgs, ActorArgs, HeldArgs, LineageArgs, LockArgs, LockShowArgs, LockVerb},
    failure::Failure,
    plain,
};

/// As the setting has it. A shorter lock is lost to any server or disk that is slow for a moment; one
/// that nobody gives back must end some day.
const TTL: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(86_400);

pub(super) async fn run(context: Context, args: &LockArgs) -> Result<Answer, Failure> {
    match &args.verb {
        LockVerb::Acquire(args) => acquire(context, args).await,
        LockVerb::Renew(args) => renew(context, args).await,
        LockVerb::Release(args) => release(context, args).await,
        LockVerb::Show(args) => show(context, args).await,
        LockVerb::Hold(args) => hold::run(context, args).await,
    }
}

/// The pointer and lock of a lineage that need not exist yet.
async fn controls(context: &Context, args: &LineageArgs, by: &ActorArgs) -> Result<Controls, Failure> {
    let (tenant, lineage) = context.writable_lineage(args).await?;
    Ok(Controls::new(tenant, lineage, context.actor(by)))
}

async fn acquire(context: Context, args: &AcquireArgs) -> Result<Answer, Failure> {
    let controls = controls(&context, &args.lineage, &args.actor).await?;
    let settings = context.settings.tenant(&controls.lineage().name.tenant);
    let ttl = args.ttl.unwrap_or(settings.lock_ttl);
    if !TTL.contains(&ttl) {
        return Err(Failure::usage("--ttl takes from 5 to 86400 seconds").hint("--ttl 300"));
    }
    // This process ends at once; the lock must not end with it.
    let patience = context.patience(&args.lineage.profile, args.wait);
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
        _ => plain::fields(&[("current", pointer.active_sha256_prefix.clone())]),
    });
    Ok(Answer { brief: Some(format!("{token}\n")), ..Answer::new(document, text) })
}

async fn renew(context: Context, args: &HeldArgs) -> Result<Answer, Failure> {
    let (controls, token) = held(&context, args).await?;
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

async fn release(context: Context, args: &HeldArgs) -> Result<Answer, Failure> {
    let (controls, token) = held(&context, args).await?;
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

async fn held(context: &Context, args: &HeldArgs) -> Result<(Controls, Nonce), Failure> {
    let token = context.lock_token(args.token)?.ok_or_else(|| {
        Failure::usage("--token is missing").hint("it is what `pstore lock acquire` has printed")
    })?;
    let (tenant, lineage) = context.lineage_to_change(&args.lineage).await?;
    Ok((Controls::new(tenant, lineage, context.actor(&args.actor)), token))
}

async fn show(context: Context, args: &LockShowArgs) -> Result<Answer, Failure> {
    let (tenant, lineage) = context.lineage_to_judge(&args.lineage).await?;
    let controls = Controls::new(tenant, lineage, Default::default());
    let survey = controls.survey().await?;
    Ok(told::shown(&controls, &survey))
}
