//! Checks the pointer, the lock and the events.

use super::{Check, findings::is_damage};
use crate::{
    Result,
    bucket::Version,
    catalog::{events, lineage_handle::LineageHandle, pointer},
    format::{layout, record::Record},
    name::Lineage,
};

impl Check<'_> {
    /// Checks the pointer, as it was read before the records were.
    pub(super) async fn pointer(
        &mut self,
        lineage: &Lineage,
        read: Result<Option<pointer::VersionedPointer>>,
        live: &[Record],
    ) -> Result<()> {
        let version = read.as_ref().ok().and_then(|read| read.as_ref()).map(|read| read.version.clone());
        let before = self.findings.clone();
        self.judge_pointer(lineage, read, live)?;
        if self.findings != before && self.pointer_version(lineage).await? != version {
            // It was moved while we looked: what it named then may rightly be gone.
            self.findings = before;
        }
        Ok(())
    }

    async fn pointer_version(&self, lineage: &Lineage) -> Result<Option<Version>> {
        match pointer::read(self.store, lineage).await {
            Ok(read) => Ok(read.map(|read| read.version)),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn judge_pointer(
        &mut self,
        lineage: &Lineage,
        read: Result<Option<pointer::VersionedPointer>>,
        live: &[Record],
    ) -> Result<()> {
        let findings = &mut self.findings;
        let read = match read {
            Ok(read) => read,
            Err(error) => return findings.damaged(error, "", None),
        };
        let key = layout::latest(lineage);
        let Some(read) = read else {
            // A first capture may have ended between being stored and being pointed at; a
            // second one follows only a pointer.
            if live.iter().any(|record| record.parent.is_some()) {
                findings.find(key, "it is missing, though there are snapshots", "", None);
            }
            return Ok(());
        };
        let Some(block) = read.pointer.block() else {
            if read.pointer.pstore.is_some() {
                let reason = "it was changed after pstore wrote it, by another program or by damage";
                findings.find(key, reason, "", None);
            }
            // A pointer that another program wrote is not ours to judge.
            return Ok(());
        };
        let Some(target) = block.record else { return Ok(()) };
        match live.iter().find(|record| record.record == target) {
            None => {
                findings.find(key, format!("it names record {target}, which holds no snapshot"), "", None)
            }
            Some(record)
                if record.content.as_ref().map(|content| content.snapshot_id) != block.snapshot_id =>
            {
                findings.find(key, format!("it names another content than record {target} has"), "", None);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// A lock and events that cannot be read keep nobody from their data, and are damage all
    /// the same.
    pub(super) async fn lock_and_events(&mut self, lineage: &Lineage) -> Result<()> {
        let handle = LineageHandle::new(self.store.clone(), lineage.clone(), Default::default());
        if let Err(error) = handle.lock().await {
            self.findings.damaged(error, "", None)?;
        }
        for event in events::log(self.store, lineage, None).await? {
            if let Err(error) = event {
                self.findings.damaged(error, "", None)?;
            }
        }
        Ok(())
    }
}
