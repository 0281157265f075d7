//! `Survey` lists everything that profiles have in the store, and the processes that use it.

use std::collections::{BTreeSet, HashMap};

use crate::{
    Error, Result,
    bucket::Depth,
    catalog::{
        lineage_handle::LineageHandle,
        pins,
        records::{self, list_all},
    },
    content::TenantStore,
    error::Holder,
    format::{layout, record::State},
    id::RecordId,
    name::{ChromeMajor, Lineage, ProfileName},
};

/// A session that builds on a snapshot, or a reader of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The lineage of the snapshot that is kept.
    pub lineage: Lineage,
    /// The record that is kept.
    pub record: RecordId,
    /// Its id and its host; none of a reader.
    pub session: Option<(RecordId, String)>,
}

/// All there is of some profiles, and who uses it.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// How many profiles.
    pub profiles: u64,
    /// The versions of Chrome they were captured with.
    pub majors: BTreeSet<ChromeMajor>,
    /// How many snapshots.
    pub snapshots: u64,
    /// The bytes that were stored for them.
    pub stored_bytes: u64,
    /// The names that operators gave some of them.
    pub tags: BTreeSet<String>,
    /// Archives in the store, of any program.
    pub archives: u64,
    /// Archives that another program has stored.
    pub foreign: u64,
    /// How many bytes the archives have.
    pub archive_bytes: u64,
    /// Records that cannot be read.
    pub damaged: u64,
    /// Snapshots that are being stored.
    pub writes: u64,
    /// The present holders of locks.
    pub holders: Vec<(Lineage, Holder)>,
    /// Readers and sessions that keep a snapshot.
    pub unfinished: Vec<Unfinished>,
    /// Whether there is any object at all.
    pub is_there: bool,
}

impl Survey {
    /// Whether no snapshot, archive, damaged record or write is left. What else there is, collections remove.
    pub fn has_ended(&self) -> bool {
        [self.snapshots, self.archives, self.damaged, self.writes] == [0; 4]
    }

    /// The sessions that are not finished.
    pub fn sessions(&self) -> impl Iterator<Item = RecordId> + '_ {
        let ids: BTreeSet<RecordId> =
            self.unfinished.iter().filter_map(|found| found.session.as_ref()).map(|(id, _)| *id).collect();
        ids.into_iter()
    }
}

/// Looks at these profiles of a tenant. Changes nothing.
pub async fn survey(store: &TenantStore, profiles: &[ProfileName]) -> Result<Survey> {
    let mut survey = Survey { profiles: profiles.len() as u64, ..Survey::default() };
    let mut lineage_of: HashMap<RecordId, Lineage> = HashMap::new();
    for name in profiles {
        let (objects, _) = list_all(&*store.bucket, &layout::profile(name), Depth::Children).await?;
        survey.is_there |= objects.iter().any(|entry| entry.key != layout::tombstone(name));
        for lineage in records::lineages(store, name).await? {
            survey.look(store, &lineage, &mut lineage_of).await?;
        }
    }
    for found in pins::read(store).await?.into_iter().filter(|found| found.holds) {
        let (record, session) = (found.pin.record, found.pin.session);
        let named = session.as_ref().map(|session| Lineage {
            name: ProfileName { tenant: store.tenant.clone(), profile: session.profile_id.clone() },
            chrome_major: session.chrome_major_version,
        });
        let named = named.filter(|lineage| profiles.contains(&lineage.name));
        let Some(lineage) = named.or_else(|| lineage_of.get(&record).cloned()) else { continue };
        let unfinished =
            Unfinished { lineage, record, session: session.map(|session| (session.id, session.host)) };
        if !survey.unfinished.contains(&unfinished) {
            survey.unfinished.push(unfinished);
        }
    }
    Ok(survey)
}

impl Survey {
    async fn look(
        &mut self,
        store: &TenantStore,
        lineage: &Lineage,
        lineage_of: &mut HashMap<RecordId, Lineage>,
    ) -> Result<()> {
        let (listed, _) = list_all(&*store.bucket, &layout::lineage(lineage), Depth::Children).await?;
        self.is_there |= !listed.is_empty();
        let mut ours: BTreeSet<String> = BTreeSet::new();
        for record in records::list(store, lineage).await? {
            let record = match record {
                Ok(record) => record,
                Err(Error::Damaged { .. }) => {
                    self.damaged += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            lineage_of.insert(record.record, lineage.clone());
            ours.extend(record.archives().map(|sha| sha.prefix()));
            self.writes += u64::from(record.state == State::Writing);
            if matches!(record.state, State::Live | State::Trashed) {
                self.majors.insert(lineage.chrome_major);
                self.snapshots += 1;
                self.stored_bytes += record.counts.stored_bytes;
                self.tags.extend(record.tags.keys().cloned());
            }
        }
        for entry in &listed {
            let Some(prefix) = layout::archive_of(&entry.key) else { continue };
            self.archives += 1;
            self.foreign += u64::from(!ours.contains(prefix));
            self.archive_bytes += entry.size;
            self.majors.insert(lineage.chrome_major);
        }
        let handle = LineageHandle::new(store.clone(), lineage.clone(), Default::default());
        match handle.lock().await {
            Ok(Some(read)) if handle.is_live(&read) => {
                self.holders.push((lineage.clone(), Holder::from(&read)));
            }
            // Nobody can tell whose it was: nobody holds it.
            Ok(_) | Err(Error::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
