//! `store_checks` looks at the store: whether it answers, keeps its promises, and tells the time.

use std::time::{Duration, SystemTime};

use store::{
    Error, ErrorKind,
    bucket::{Bucket, BucketError, Key, Prefix, StoreUrl, Write},
    catalog::store::Store,
    format::layout,
    id,
    name::Tenant,
};

use super::{Check, host_checks};
use crate::{Engine, failure::Failure, text::time};

/// A whole second is what servers tell the time to.
const SKEW_ALLOWED: Duration = Duration::from_secs(5);
/// A diagnosis need not wait for a server to come back.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn checks(engine: &Engine, tenant: Option<&Tenant>) -> Vec<Check> {
    if engine.location.is_missing() {
        let found = format!("there is no store at {} yet", engine.location.shown());
        return vec![Check::warn("store", found, "`pstore init` or the first snapshot makes it")];
    }
    let location = engine.location.clone().with_patience(PATIENCE);
    let store = match location.store_to_make(engine.cache_root.clone()).await {
        Ok(store) => store,
        Err(failure) => return vec![Check::fail("store", failure)],
    };
    let mut checks = Vec::new();
    let below = tenant.map_or_else(Prefix::root, layout::content);
    let Some(reach) = reached(&store, tenant, &mut checks).await else { return checks };
    if let Some(server) = location.exposed_to() {
        let found = format!("requests to {server} are not encrypted");
        checks.push(Check::warn(
            "transport",
            found,
            "use https://: anybody on the way can read what is stored",
        ));
    }
    match reach {
        Reach::Whole => {
            checks.push(conditions(&store, &below).await);
            checks.push(clock(&**store.bucket(), &below).await);
        }
        Reach::Limited => checks.push(Check::warn(
            "conditions",
            "not tried: nothing may be written at the top of the store",
            "name the tenant that this credential is for: `pstore doctor TENANT`",
        )),
    }
    match &location.url {
        StoreUrl::Directory(root) => {
            checks.push(host_checks::space("disk", root));
            checks.extend(host_checks::openness(root));
        }
        StoreUrl::S3 { .. } => checks.extend(settings(engine).await),
    }
    checks
}

/// How far a credential reaches.
enum Reach {
    /// Everything that is to be tried.
    Whole,
    /// Some tenant that nobody has named.
    Limited,
}

/// `None` if the store gave no answer that counts.
async fn reached(store: &Store, tenant: Option<&Tenant>, checks: &mut Vec<Check>) -> Option<Reach> {
    if let Some(tenant) = tenant {
        let found = match store.tenant(tenant).await {
            Ok(_) => Ok(Check::ok("store", format!("tenant {tenant} can be read"))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let advice = format!("the first `pstore snapshot DIR {tenant}/PROFILE` makes it");
                Ok(Check::warn("store", format!("it answers, but has no tenant {tenant} yet"), advice))
            }
            Err(error) => Err(refused(error)),
        };
        let reach = found.is_ok().then_some(Reach::Whole);
        checks.push(found.unwrap_or_else(|check| check));
        return reach;
    }
    match store.config().await {
        Ok(Some(config)) => {
            let made = time::utc(config.created_at_ms);
            let found = format!("store {} of {made} UTC, made by {}", config.store_id, config.writer);
            checks.push(Check::ok("store", found));
        }
        Ok(None) => {
            let advice = "`pstore init` or the first snapshot makes it";
            checks.push(Check::warn("store", "it answers, but holds no store yet", advice));
        }
        Err(Error::Bucket(BucketError::Denied { reason, .. })) if reason.contains(LIMITED) => {
            let advice = "fine for a credential that is limited to one tenant; else allow more in its policy";
            checks.push(Check::warn("store", format!("pstore.json may not be read: {reason}"), advice));
            return Some(Reach::Limited);
        }
        Err(error) => {
            checks.push(refused(error));
            return None;
        }
    }
    Some(Reach::Whole)
}

/// The answer of a server to a known credential that may not do this.
const LIMITED: &str = "AccessDenied";

