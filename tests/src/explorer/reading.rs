//! `reading` plays readers: with a pin, as a restore does, and without one, as a mount does.

use store::{
    catalog::{pins::Renewal, records},
    content::reader::{Want, plan},
    format::record::Record,
    ops::read::{
        locate::followed,
        open::{self, Opened},
    },
};

use super::host::Host;

impl Host {
    /// As a mount does that has the lock: the pointer keeps its snapshot.
    pub(super) async fn follow(&self) -> store::Result<()> {
        let (record, _) = records::get(&self.store, &self.lineage, self.records[1]).await?;
        self.fetch(&Opened::load(&self.store, record).await?).await
    }

    /// As a restore does, but that it renews its pin when it is told to.
    pub(super) async fn read(&self, target: usize, renewals: u32) -> store::Result<()> {
        let id = self.records[target];
        let relies_on = |record: &Record| {
            let packs = record.content.iter().flat_map(|content| &content.packs);
            Some((id, packs.map(|used| used.pack).collect()))
        };
        let (record, _) = records::get(&self.store, &self.lineage, id).await?;
        let (kept, mut opened) = open::kept(&self.store, &record, self.rules).await?;
        let (pinned, keeper) = kept.expect("everybody may write here");
        keeper.stop();
        self.machine.inner().reads(self.process, relies_on(&opened.record));
        for _ in 0..renewals {
            // The snapshot stays all the time, where it was and where it is now only at its ends.
            self.machine.inner().reads(self.process, Some((id, Vec::new())));
            if let Renewal::Moved(record) = pinned.renew().await? {
                opened.record = *record;
            }
            self.machine.inner().reads(self.process, relies_on(&opened.record));
        }
        if let Err(error) = self.fetch(&opened).await {
            self.machine.inner().lacks_what_it_pinned(self.process, &error);
        }
        self.machine.inner().reads(self.process, None);
        pinned.release().await;
        Ok(())
    }

    /// Every chunk of a snapshot, wherever it is by now.
    async fn fetch(&self, opened: &Opened) -> store::Result<()> {
        let relocator = followed(&self.store, &opened.record, self.rules);
        let wants = opened.pieces().flatten().map(|piece| Want {
            id: piece.id,
            raw_len: piece.raw_len,
            location: piece.location,
            purpose: (),
        });
        for fetch in plan(wants) {
            relocator.fetch(&self.store, fetch).await?;
        }
        Ok(())
    }
}
