//! `erasure` deletes a profile as a whole, beside those who use it.

use std::time::Duration;

use store::ops::removal::{self, Order};

use super::host::{Host, TERMS};
use crate::store_fixture::actor;

impl Host {
    pub(super) async fn erase(&self, times: u32) {
        for _ in 0..times {
            let erased = self.erase_once().await;
            self.note(&format!(
                "has deleted the profile: {:?}",
                erased.as_ref().map_err(|error| error.kind())
            ));
            if matches!(erased, Ok(true)) {
                return self.machine.inner().oracle.is_erased(self.process);
            }
        }
    }

    /// Whether all of it has ended.
    async fn erase_once(&self) -> store::Result<bool> {
        let name = &self.lineage.name;
        let order = Order {
            actor: actor(&format!("run-{}", self.process)),
            user: "explorer".to_owned(),
            reason: "explored".to_owned(),
            ignored: Vec::new(),
            rules: self.rules,
        };
        let survey = removal::survey(&self.store, std::slice::from_ref(name)).await?;
        let (_, left) = removal::profile(&self.store, name, &order, &survey).await?;
        Ok(left.snapshots.is_empty())
    }

    /// As `pstore run` does: the lock, then a snapshot that nobody knew before, then the pointer.
    pub(super) async fn run_and_store(&self, shares: usize) -> store::Result<()> {
        let hold = self.handle().acquire(TERMS, Duration::ZERO).await?;
        let loaded = hold.pointer().await;
        self.machine.inner().oracle.loads(self.process, &loaded);
        let record = self.write(shares, false, false).await?;
        self.machine.inner().begins_flip(self.process);
        let answer = hold.flip(record).await;
        self.report(&answer);
        hold.release().await
    }
}
