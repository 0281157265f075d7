//! `assembly` builds a mount: its snapshot, the root or pin that keeps it, and its session.

use std::sync::Arc;

use capture::{
    chrome::{profile, startup},
    marker,
};
use fuse::mount::{
    Mount, Opening, ProfileAccess, Snapshot, Start,
    info::{self, Info, Mode},
};
use store::{
    Error,
    catalog::{clock, lock::Hold, session_root::Roots},
    content::{TenantStore, chunk_fetcher::Limits},
    format::record,
    id::RecordId,
    name::{ChromeMajor, Lineage},
};

use super::{live::absolute, request::MountRequest};
use crate::{Engine, failure::Failure};

/// Gives back what a mount that did not come about has taken. What a session builds on that was
/// to be continued stays rooted.
pub(super) async fn give_back(hold: &Hold, roots: Option<&Roots>, built_on: Option<RecordId>) {
    if let Err(error) = hold.release().await {
        tracing::warn!(%error, "the lock could not be given back; it expires by itself");
    }
    if let Some(roots) = roots {
        roots.keep_only(built_on).await;
    }
}

/// Makes sure that what the session builds on stays until it is decided about.
pub(super) async fn root(roots: Option<&Roots>, snapshot: Option<&Snapshot>) -> Result<(), Failure> {
    if let (Some(roots), Some(snapshot)) = (roots, snapshot) {
        roots.ensure(&snapshot.lineage, snapshot.opened.record.record).await?;
    }
    Ok(())
}

/// The session releases snapshots that it no longer builds on.
pub(super) async fn settle_roots(mount: &Mount, roots: Option<&Roots>) {
    if let (Some(roots), true) = (roots, mount.is_resumed())
        && let Err(error) = roots.adopt().await
    {
        tracing::warn!(%error, "what earlier processes have rooted for the session is not known");
    }
    mount.keep_roots().await;
}

pub(super) fn opening(
    tenant: TenantStore,
    lineage: Lineage,
    access: ProfileAccess,
    roots: Option<Arc<Roots>>,
    snapshot: Option<Snapshot>,
    info: Info,
    limits: Limits,
) -> Opening {
    let exclusions = exclusions(&lineage);
    Opening {
        tenant: Some(tenant),
        lineage,
        access,
        roots,
        snapshot,
        info,
        exclusions,
        runtime: tokio::runtime::Handle::current(),
        limits,
        guess: Some(startup::guess),
    }
}

/// The files that are never stored. No browser runs in a workspace, so it has none of those of a browser.
pub(super) fn exclusions(lineage: &Lineage) -> Vec<String> {
    let of_browser = match lineage.chrome_major == ChromeMajor::WORKSPACE {
        true => &[][..],
        false => &profile::EXCLUSIONS,
    };
    of_browser.iter().copied().chain([marker::NAME]).map(str::to_owned).collect()
}

pub(super) fn new_session(engine: &Engine, id: String) -> Result<Start, Failure> {
    Ok(Start::New { sessions: engine.settings.sessions()?, id })
}

pub(super) fn new_id() -> String {
    clock::new_record_id().to_string()
}

pub(super) fn info(
    engine: &Engine,
    args: &MountRequest,
    lineage: &Lineage,
    mode: Mode,
    snapshot: Option<&Snapshot>,
    fallback: Option<String>,
    run_id: String,
) -> Info {
    let (endpoint, region) = engine.settings.server();
    let record = snapshot.map(|snapshot| &snapshot.opened.record);
    Info {
        v: info::VERSION,
        store: engine.location.shown(),
        endpoint,
        region,
        profile: lineage.name.to_string(),
        chrome_major: lineage.chrome_major.into(),
        mode,
        mountpoint: absolute(&args.mountpoint),
        pid: std::process::id(),
        boot_id: info::boot_id().unwrap_or_default(),
        started_at_ms: clock::unix_ms(),
        record: record.map(|record| record.record),
        sha256_prefix: record.map(record::Record::sha256_prefix),
        fallback,
        run_id,
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::from(Error::Internal { what: error.to_string() })))
}
