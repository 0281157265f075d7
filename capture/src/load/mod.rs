//! `load` loads a profile: a whole one, or a fresh one with the reason why.
//!
//! If anything is wrong with a snapshot, the load uses no part of it, and the browser can start on an empty
//! directory. If the store does not answer, the load knows nothing: it loads nothing and returns the error.

mod inspector;
mod judgement;
mod leftovers;
mod outcome;
mod suitability;
pub mod torn_logs;
mod unexamined;
mod upgrade;

pub use inspector::keep_session_cookies;
pub use judgement::judge;
pub use leftovers::{WithoutLeftovers, remove as remove_leftovers};
pub use outcome::Outcome;
pub use suitability::{damaged, made_plain, whole};
pub use unexamined::{examined, is_unexamined};
pub use upgrade::{Older, Upgrade, is_upgrade, not_older, older};

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use store::{
    Error, ErrorKind, Result,
    catalog::records,
    content::TenantStore,
    format::record::Record,
    name::{ChromeMajor, Lineage, ProfileName},
    ops::{
        archive::import_foreign::Adoption,
        point_of_no_return::PointOfNoReturn,
        read::{
            profiles,
            resolve::{self, Reference},
            restore,
        },
    },
    progress::Progress,
    tree::write::Keeping,
};

use crate::{examination::Isolation, marker::Marker, sqlite::Depth};
use inspector::LoadInspector;

/// The snapshot to load, and its Chrome.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    pub profile: ProfileName,
    /// The Chrome that will use it.
    pub chrome_major: ChromeMajor,
    /// As `131.0.6778.85`: a snapshot of a newer one is refused.
    pub chrome_version: Option<String>,
    /// The snapshot to load; `None` for the current one.
    pub reference: Option<Reference>,
    /// The start of a Chrome that has no snapshot yet, where an older one has.
    pub upgrade: Upgrade,
    pub target: PathBuf,
    pub force: bool,
    pub keeping: Keeping,
    pub threads: usize,
    pub point_of_no_return: PointOfNoReturn,
    pub policy: Policy,
    /// Where this host is, for a warning.
    pub host_region: Option<String>,
    pub now_ms: u64,
    /// Change the profile so that the browser does not offer to restore pages.
    pub normalise_exit: bool,
    /// Make session cookies outlive the browser's next start.
    pub keep_session_cookies: bool,
    /// The terms on which an archive that another program has made the current one is taken in;
    /// without them it is an error.
    pub adoption: Option<Adoption>,
}

impl LoadRequest {
    /// Whether there must be a snapshot.
    fn names_one(&self) -> bool {
        self.reference.is_some() || matches!(self.upgrade, Upgrade::From(_))
    }
}

/// The rules of a tenant for loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub allow_hot: bool,
    pub max_bytes: u64,
    /// `None`: databases are not checked.
    pub depth: Option<Depth>,
    /// Where databases are read.
    pub isolation: Isolation,
    /// Fail rather than start with an empty profile.
    pub require: bool,
}

/// The result of a load.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub outcome: Outcome,
    /// Of a fresh profile: why.
    pub reason: Option<String>,
    /// The snapshot that was, or should have been, loaded.
    pub record: Option<Record>,
    pub report: Option<restore::Report>,
    pub transforms: Vec<String>,
    pub warnings: Vec<String>,
}

/// Whether a snapshot is for this Chrome and this tenant, by its record. With messages
/// for a person.
pub fn suitable(record: &Record, request: &LoadRequest) -> Result<Vec<String>> {
    suitability::check(record, request)?;
    Ok(suitability::warnings(record, request))
}

/// Loads the profile into `request.target`. `store` is `None` if there is no such tenant.
pub async fn load(
    store: Option<&TenantStore>,
    request: &LoadRequest,
    progress: Arc<dyn Progress>,
) -> Result<Loaded> {
    let loaded = match attempt(store, request, progress).await {
        Attempt::Done(loaded) => return Ok(*loaded),
        Attempt::Failed(error, record) => fresh(error, record, request)?,
    };
    let outcome = loaded.outcome;
    let fallback = outcome.is_fallback().then(|| outcome.as_str().to_owned());
    if fallback.is_some() {
        // The caller is told, and tells; this is for the log.
        let reason = loaded.reason.as_deref().unwrap_or_default();
        tracing::info!(profile = %request.profile, outcome = outcome.as_str(), reason, "starting afresh");
    }
    let marker = Marker { fallback, transforms: Vec::new() };
    restore::empty(&restore_request(request, Some(Arc::new(inspector::Marking(marker)))))?;
    Ok(loaded)
}

/// An empty profile in place of one that cannot be loaded; or the reason, if there may be none.
fn fresh(error: Error, record: Option<Box<Record>>, request: &LoadRequest) -> Result<Loaded> {
    let outcome = match Outcome::of(&error) {
        // Who names a snapshot, or whose it is, wants that one, and no empty profile in its place.
        Some(Outcome::NoPriorState) if request.names_one() => return Err(error),
        Some(outcome) if !request.policy.require || outcome == Outcome::NoPriorState => outcome,
        _ => return Err(error),
    };
    Ok(Loaded {
        outcome,
        reason: Some(error.to_string()),
        record: record.map(|record| *record),
        report: None,
        transforms: Vec::new(),
        warnings: Vec::new(),
    })
}

