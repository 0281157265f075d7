//! The marks of snapshots of which something is lost.

use super::live;
use crate::{
    Error, Result,
    catalog::{clock, controls::Controls, records},
    content::{lost::Lost, meta::Metadata},
    format::{
        mark::Mark,
        record::{Record, State},
    },
    name::Lineage,
    ops::verify::{Check, findings::is_damage},
};

/// How often a record is read again that others change at the same time.
const ATTEMPTS: u32 = 16;

impl Check<'_> {
    /// Marks what is lost now, in every snapshot of the tenant that needs it, and takes away
    /// the marks of those that were looked at and lack nothing. `before` is what was lost before
    /// the repair: nobody has looked at other profiles since.
    pub(super) async fn mark(&mut self, before: &Lost) -> Result<()> {
        let mut before = before.clone();
        before.add(&self.lost);
        self.report.marked.clear();
        for (lineage, record) in live(self.store).await? {
            let is_ours = lineage == *self.lineage;
            let mut lost = if is_ours { self.lost.clone() } else { before.clone() };
            // What was marked and not read since is what it was.
            if !is_ours || !self.options.read_data {
                lost.add(&record.damage.as_ref().map(Lost::from).unwrap_or_default());
            }
            let mark = if lost.may_hit(&record) { self.mark_of(&record, &lost).await? } else { None };
            let same = match (&mark, &record.damage) {
                (Some(mark), Some(was)) => mark.is_like(was),
                (mark, was) => mark.is_none() && was.is_none(),
            };
            if !same {
                self.put_mark(&lineage, &record, mark.as_ref()).await?;
            }
            if is_ours && mark.is_some() {
                self.report.marked.push(record.sha256_prefix());
            }
        }
        Ok(())
    }

    async fn mark_of(&self, record: &Record, lost: &Lost) -> Result<Option<Mark>> {
        let Some(content) = &record.content else { return Ok(None) };
        let now = clock::unix_ms();
        let decoded = match Metadata::fetch(self.store, content).await {
            Ok(metadata) => metadata.decode(),
            Err(error) => Err(error),
        };
        match decoded {
            Ok((entries, locations)) => Ok(lost.mark(record, &entries, &locations, now)),
            Err(error) if is_damage(&error) => Ok(Some(lost.mark_whole(record, now))),
            Err(error) => Err(error),
        }
    }

    /// Puts the mark into the record, unless its content is another by now.
    async fn put_mark(&self, lineage: &Lineage, record: &Record, mark: Option<&Mark>) -> Result<()> {
        let controls = Controls::new(self.store.clone(), lineage.clone(), Default::default());
        for _ in 0..ATTEMPTS {
            let (mut now, version) = records::get(self.store, lineage, record.record).await?;
            if now.state != State::Live || now.content != record.content {
                return Ok(());
            }
            now.damage = mark.cloned();
            now.lease_seq += 1;
            match controls.replace_record(&now, version).await {
                Err(Error::Conflict { .. }) => {}
                replaced => return replaced.map(drop),
            }
        }
        Ok(())
    }
}
