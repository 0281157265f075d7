//! `IndexLoading` fetches the tenant's indexes while files are read, and looks at them again under the lease.

use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    Error, Result,
    catalog::index::{self, IndexBudget, IndexUse, Loaded},
    content::{TenantStore, chunk::Locations, dedup_index::DedupIndex},
};

pub(super) struct IndexLoading {
    budget: IndexBudget,
    /// Loads the indexes; its locations are handed over elsewhere.
    task: Option<JoinHandle<Loaded>>,
    loaded: Loaded,
    /// Whether the index entries known here were there once the lease existed.
    is_sure: bool,
}

impl IndexLoading {
    /// Fetches them in the background.
    pub(super) fn begin(store: &TenantStore, budget: IndexBudget) -> (Self, oneshot::Receiver<Locations>) {
        let (sender, receiver) = oneshot::channel();
        let store = store.clone();
        let task = tokio::spawn(async move {
            let mut loaded = index::load(&store, budget).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the tenant's index cannot be read; more may be stored than needed");
                Loaded::default()
            });
            let _ = sender.send(std::mem::take(&mut loaded.locations));
            loaded
        });
        (Self { budget, task: Some(task), loaded: Loaded::default(), is_sure: false }, receiver)
    }

    /// Whether no chunk was found by an index as it was before the lease existed.
    pub(super) fn is_sure(&self, known: &DedupIndex) -> bool {
        self.is_sure || !known.uses_index()
    }

    /// Looks at the indexes again, once the lease exists, if any entry of them was used: a repair may
    /// have taken lost chunks out since.
    pub(super) async fn follow(&mut self, store: &TenantStore, known: &DedupIndex) -> Result<()> {
        if self.is_sure(known) {
            return Ok(());
        }
        if let Some(task) = self.task.take() {
            self.loaded = task.await.map_err(|error| Error::Internal { what: error.to_string() })?;
        }
        if let Some(now) = index::load_again(store, &self.loaded, self.budget).await? {
            tracing::info!("the tenant's index has changed since it was read");
            self.loaded.used = now.used;
            known.learn_index(now.locations);
        }
        self.is_sure = true;
        Ok(())
    }

    /// The use that was made of them, if they have arrived.
    pub(super) async fn used(self) -> IndexUse {
        match self.task {
            Some(task) if task.is_finished() => task.await.map(|loaded| loaded.used).unwrap_or_default(),
            Some(_) => IndexUse::default(),
            None => self.loaded.used,
        }
    }

    /// Nobody wants to know any more.
    pub(super) fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
