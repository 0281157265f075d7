//! `remote` lists the sessions of all hosts that keep a tenant's snapshots, and releases one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    ErrorKind,
    catalog::{pins, session_root},
    id::RecordId,
    name::{ChromeMajor, Profile, Tenant},
};

use super::DiscardOutcome;
use crate::{Engine, failure::Failure, outcome::Outcome};

/// Lists the sessions that keep a tenant's snapshots.
#[derive(Clone, Debug)]
pub struct RemoteSessionsRequest {
    /// The tenant.
    pub tenant: Tenant,
}

/// The sessions that keep a tenant's snapshots.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RemoteSessionsOutcome {
    /// Each session.
    pub kept: Vec<RemoteSession>,
}

impl Outcome for RemoteSessionsOutcome {}

/// A session of some host, and the snapshot that it keeps.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemoteSession {
    /// Its id.
    pub session: RecordId,
    /// Its host.
    pub host: String,
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profile of the tenant.
    pub profile_id: Profile,
    /// The Chrome that wrote the snapshot.
    pub chrome_major_version: ChromeMajor,
    /// The snapshot.
    pub record: RecordId,
    /// How long ago the host said so last.
    pub age_ms: u64,
    /// How long the snapshot is kept unless the host says so again.
    pub expires_in_ms: u64,
}

/// Lets go of the snapshots that are kept for a session of a host that is gone for ever.
#[derive(Clone, Debug)]
pub struct DiscardRemoteRequest {
    /// The first digits of the session's id.
    pub session: String,
    /// The tenant whose snapshots are kept.
    pub tenant: Tenant,
    /// Do it; without this it is refused, and said what could be lost.
    pub confirm: bool,
}

/// A session for which nothing is kept any more.
#[derive(Clone, Debug)]
pub struct DiscardedRemote {
    /// The session.
    pub outcome: DiscardOutcome,
    /// Its host.
    pub host: String,
}

impl Engine {
    /// Lists the sessions that keep a tenant's snapshots.
    #[crate::boxed]
    pub async fn remote_sessions(
        &self,
        request: &RemoteSessionsRequest,
    ) -> Result<RemoteSessionsOutcome, Failure> {
        let tenant = &request.tenant;
        let found = pins::read(&self.tenant(tenant).await?).await?;
        let mut kept = Vec::new();
        for found in found.iter().filter(|found| found.holds) {
            let Some(session) = &found.pin.session else { continue };
            kept.push(RemoteSession {
                session: session.id,
                host: session.host.clone(),
                tenant_id: tenant.clone(),
                profile_id: session.profile_id.clone(),
                chrome_major_version: session.chrome_major_version,
                record: found.pin.record,
                age_ms: found.age.as_millis() as u64,
                expires_in_ms: found.pin.ttl().saturating_sub(found.age).as_millis() as u64,
            });
        }
        Ok(RemoteSessionsOutcome { kept })
    }

    /// Lets go of the snapshots that are kept for a session of a host that is gone for ever.
    #[crate::boxed]
    pub async fn discard_remote_session(
        &self,
        request: &DiscardRemoteRequest,
    ) -> Result<DiscardedRemote, Failure> {
        let DiscardRemoteRequest { session: prefix, tenant, confirm } = request;
        let store = self.writable_tenant(tenant).await?;
        let wanted = prefix.to_ascii_uppercase();
        let found = pins::read(&store).await?;
        let mut sessions: Vec<_> = found.iter().filter_map(|found| found.pin.session.as_ref()).collect();
        sessions.retain(|session| session.id.to_string().starts_with(&wanted));
        sessions.sort_by_key(|session| session.id);
        sessions.dedup_by_key(|session| session.id);
        let session = match sessions.as_slice() {
            [] => {
                let message = format!("no snapshot of {tenant} is kept for a session {prefix}");
                return Err(Failure::new(ErrorKind::NotFound, message)
                    .hint(format!("`pstore sessions --remote {tenant}` lists them")));
            }
            [session] => session,
            _ => {
                let message = format!("{prefix} fits several sessions");
                return Err(Failure::new(ErrorKind::Ambiguous, message).hint("give more of it"));
            }
        };
        let (id, host) = (session.id, session.host.clone());
        if !confirm {
            let message = format!(
                "what session {id} on {host:?} builds on could be deleted, and what it holds could no longer be rescued"
            );
            return Err(Failure::usage(message).hint(format!(
                "`pstore sessions discard {id} --remote {tenant} --confirm` if that host is gone for ever"
            )));
        }
        session_root::forget(&store, id).await?;
        let outcome =
            DiscardOutcome { session: id.to_string(), discarded: true, was_copy: false, root_problem: None };
        Ok(DiscardedRemote { outcome, host })
    }
}