/// A credential that the server does not accept is good for no tenant.
fn refused(error: Error) -> Check {
    let told = error.to_string();
    let check = Check::fail("store", error.into());
    let advice = [
        ("SignatureDoesNotMatch", "the secret does not fit the key: check AWS_SECRET_ACCESS_KEY"),
        ("InvalidAccessKeyId", "the server does not know this key: check AWS_ACCESS_KEY_ID and --endpoint"),
        ("RequestTimeTooSkewed", "set this host's clock by NTP: it is more than 15 minutes off"),
        ("ExpiredToken", "the session has ended: get new credentials"),
        ("InvalidToken", "check AWS_SESSION_TOKEN, or leave it out"),
    ];
    match advice.into_iter().find(|(code, _)| told.contains(code)) {
        Some((_, advice)) => check.advise(advice),
        None => check,
    }
}

async fn conditions(store: &Store, below: &Prefix) -> Check {
    let name = "conditions";
    match store.probe(below).await {
        Ok(verdict) if verdict.ok => {
            let deletes = if verdict.conditional_delete { "held too" } else { "not offered" };
            let server = verdict.server.map(|server| format!(" by {server}")).unwrap_or_default();
            Check::ok(
                name,
                format!("held{server} in {} races; conditional deletes {deletes}", verdict.rounds),
            )
        }
        Ok(verdict) => {
            let failure = Failure::new(ErrorKind::StoreRefused, verdict.reasons.join("; "));
            Check::fail(name, failure).advise("this server would lose snapshots; use another")
        }
        Err(error) => Check::fail(name, error.into()),
    }
}

const TICK: &[u8] = b"tick";

/// Compares the clocks by an object that is written for it.
async fn clock(bucket: &dyn Bucket, below: &Prefix) -> Check {
    let name = "clock";
    let random = u64::from_le_bytes(id::random());
    let key = match Key::new(format!("{below}probe/clock-{random:016x}")) {
        Ok(key) => key,
        Err(error) => return Check::fail(name, Error::from(error).into()),
    };
    if let Err(error) = bucket.put(&key, TICK.to_vec().into(), Write::Create).await {
        return Check::fail(name, error.into());
    }
    let before = SystemTime::now();
    let read = bucket.get(&key, TICK.len() as u64).await;
    let after = SystemTime::now();
    let _ = bucket.delete(&key).await;
    match read {
        Ok(object) => judge(name, object.stamp.now, before, after),
        Err(error) => Check::fail(name, error.into()),
    }
}

/// The store told the time somewhere between `before` and `after`.
fn judge(name: &'static str, told: SystemTime, before: SystemTime, after: SystemTime) -> Check {
    let (skew, direction) = match (before.duration_since(told), told.duration_since(after)) {
        (Ok(behind), _) => (behind, "behind"),
        (_, Ok(ahead)) => (ahead, "ahead of"),
        _ => (Duration::ZERO, "with"),
    };
    if skew <= SKEW_ALLOWED {
        return Check::ok(name, "this host and the store agree on the time");
    }
    let found = format!("the store's clock is {} s {direction} this host's", skew.as_secs());
    Check::warn(name, found, "set this host's clock by NTP; S3 refuses requests 15 minutes off")
}

async fn settings(engine: &Engine) -> Vec<Check> {
    let name = "bucket";
    let Some(bucket) = engine.location.s3().await else { return Vec::new() };
    let settings = match bucket.settings().await {
        Ok(settings) => settings,
        Err(error) => {
            let advice = "allow s3:GetBucketVersioning to have it checked";
            return vec![Check::warn(name, format!("whether it is versioned is not known: {error}"), advice)];
        }
    };
    let mut checks = Vec::new();
    if settings.versioned {
        let advice = "let a lifecycle rule expire noncurrent versions, or suspend versioning";
        checks.push(Check::warn(name, "it is versioned: what is deleted stays, and is paid for", advice));
    }
    if settings.object_lock {
        let advice = "use a bucket without object lock, or expect deletions to take effect late";
        checks.push(Check::warn(name, "it has object lock: deletions may be refused", advice));
    }
    if checks.is_empty() {
        checks.push(Check::ok(name, "neither versioned nor locked"));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::CheckStatus;

    #[test]
    fn only_a_skew_that_matters_is_warned_of() {
        let now = SystemTime::now();
        let later = now + Duration::from_millis(30);
        assert_eq!(judge("clock", now - Duration::from_secs(1), now, later).status, CheckStatus::Ok);
        let check = judge("clock", now - Duration::from_secs(90), now, later);
        assert_eq!((check.status, check.found.contains("90 s behind")), (CheckStatus::Warn, true));
        let check = judge("clock", later + Duration::from_secs(60), now, later);
        assert!(check.found.contains("60 s ahead of"), "{}", check.found);
    }
}
