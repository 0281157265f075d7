//! `force_unlock` takes a profile's lock away from its holder.

use schemars::JsonSchema;
use serde::Serialize;
use store::{catalog::lineage_handle::LineageHandle, error::Holder};

use crate::{
    Engine,
    failure::Failure,
    names::{ActorName, LineageName},
    outcome::{LineageFields, Outcome},
    text::reason,
};

/// Takes a lock away. The holder can no longer move the pointer.
#[derive(Clone, Debug)]
pub struct ForceUnlockRequest {
    /// The profile of the lock.
    pub lineage: LineageName,
    /// The actor.
    pub actor: ActorName,
    /// Why; it is written into the log.
    pub reason: String,
    /// Do it; otherwise only say what would be done.
    pub confirm: bool,
}

/// The outcome for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unlocking {
    /// Nobody held it.
    Free,
    /// It would be taken away.
    Planned,
    /// It was taken away.
    OperatorForce,
}

/// A lock, and its holder, if there was one that could be read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForceUnlockOutcome {
    /// The outcome for the lock.
    pub outcome: Unlocking,
    /// The profile of the lock.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// Why it is taken away.
    pub reason: String,
    /// The run that held it.
    pub holder_run_id: Option<String>,
    /// The host that held it.
    pub holder_host: Option<String>,
    /// Which run of the host it was.
    pub holder_host_run_id: Option<String>,
    /// Who held it; one that cannot be read is the default.
    #[serde(skip)]
    pub holder: Option<Holder>,
}

impl Outcome for ForceUnlockOutcome {}

impl Engine {
    /// Takes a profile's lock away from its holder.
    #[crate::boxed]
    pub async fn force_unlock(&self, request: &ForceUnlockRequest) -> Result<ForceUnlockOutcome, Failure> {
        let reason = reason::checked(&request.reason)?;
        if reason.is_empty() {
            return Err(Failure::usage("--reason is empty").hint("say why: it is written into the log"));
        }
        let (tenant, lineage) = self.lineage_to_change(&request.lineage).await?;
        let handle = LineageHandle::new(tenant, lineage.clone(), self.actor(&request.actor));
        let found = match handle.lock().await {
            Ok(read) => read.filter(|read| !read.lock.is_free()).map(|read| Holder::from(&read)),
            // It can be taken away all the same.
            Err(error) => {
                self.warn(&format!("the lock cannot be read: {error}"));
                Some(Holder::default())
            }
        };
        let holder = match request.confirm {
            true => handle.force_unlock(&reason).await?.map(|eviction| eviction.holder),
            false => found,
        };
        let known = holder.as_ref().filter(|holder| **holder != Holder::default());
        Ok(ForceUnlockOutcome {
            outcome: match (&holder, request.confirm) {
                (None, _) => Unlocking::Free,
                (Some(_), true) => Unlocking::OperatorForce,
                (Some(_), false) => Unlocking::Planned,
            },
            lineage: (&lineage).into(),
            reason,
            holder_run_id: known.map(|holder| holder.run_id.clone()),
            holder_host: known.map(|holder| holder.host.clone()),
            holder_host_run_id: known.map(|holder| holder.host_run_id.clone()),
            holder,
        })
    }
}
