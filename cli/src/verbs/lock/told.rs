//! A lock, told.

use std::time::Duration;

use engine::text::{escape, size, time};
use serde_json::{Value, json};
use store::{
    catalog::{lineage_handle::LineageHandle, lock::LockAndPointer},
    format::lock::Lock,
    name::Lineage,
};

use crate::answer::Answer;

pub(super) fn names(lineage: &Lineage) -> Value {
    json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
    })
}

/// The contract's fields of a lock.
pub(super) fn document(lineage: &Lineage, lock: &Lock) -> Value {
    let mut document = names(lineage);
    let fields = json!({
        "holder_run_id": lock.holder_run_id,
        "holder_host": lock.holder_host,
        "holder_host_run_id": lock.holder_host_run_id,
        "acquired_at_ms": lock.acquired_at_ms,
        "renewed_at_ms": lock.renewed_at_ms,
        "expires_at_ms": lock.expires_at_ms,
        "renewal_count": lock.renewal_count,
    });
    if let (Value::Object(document), Value::Object(fields)) = (&mut document, fields) {
        document.extend(fields);
    }
    document
}

pub(super) fn text(lineage: &Lineage, lock: &Lock, remaining: Duration) -> String {
    let holder = [&lock.holder_run_id, &lock.holder_host, &lock.holder_host_run_id];
    let holder: Vec<&str> = holder.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let renewals = size::plural(lock.renewal_count, "time", "times");
    let lines = [
        ("profile", lineage.to_string()),
        ("holder", holder.join(", ")),
        ("acquired", format!("{} UTC", time::utc(lock.acquired_at_ms))),
        ("renewed", format!("{renewals}, last {} UTC", time::utc(lock.renewed_at_ms))),
        ("expires", format!("in {} s unless renewed", remaining.as_secs())),
    ];
    escape::fields(&lines)
}

/// What `lock show` says.
pub(super) fn shown(controls: &LineageHandle, survey: &LockAndPointer) -> Answer {
    let lineage = controls.lineage();
    let Some(read) = survey.lock.as_ref().filter(|read| !read.lock.is_free()) else {
        let mut document = names(lineage);
        document["state"] = json!("free");
        return Answer::new(document, format!("nobody holds the lock of {lineage}\n"));
    };
    let state = if controls.is_live(read) { "held" } else { "expired" };
    let mut document = document(lineage, &read.lock);
    document["state"] = json!(state);
    document["remaining_ms"] = json!(read.remaining().as_millis() as u64);
    document["pstore"] = json!(read.lock.block().is_some());
    let claim = survey.pointer.as_ref().and_then(|read| read.pointer.block()?.lease.as_ref());
    let claimed = read.lock.block().zip(claim).is_some_and(|(block, claim)| block.nonce == claim.nonce);
    document["claimed"] = json!(claimed);
    let mut text = text(lineage, &read.lock, read.remaining());
    if controls.is_orphan(read) {
        text.push_str("state     the process that held it is dead; whoever comes next takes it\n");
    } else if let Some(ago) = read.expired_for() {
        text.push_str(&format!("state     expired {} s ago; whoever comes next takes it\n", ago.as_secs()));
    }
    if read.lock.block().is_none() {
        text.push_str("by        a program other than pstore\n");
    } else if !claimed {
        text.push_str("claim     none: this holder cannot move the pointer\n");
    }
    Answer::new(document, text)
}
