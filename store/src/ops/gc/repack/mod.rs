//! Moves needed chunks out of packs of which little is needed, so that those can go.
//!
//! A repack is a write like any other, with one difference: its records are there already.
//! Its lease lists the records that it will replace. Then:
//!
//! 1. The frames that are needed are copied as they are into new packs; then the tables that
//!    say where they lie are written anew, and the index of the new packs.
//! 2. For each record: **read it, then make sure that the lease is still ours, then replace
//!    the very record that was read**. A process that revokes the lease touches the records it lists
//!    after that, so a replacement that comes later fails.
//! 3. The lease ends. Nothing refers to the old packs now but readers; a collection condemns
//!    them like any others.
//!
//! Where many snapshots share moved chunks, their tables are written in batches, each by a write of
//! its own with a lease that lists its records: memory is bounded by one batch, and one lease by
//! its list. The frames are copied once, by the first write, whose lease is kept to the end. A
//! later write makes sure, after it has its own lease and has read a record, that the first one is still ours:
//! until then no collection has condemned the copies, and one that does so later waits for the lease of the
//! later write. Interrupted between two batches, some snapshots need the old packs and some the new
//! ones, and a collection finds both needed.
//!
//! A record that somebody else has changed meanwhile is read again; one whose content is another by now is
//! left as it is. A source that is gone or damaged ends the repack: packs that it has stored by then are
//! removed if nothing names them yet, else they are garbage. If it is not known whether a record was
//! replaced, the leases are left to expire, so that a collection settles it.
//!
//! A record lists the packs of its earlier generations for as long as a pin on one of them
//! was seen: readers that pinned it then find the packs they have pinned.

mod copy;
mod dry_run;
mod leases;
mod repack_plan;
mod source;
mod update;
mod user;
mod worth;

pub use dry_run::DryRun;
pub use repack_plan::{Frames, Needed, RepackPlan, survey};
pub use source::{Frame, FrameBatch, Source};
pub use user::BATCH_CHUNKS;

use self::{
    copy::Copied,
    leases::{Leases, Unnamed},
    update::{Grip, Update},
    user::User,
};
use crate::{
    Error, Result,
    bucket::Depth,
    catalog::{pins, records::list_all, rules::Rules},
    content::{TenantStore, meta::MetaPack, upload::WriteSession},
    format::{index::IndexPack, layout, table::Location},
    id::{PackId, RecordId},
};

/// The approximate memory of each moved frame until the end of the write.
pub(crate) const FRAME_BYTES: u64 = 512;

/// The outcome of a repack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The writes that own the new packs.
    pub writes: Vec<RecordId>,
    /// Records that refer to the new packs.
    pub records: u64,
}

/// Why a repack was given up. Nothing was lost by it.
#[derive(Debug)]
pub struct Failed {
    /// Why it ended.
    pub error: Error,
    /// The pack that could not be read, if it was one.
    pub pack: Option<PackId>,
    /// Whether it is not known if a record was replaced.
    unclear: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, pack: None, unclear: false }
    }
}

/// Moves the frames that `survey` plans to new packs.
pub async fn run(store: &TenantStore, survey: &RepackPlan, rules: Rules) -> Result<Moved, Failed> {
    run_from(store, survey, &source::Packs::new(store, survey), rules).await
}

/// Moves the frames that `survey` plans, as far as `source` has them.
pub(crate) async fn run_from(
    store: &TenantStore,
    survey: &RepackPlan,
    source: &dyn Source,
    rules: Rules,
) -> Result<Moved, Failed> {
    let Some(batch) = survey.batches().next() else { return Ok(Moved::default()) };
    let (first, unnamed) = (Leases::of(store, batch, survey), Unnamed::default());
    let mover = Mover { store, survey, source, rules, first: &first, unnamed: &unnamed };
    let ended = mover.run().await;
    if let Some(write) = unnamed.get() {
        // Nothing names them, and a store that is full needs the space now.
        remove_packs(store, write).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "what was copied in vain is left to the next collection");
        });
    }
    first.end(&ended).await;
    ended
}

struct Mover<'a> {
    store: &'a TenantStore,
    survey: &'a RepackPlan,
    source: &'a dyn Source,
    rules: Rules,
    /// Of the first batch. What is copied is theirs.
    first: &'a Leases,
    unnamed: &'a Unnamed,
}

