//! `store_state` stores a gathered state as the next snapshot of a project, and removes what it supersedes.

use std::path::Path;

use engine::{Engine, failure::Failure, threads};
use store::{
    ErrorKind,
    catalog::lock::Hold,
    content::TenantStore,
    format::{
        WRITER,
        record::{CapturedBy, CapturedIn, Mode, Record},
    },
    id::RecordId,
    ops::{
        read::resolve,
        write::snapshot::{self, About, LockUse, Report},
    },
};

use super::metadata::Metadata;

/// How much of the tenant's indexes a save looks at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;

/// Stores `workspace` and moves the pointer to it, by one compare-and-swap.
#[crate::boxed]
pub async fn store(
    engine: &Engine,
    tenant: &TenantStore,
    hold: &Hold,
    workspace: &Path,
    metadata: &Metadata,
) -> Result<Report, Failure> {
    let (handle, settings) = (hold.handle(), engine.settings.tenant(&hold.handle().lineage().name.tenant));
    let actor = handle.actor().clone();
    let about = About {
        captured_by: CapturedBy {
            host: actor.host.clone(),
            host_run_id: actor.host_run_id.clone(),
            writer_version: WRITER.to_owned(),
            unknown: Default::default(),
        },
        captured_in: Some(CapturedIn {
            host_region: engine.settings.host_region().unwrap_or_default(),
            egress_ip_geo: engine.settings.egress_geo(),
            unknown: Default::default(),
        }),
        mode: Mode::Hot,
        reason: metadata.reason.of_record(),
        labels: metadata.labels.clone(),
        notes: String::new(),
        chrome_last_version: None,
        exit_type: None,
        chrome_uptime_seconds: 0,
        fallback: None,
        transforms: Vec::new(),
        exclusions: Vec::new(),
        in_progress: None,
    };
    let request = snapshot::Request {
        lineage: handle.lineage().clone(),
        directory: workspace.to_owned(),
        max_bytes: None,
        quota_bytes: settings.quota_bytes,
        rescan: true,
        second_look: None,
        index_budget: INDEX_BUDGET_BYTES,
        threads: threads(),
        actor,
        lock: LockUse::Held(hold.token().await),
        made_of: None,
        examiner: None,
        hold_back: None,
        archive: None,
        guess: None,
        on_change: snapshot::OnChange::Refuse,
        about,
    };
    Ok(snapshot::snapshot(tenant, &request, engine.progress(), engine.interrupt.raised()).await?)
}

/// Removes all states but `kept`, which is durable and current. What is tagged stays; what cannot be removed now is
/// tried again at the next save. The prefixes of those that went, and what has failed.
#[crate::boxed]
pub async fn prune(tenant: &TenantStore, hold: &Hold, kept: RecordId) -> (Vec<String>, Vec<String>) {
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    let handle = hold.handle();
    let listing = match resolve::list(tenant, handle.lineage()).await {
        Ok(listing) => listing,
        Err(error) => return (removed, vec![format!("older states could not be looked at: {error}")]),
    };
    if listing.latest != Some(kept) {
        return (removed, failed);
    }
    let untagged = |record: &Record| record.tags.is_empty();
    for record in listing.records.iter().filter(|record| record.record != kept && untagged(record)) {
        let prefix = record.sha256_prefix();
        match handle.delete_while(record.record, "superseded: keep = \"one\"", untagged).await {
            Ok(_) => removed.push(prefix),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => failed.push(format!(
                "the older state {prefix} could not be removed ({error}); the next save tries again"
            )),
        }
    }
    (removed, failed)
}