/// Makes an empty profile at `target` for a caller that could not ask the store: a capture of it
/// replaces no snapshot by itself.
pub fn afresh(target: &Path, point_of_no_return: PointOfNoReturn) -> Result<()> {
    let marker =
        Marker { fallback: Some(Outcome::FreshFallback.as_str().to_owned()), transforms: Vec::new() };
    restore::empty(&restore::Request {
        paths: Vec::new(),
        target: target.to_owned(),
        force: false,
        keeping: Keeping::default(),
        threads: 1,
        inspector: Some(Arc::new(inspector::Marking(marker))),
        point_of_no_return,
    })
}

enum Attempt {
    Done(Box<Loaded>),
    Failed(Error, Option<Box<Record>>),
}

async fn attempt(store: Option<&TenantStore>, request: &LoadRequest, progress: Arc<dyn Progress>) -> Attempt {
    let Some(store) = store else { return Attempt::Failed(no_profile(request), None) };
    let (record, older) = match choose(store, request, Arc::clone(&progress)).await {
        Ok(chosen) => chosen,
        Err(error) => return Attempt::Failed(error, None),
    };
    if let Err(error) = suitability::check(&record, request) {
        return Attempt::Failed(error, Some(Box::new(record)));
    }
    let inspector = Arc::new(LoadInspector::new(request, &record, older.as_ref().map(Older::transform)));
    let restored =
        restore::restore(store, &record, &restore_request(request, Some(inspector.clone())), progress).await;
    let report = match restored {
        Ok(report) => report,
        Err(error) => return Attempt::Failed(error, Some(Box::new(record))),
    };
    let mut warnings: Vec<String> = older.iter().map(Older::told).collect();
    warnings.extend(suitability::warnings(&record, request));
    warnings.extend(made_plain(&report));
    warnings.extend(inspector.warnings());
    Attempt::Done(Box::new(Loaded {
        outcome: Outcome::Success,
        reason: None,
        record: Some(record),
        report: Some(report),
        transforms: inspector.transforms(),
        warnings,
    }))
}

fn no_profile(request: &LoadRequest) -> Error {
    Error::NotFound { what: format!("profile {}", request.profile) }
}

/// The snapshot that is meant, and its Chrome's version if that is older. One of another Chrome is
/// told apart from none at all.
async fn choose(
    store: &TenantStore,
    request: &LoadRequest,
    progress: Arc<dyn Progress>,
) -> Result<(Record, Option<Older>)> {
    let lineage = Lineage { name: request.profile.clone(), chrome_major: request.chrome_major };
    let mut chosen = resolve::snapshot(store, &lineage, request.reference.as_ref()).await;
    if let (Err(Error::Foreign { .. }), Some(adoption)) = (&chosen, &request.adoption) {
        Box::pin(adoption.adopt(store, &lineage, progress)).await?;
        chosen = resolve::snapshot(store, &lineage, request.reference.as_ref()).await;
    }
    let error = match chosen {
        Err(error) if error.kind() == ErrorKind::NotFound => error,
        chosen => return Ok((chosen?, None)),
    };
    match older(store, &lineage, request.upgrade, request.reference.as_ref()).await? {
        Some(older) => Ok((older.record.clone(), Some(older))),
        None if request.reference.is_none() => Err(nothing_to_load(store, &lineage).await?),
        None => Err(error),
    }
}

/// Why there is nothing to load: there is no profile, or only one of another Chrome.
pub async fn nothing_to_load(store: &TenantStore, lineage: &Lineage) -> Result<Error> {
    let Lineage { name, chrome_major } = lineage;
    let (all, is_deleted) = records::lineages_or_tombstone(&*store.bucket, name).await?;
    if is_deleted {
        profiles::require_undeleted(store, name).await?;
    }
    let others: Vec<ChromeMajor> =
        all.iter().map(|lineage| lineage.chrome_major).filter(|major| major != chrome_major).collect();
    if others.is_empty() {
        return Ok(Error::NotFound { what: format!("a current snapshot of {lineage}") });
    }
    let named = others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let way = others.iter().rev().find(|major| *major < chrome_major).map_or_else(String::new, |older| {
        format!("; --upgrade-from {older} starts from those of Chrome {older}")
    });
    let reason = format!("{name} has snapshots of Chrome {named}, and none of Chrome {chrome_major}{way}");
    Ok(Error::VersionMismatch { reason })
}

fn restore_request(
    request: &LoadRequest,
    inspector: Option<Arc<dyn restore::Inspector>>,
) -> restore::Request {
    restore::Request {
        paths: Vec::new(),
        target: request.target.clone(),
        force: request.force,
        keeping: request.keeping,
        threads: request.threads,
        inspector,
        point_of_no_return: request.point_of_no_return.clone(),
    }
}
