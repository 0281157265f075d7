//! `lock` turns the arguments of `pstore lock` into a request, and its outcome into text.

mod hold;

use std::time::Duration;

use engine::{
    Engine,
    failure::Failure,
    text::{escape, size, time},
    verbs::lock::{AcquireLockRequest, HeldLockRequest, LockFields, Release, ShowLockOutcome, TakenLock},
};

use crate::{
    answer::Answer,
    args::{AcquireArgs, HeldArgs, LockArgs, LockShowArgs, LockVerb},
};

pub(super) async fn run(engine: Engine, args: &LockArgs) -> Result<Answer, Failure> {
    match &args.verb {
        LockVerb::Acquire(args) => acquire(engine, args).await,
        LockVerb::Renew(args) => renew(engine, args).await,
        LockVerb::Release(args) => release(engine, args).await,
        LockVerb::Show(args) => show(engine, args).await,
        LockVerb::Hold(args) => hold::run(engine, args).await,
    }
}

impl HeldArgs {
    fn request(&self) -> HeldLockRequest {
        HeldLockRequest { lineage: self.lineage.name(), actor: self.actor.name(), token: self.token }
    }
}

async fn acquire(engine: Engine, args: &AcquireArgs) -> Result<Answer, Failure> {
    let request = AcquireLockRequest {
        lineage: args.lineage.name(),
        actor: args.actor.name(),
        wait: args.wait,
        ttl: args.ttl,
    };
    let outcome = engine.acquire_lock(&request).await?;
    let token = outcome.token;
    let mut text = fields(&outcome.lock, outcome.ttl);
    text.push_str(&format!("token     {token}\n"));
    text.push_str(&match outcome.has_current {
        false => "current   none yet\n".to_owned(),
        true => escape::fields(&[("current", outcome.active_sha256_prefix.clone())]),
    });
    Ok(Answer { brief: Some(format!("{token}\n")), ..Answer::of(&outcome, text)? })
}

async fn renew(engine: Engine, args: &HeldArgs) -> Result<Answer, Failure> {
    let outcome = engine.renew_lock(&args.request()).await?;
    let token = outcome.token;
    let mut text = fields(&outcome.lock, outcome.ttl);
    text.push_str(&format!("token     {token}\n"));
    Ok(Answer { brief: Some(format!("{token}\n")), ..Answer::of(&outcome, text)? })
}

async fn release(engine: Engine, args: &HeldArgs) -> Result<Answer, Failure> {
    let outcome = engine.release_lock(&args.request()).await?;
    let lineage = outcome.lineage.lineage();
    let text = match outcome.outcome {
        Release::Released => format!("the lock of {lineage} is free\n"),
        Release::NotHeld => format!("the lock of {lineage} was not held with this token any more\n"),
    };
    Answer::of(&outcome, text)
}

async fn show(engine: Engine, args: &LockShowArgs) -> Result<Answer, Failure> {
    let outcome = engine.show_lock(&args.lineage.name()).await?;
    let text = match &outcome {
        ShowLockOutcome::Free { lineage, .. } => {
            format!("nobody holds the lock of {}\n", lineage.lineage())
        }
        ShowLockOutcome::Taken(taken) => shown(taken),
    };
    Answer::of(&outcome, text)
}

fn fields(lock: &LockFields, remaining: Duration) -> String {
    let holder = [&lock.holder_run_id, &lock.holder_host, &lock.holder_host_run_id];
    let holder: Vec<&str> = holder.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let renewals = size::plural(lock.renewal_count, "time", "times");
    let lines = [
        ("profile", lock.lineage.lineage().to_string()),
        ("holder", holder.join(", ")),
        ("acquired", format!("{} UTC", time::utc(lock.acquired_at_ms))),
        ("renewed", format!("{renewals}, last {} UTC", time::utc(lock.renewed_at_ms))),
        ("expires", format!("in {} s unless renewed", remaining.as_secs())),
    ];
    escape::fields(&lines)
}

fn shown(taken: &TakenLock) -> String {
    let mut text = fields(&taken.lock, Duration::from_millis(taken.remaining_ms));
    if taken.is_orphan {
        text.push_str("state     the process that held it is dead; the next command takes it\n");
    } else if let Some(ago) = taken.expired_for {
        text.push_str(&format!("state     expired {} s ago; the next command takes it\n", ago.as_secs()));
    }
    if !taken.pstore {
        text.push_str("by        a program other than pstore\n");
    } else if !taken.claimed {
        text.push_str("claim     none: this holder cannot move the pointer\n");
    }
    text
}
