//! `session` plays a session on a snapshot: its daemon roots it, is killed after a sync, and somebody rescues it.

use store::{
    Error,
    bucket::BucketError,
    catalog::{
        clock, records,
        session_root::{self, Owner, Roots},
    },
    format::{layout, record::State},
    id::RecordId,
};

use super::host::Host;

impl Host {
    pub(super) async fn session(&self, target: usize) -> store::Result<()> {
        let id = self.records[target];
        let owner = Owner { session: clock::new_record_id(), host: format!("host-{}", self.process) };
        let session = owner.session;
        let roots = Roots::new(self.store.clone(), owner).with_rules(self.rules);
        roots.ensure(&self.lineage, id).await?;
        // What is synced from here on must not be lost. The daemon is killed: nobody renews or
        // gives back anything.
        drop(roots);
        self.machine.inner().oracle.pack_oracle.reads(self.process, Some((id, Vec::new())));
        if let Err(error) = self.rescue(id).await {
            self.machine.inner().oracle.lacks(self.process, &error);
        }
        self.machine.inner().oracle.pack_oracle.reads(self.process, None);
        session_root::forget(&self.store, session).await.map(drop)
    }

    /// Reads all of the snapshot, wherever it is by now.
    async fn rescue(&self, id: RecordId) -> store::Result<()> {
        let mut before = None;
        loop {
            let (record, _) = records::get(&self.store, &self.lineage, id).await?;
            if !matches!(record.state, State::Live | State::Trashed) {
                return Err(Error::NotFound { what: format!("snapshot {id}") });
            }
            let mut missing = None;
            for used in record.content.iter().flat_map(|content| &content.packs) {
                match self.store.bucket.get(&layout::pack(&self.store.tenant, used.pack), u64::MAX).await {
                    Ok(_) => {}
                    Err(error @ BucketError::NotFound { .. }) => missing = Some(error),
                    Err(error) => return Err(error.into()),
                }
            }
            match missing {
                None => return Ok(()),
                Some(error) if before == Some(record.generation) => return Err(error.into()),
                Some(_) => before = Some(record.generation),
            }
        }
    }
}
