//! `JobKind` describes a job, and has the engine do it.

use std::time::Duration;

use engine::{
    Engine,
    failure::Failure,
    names::{ActorName, Scope, Subject},
    outcome::Outcome,
    verbs::{gc::GcRequest, reap::ReapRequest, retention::RetentionRequest, verify::VerifyRequest},
};
use serde_json::Value;
use store::name::Tenant;

/// How long a condemned pack waits at least.
const GC_GRACE: Duration = Duration::from_secs(3600);
/// How much of the packs may be of no use before the rest is moved.
const GC_MAX_UNUSED_PERCENT: u64 = 4;
/// How much memory a collection may take, about.
const GC_MEMORY_BYTES: u64 = 256 << 20;

/// The work of a job.
#[derive(Clone, Debug)]
pub(crate) enum JobKind {
    /// Takes away locks that expired longer ago than this.
    Reap { grace: Duration },
    /// Removes the snapshots that the rules do not keep.
    Retention,
    /// Collects garbage.
    Gc,
    /// Checks snapshots: all their content, one of so many parts of it, or none of it.
    Verify { reads_content: bool, parts: Option<u64>, repair: bool },
}

/// The outcome of a job.
#[derive(Debug)]
pub(super) struct JobEnd {
    pub(super) outcome: Option<Value>,
    pub(super) failure: Option<Failure>,
}

impl JobKind {
    /// The word for it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Reap { .. } => "reap",
            Self::Retention => "retention",
            Self::Gc => "gc",
            Self::Verify { .. } => "verify",
        }
    }

    /// Does it, for one tenant or for all.
    pub(super) async fn done_by(
        &self,
        engine: &Engine,
        tenant: Option<Tenant>,
        actor: ActorName,
        dry_run: bool,
    ) -> JobEnd {
        match *self {
            Self::Reap { grace } => {
                let request = ReapRequest { tenant, actor, grace, is_plan: dry_run };
                ended(engine.reap(&request).await)
            }
            Self::Retention => {
                let apply = (!dry_run).then_some(actor);
                let request = RetentionRequest { scope: tenant.map(Scope::Tenant), apply };
                ended(engine.retention(&request).await)
            }
            Self::Gc => {
                let request = GcRequest {
                    tenant,
                    is_plan: dry_run,
                    grace: GC_GRACE,
                    max_unused_percent: GC_MAX_UNUSED_PERCENT,
                    memory_bytes: GC_MEMORY_BYTES,
                    waits: false,
                };
                ended(engine.gc(&request).await)
            }
            Self::Verify { reads_content, parts, repair } => {
                let request = VerifyRequest {
                    subject: tenant.map(Subject::Tenant),
                    chrome_major: None,
                    sha: None,
                    reads_content,
                    parts,
                    repair: repair && !dry_run,
                };
                ended(engine.verify(&request).await)
            }
        }
    }
}

/// Work that is done may have found something bad: it has an outcome, and failed.
fn ended<T: Outcome>(outcome: Result<T, Failure>) -> JobEnd {
    match outcome {
        Ok(outcome) => JobEnd { failure: outcome.verdict(), outcome: serde_json::to_value(&outcome).ok() },
        Err(failure) => JobEnd { outcome: None, failure: Some(failure) },
    }
}
