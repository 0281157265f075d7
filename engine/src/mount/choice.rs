//! `choice` decides whether a snapshot is mounted, or an empty profile in its place.

use capture::{
    examination,
    load::{self, Outcome, Policy},
};
use fuse::mount::info::Mode;
use store::{
    catalog::clock, content::TenantStore, format::record, name::ChromeMajor, ops::read::open::OpenedTree,
};

use super::request::MountRequest;
use crate::{Engine, engine::threads, failure::Failure, settings::SessionCookies};

/// How the profile was found.
#[derive(Clone, Debug)]
pub struct Notes {
    /// How the load ended.
    pub outcome: Outcome,
    /// Why it starts empty, if it does.
    pub reason: Option<String>,
    /// Warnings, though it is mounted.
    pub warnings: Vec<String>,
    /// What the records of what is captured from it say of how it was loaded.
    pub transforms: Vec<String>,
}

impl Notes {
    pub(super) fn new() -> Self {
        Self { outcome: Outcome::Success, reason: None, warnings: Vec::new(), transforms: Vec::new() }
    }

    pub(super) fn fallback(&self) -> Option<String> {
        self.outcome.is_fallback().then(|| self.outcome.as_str().to_owned())
    }

    /// Warnings for a person, with the reason for an empty profile.
    pub fn told(&self) -> Vec<String> {
        let fresh = self
            .reason
            .as_ref()
            .filter(|_| self.outcome.is_fallback())
            .map(|reason| format!("{}: starting with an empty profile: {reason}", self.outcome.as_str()));
        self.warnings.iter().cloned().chain(fresh).collect()
    }
}

/// The snapshot, if it may be used; `None` to start empty.
pub(super) async fn choose(
    tenant: &TenantStore,
    opened: store::Result<Option<OpenedTree>>,
    request: &load::LoadRequest,
    mode: Mode,
    notes: &mut Notes,
) -> Result<Option<OpenedTree>, Failure> {
    let judged = match opened {
        Ok(Some(opened)) => judged(tenant, opened, request, mode, notes).await.map(Some),
        opened => opened,
    };
    let error = match judged {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    match Outcome::of(&error) {
        Some(outcome) if !request.policy.require || outcome == Outcome::NoPriorState => {
            (notes.outcome, notes.reason) = (outcome, Some(error.to_string()));
            Ok(None)
        }
        _ => Err(error.into()),
    }
}

/// A snapshot that a browser may use. What is only looked at may be damaged: that is said.
async fn judged(
    tenant: &TenantStore,
    mut opened: OpenedTree,
    request: &load::LoadRequest,
    mode: Mode,
    notes: &mut Notes,
) -> store::Result<OpenedTree> {
    notes.warnings.extend(load::suitable(&opened.record, request)?);
    match load::whole(&opened.record) {
        Err(error) if mode == Mode::ReadOnly => notes.warnings.push(error.to_string()),
        _ if mode == Mode::ReadOnly => {}
        whole => {
            whole?;
            if load::is_unexamined(&opened.record) {
                notes.warnings.extend(load::examined(tenant, &mut opened, request).await?);
            }
        }
    }
    Ok(opened)
}

/// The options of a load of the same profile.
pub(super) fn load_request(
    engine: &Engine,
    args: &MountRequest,
    chrome_major: ChromeMajor,
) -> load::LoadRequest {
    let settings = engine.settings.tenant(&args.source.profile.tenant);
    load::LoadRequest {
        profile: args.source.profile.clone(),
        chrome_major,
        chrome_version: args.load.chrome_version.clone(),
        reference: args.source.chosen().cloned(),
        upgrade: engine.upgrade(&args.load, &args.source.profile.tenant),
        target: args.mountpoint.clone(),
        force: false,
        keeping: Default::default(),
        threads: threads(),
        point_of_no_return: Default::default(),
        policy: Policy {
            allow_hot: settings.modes.contains(&record::Mode::Hot),
            max_bytes: settings.max_profile_bytes,
            depth: None,
            isolation: examination::Isolation::own_cell(),
            require: args.load.require,
        },
        host_region: args.host_region.clone().or_else(|| engine.settings.host_region()),
        now_ms: clock::unix_ms(),
        normalise_exit: args.load.normalise_exit,
        keep_session_cookies: settings.session_cookies == SessionCookies::Keep,
        adoption: None,
    }
}
