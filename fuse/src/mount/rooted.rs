//! `Rooted` keeps the snapshot below a mount for as long as its session is not finished.

use std::sync::Arc;

use store::{
    Result,
    catalog::session_root::{self, RENEW_EVERY, RootKeeper, Roots},
    id::RecordId,
};
use tokio::runtime::Handle;

use super::Mount;

/// The roots of a session, renewed while this exists.
#[derive(Debug)]
pub(super) struct Rooted {
    roots: Arc<Roots>,
    keeper: RootKeeper,
}

impl Rooted {
    pub(super) fn new(roots: Arc<Roots>, runtime: &Handle) -> Self {
        let _entered = runtime.enter();
        let keeper = roots.keep(RENEW_EVERY);
        Self { roots, keeper }
    }

    /// Leaves them in the store, for whoever continues the session.
    pub(super) fn leave(&self) {
        self.keeper.stop();
    }
}

impl Mount {
    /// Makes sure that `record`, which the session is about to build on, stays.
    pub(super) async fn root(&self, record: RecordId) -> Result<()> {
        match &self.roots {
            Some(rooted) => rooted.roots.ensure(&self.lineage, record).await,
            None => Ok(()),
        }
    }

    /// Roots a snapshot before it is one: whoever deletes it later finds the root.
    pub(super) async fn root_ahead(&self, record: RecordId) -> Result<()> {
        match &self.roots {
            Some(rooted) => rooted.roots.place(&self.lineage, record).await,
            None => Ok(()),
        }
    }

    /// From now on only what the session builds on stays for its sake.
    pub async fn keep_roots(&self) {
        let base = self.base.lock().await.as_ref().map(|base| base.record.record);
        self.keep_root_on(base).await;
    }

    pub(super) async fn keep_root_on(&self, base: Option<RecordId>) {
        if let Some(rooted) = &self.roots {
            rooted.roots.keep_only(base).await;
        }
    }

    /// The session is over: nothing stays for its sake.
    pub(super) async fn drop_roots(&self) {
        let (Some(_), Some(tenant)) = (&self.roots, self.tenant.get()) else { return };
        let Ok(session) = self.session_id().parse() else { return };
        if let Err(error) = session_root::forget(tenant, session).await {
            tracing::warn!(%error, "what the session was built on stays for its sake until that expires");
        }
    }
}