impl Mover<'_> {
    async fn run(&self) -> Result<Moved, Failed> {
        let write = self.first.open().await?;
        self.unnamed.set(Some(write));
        // After the records were read: a pin on a generation before theirs is there, or never holds.
        let pins = pins::read(self.store).await?;
        let mut copied = copy::copy(self.store, self.first, write, self.survey, self.source).await?;
        let mut moved = Moved::default();
        for (number, users) in self.survey.batches().enumerate() {
            if number == 0 {
                self.move_batch(users, self.first, &mut copied, &pins, &mut moved).await?;
                continue;
            }
            let leases = Leases::of(self.store, users, self.survey);
            let ended = self.move_batch(users, &leases, &mut copied, &pins, &mut moved).await;
            leases.end(&ended).await;
            ended?;
        }
        if !moved.writes.is_empty() && !moved.writes.contains(&write) {
            moved.writes.push(write);
        }
        Ok(moved)
    }

    /// Makes some snapshots refer to the copied frames. Their new tables are all in memory.
    async fn move_batch(
        &self,
        users: &[User],
        leases: &Leases,
        copied: &mut Copied,
        pins: &[pins::FoundPin],
        moved: &mut Moved,
    ) -> Result<(), Failed> {
        let write = leases.open().await?;
        let mut meta = MetaPack::new(self.store, write)?;
        let mut updates = Vec::new();
        for user in users {
            updates.extend(self.update(user, &mut meta, copied, pins).await?);
        }
        if updates.is_empty() {
            return Ok(());
        }
        // Who reads the index from now on may refer to what was copied.
        self.unnamed.set(None);
        let index: Vec<IndexPack> = std::mem::take(&mut copied.packs.index);
        let (pack, first) = (meta.seal(self.store), self.first.first()?);
        futures::future::try_join(first.upload_index(index), leases.first()?.upload_pack(&pack)).await?;
        moved.writes.push(write);
        let is_first = std::ptr::eq(leases, self.first);
        for update in updates {
            // Renewed when due: there may be many records.
            self.first.open().await?;
            leases.open().await?;
            let grip =
                Grip { lease: leases.of_lineage(update.lineage)?, copies: (!is_first).then_some(first) };
            moved.records += u64::from(update.apply(self.store, grip, pins, self.rules).await?);
        }
        Ok(())
    }

    /// `None` if there is nothing to be changed about it, or nothing can be.
    async fn update<'a>(
        &self,
        user: &'a User,
        meta: &mut MetaPack,
        copied: &Copied,
        pins: &[pins::FoundPin],
    ) -> Result<Option<Update<'a>>, Failed> {
        let Some(record) = user.read(self.store, &DryRun::default()).await? else { return Ok(None) };
        let pack = user.packs.first().copied();
        update::check_room(&record, pins).map_err(|error| Failed { pack, ..error.into() })?;
        let Some(mut tree) = self.source.tree(&record).await? else { return Ok(None) };
        let Some(before) = &record.content else { return Ok(None) };
        let needs = |pack: &PackId| self.survey.packs.contains_key(pack);
        let place = |location: &Location| {
            copied.places.get(&(location.pack, location.offset)).copied().unwrap_or(*location)
        };
        let moved = tree.move_on((meta, self.store), place, needs, before.root.pack).await?;
        let Some(after) = moved else { return Ok(None) };
        if self.source.is_complete()
            && let Some(used) = after.packs.iter().find(|used| needs(&used.pack))
        {
            let what = format!("record {} still needs pack {}", record.record, used.pack);
            return Err(Error::Internal { what }.into());
        }
        Ok(Some(Update { lineage: &user.lineage, record, after }))
    }
}

async fn remove_packs(store: &TenantStore, write: RecordId) -> Result<()> {
    let (packs, _) = list_all(&*store.bucket, &layout::packs(&store.tenant), Depth::All).await?;
    for entry in packs {
        if entry.key.name().parse().is_ok_and(|pack: PackId| pack.write == write) {
            store.bucket.delete(&entry.key).await?;
        }
    }
    Ok(())
}
