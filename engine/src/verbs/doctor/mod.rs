//! `doctor` looks at this host and the store, and says what to do about each finding.
//!
//! Nothing is changed but for scratch objects in the store, which are removed again.

mod host_checks;
mod store_checks;

use schemars::JsonSchema;
use serde::Serialize;
use store::{ErrorKind, name::Tenant};

use crate::{Engine, failure::Failure, outcome::Outcome, text::size};

/// Looks at this host and the store.
#[derive(Clone, Debug, Default)]
pub struct DoctorRequest {
    /// The tenant that the credential is for.
    pub tenant: Option<Tenant>,
}

/// The words for a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// It is as it should be.
    Ok,
    /// It needs attention.
    Warn,
    /// Whatever needs it fails.
    Fail,
}

impl CheckStatus {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Check {
    /// The name of the checked object.
    pub name: &'static str,
    /// How it is.
    pub status: CheckStatus,
    /// The finding.
    pub found: String,
    /// The advice.
    pub advice: Option<String>,
    /// The kind of failure, if it is one.
    #[serde(skip)]
    failed: Option<ErrorKind>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Ok, found: found.into(), advice: None, failed: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { name, status: CheckStatus::Warn, found: found.into(), advice, failed: None }
    }

    fn fail(name: &'static str, failure: Failure) -> Self {
        let Failure { kind, message, hint, .. } = failure;
        // Who reads this has run `pstore doctor` already.
        let advice = hint.filter(|hint| !hint.contains("pstore doctor"));
        let advice = advice.unwrap_or_else(|| remedy(kind).to_owned());
        Self { name, status: CheckStatus::Fail, found: message, advice: Some(advice), failed: Some(kind) }
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// The finding.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DoctorOutcome {
    /// Where the store is.
    pub store: String,
    /// The version of pstore.
    pub version: &'static str,
    /// Each check.
    pub checks: Vec<Check>,
    /// How many checks failed.
    pub failed: usize,
    /// How many checks gave a warning.
    pub warned: usize,
}

impl Outcome for DoctorOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        let first = self.checks.iter().find_map(|check| check.failed)?;
        let checks = size::plural(self.failed as u64, "check", "checks");
        Some(Failure::new(first, format!("{checks} failed")))
    }
}

impl Engine {
    /// Looks at this host and the store.
    #[crate::boxed]
    pub async fn doctor(&self, request: &DoctorRequest) -> Result<DoctorOutcome, Failure> {
        let mut checks = store_checks::checks(self, request.tenant.as_ref()).await;
        checks.push(host_checks::cache(self.cache_root.as_deref()));
        checks.extend(host_checks::temporary());
        checks.push(host_checks::fuse());
        checks.push(host_checks::databases());
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let (failed, warned) = (count(CheckStatus::Fail), count(CheckStatus::Warn));
        let version = env!("CARGO_PKG_VERSION");
        Ok(DoctorOutcome { store: self.location.shown(), version, checks, failed, warned })
    }
}

/// The general advice: no failure is left without one.
fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Denied => "check the credentials, and what they may do",
        ErrorKind::Unavailable => "check --store, --endpoint and the network",
        ErrorKind::StoreRefused => "use another server: this one would lose snapshots",
        ErrorKind::Damaged | ErrorKind::UnsupportedFormat => {
            "bring pstore.json back from a backup, or use the pstore that wrote it"
        }
        _ => "look at what the message names, and make it readable and writable",
    }
}
