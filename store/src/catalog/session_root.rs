//! `Roots` keeps the snapshot that the unfinished changes of a session build on.
//!
//! A session's changes lie on one host, and mean nothing without the snapshot below them. While
//! its daemon lives, the profile's lock or a pin keeps that snapshot; but a session outlives its
//! daemon. So every writable session has a pin of its own in the store, which nobody removes
//! until the session is stored, discarded or found to be empty, and which holds for [`TTL`]
//! after it was last renewed.
//!
//! It protects the record, in any generation: a session follows chunks that are moved. So
//! it counts once its record was seen live after the root was written, as with any pin; or at
//! once, if the record only becomes live later, as that of a commit does.
//!
//! Each is written under a name of its own, below the session's: the process that finishes the session
//! finds them there, however many processes have worked on it.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::JoinHandle};

use super::{clock, pins, records, records::list_all, rules::Rules};
use crate::{
    Error, Result,
    bucket::{BucketError, Depth, Key, RetryPolicy, put_unique},
    content::TenantStore,
    error::Needed,
    format::{layout, pin::Pin, record::State},
    id::RecordId,
    name::Lineage,
};

/// How long a root holds after it was last renewed: long enough for somebody to come back from
/// a holiday and rescue the changes on a host.
pub const TTL: Duration = Duration::from_secs(30 * 86_400);
/// How often the daemon of a mount renews it.
pub const RENEW_EVERY: Duration = Duration::from_secs(6 * 3600);
/// A deletion that finds the root takes its first step back; that is waited for.
const ATTEMPTS: u32 = 5;

/// The owner of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The session that is not finished.
    pub session: RecordId,
    /// The host on which its changes lie.
    pub host: String,
}

/// The roots of one session: one, or two while a commit is under way.
#[derive(Debug)]
pub struct Roots {
    store: TenantStore,
    owner: Owner,
    rules: Rules,
    /// Held across every change, so that nobody sees one half done.
    marks: Mutex<Vec<Mark>>,
}

#[derive(Clone, Debug)]
struct Mark {
    key: Key,
    /// Unknown for one that an earlier process left.
    on: Option<(Lineage, RecordId)>,
    /// Whether the record was seen live since.
    counts: bool,
}

impl Roots {
    /// No root yet.
    pub fn new(store: TenantStore, owner: Owner) -> Self {
        Self { store, owner, rules: Rules::ALL, marks: Mutex::default() }
    }

    /// Without some of the rules, to show their purpose.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Writes a root on a record. It counts if the record becomes live only later, or once it
    /// [was seen](Self::counts) live.
    pub async fn place(&self, lineage: &Lineage, record: RecordId) -> Result<()> {
        if !self.rules.root_sessions {
            return Ok(());
        }
        let mut marks = self.marks.lock().await;
        let key = self.new_key();
        // Before it is written: what arrives though its answer is lost must be removed, too.
        marks.push(Mark { key: key.clone(), on: Some((lineage.clone(), record)), counts: false });
        self.put(&key, lineage, record).await
    }

    /// The record was seen live after its root was written.
    pub async fn counts(&self, record: RecordId) {
        for mark in self.marks.lock().await.iter_mut().filter(|mark| mark.is_on(record)) {
            mark.counts = true;
        }
    }

    /// Makes sure that there is a root on the record that counts.
    ///
    /// Fails with [`Error::NotFound`] if the snapshot was deleted.
    pub async fn ensure(&self, lineage: &Lineage, record: RecordId) -> Result<()> {
        if self.marks.lock().await.iter().any(|mark| mark.is_on(record) && mark.counts) {
            return Ok(());
        }
        self.place(lineage, record).await?;
        if !self.rules.look_after_pinning {
            return Ok(());
        }
        let looked = self.look(lineage, record).await;
        if matches!(looked, Err(Error::NotFound { .. })) {
            // It came too late, and would keep what is left of the snapshot for nobody.
            self.remove(|mark| mark.is_on(record) && !mark.counts).await;
        }
        looked
    }

    /// Waits until the record is live or gone: a deletion that finds the root steps back.
    async fn look(&self, lineage: &Lineage, record: RecordId) -> Result<()> {
        for attempt in 1..=ATTEMPTS {
            if is_live(&self.store, lineage, record).await? {
                self.counts(record).await;
                return Ok(());
            }
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
        }
        Err(records::deleted(lineage, record))
    }

    /// Learns of the roots that earlier processes have left of this session.
    pub async fn adopt(&self) -> Result<()> {
        let mut marks = self.marks.lock().await;
        for key in of_session(&self.store, self.owner.session).await? {
            if !marks.iter().any(|mark| mark.key == key) {
                marks.push(Mark { key, on: None, counts: false });
            }
        }
        Ok(())
    }

    /// Removes all that are known but that on `record`. What cannot be removed now is removed
    /// later, or expires.
    pub async fn keep_only(&self, record: Option<RecordId>) {
        self.remove(|mark| !record.is_some_and(|record| mark.is_on(record))).await;
    }

    async fn remove(&self, which: impl Fn(&Mark) -> bool) {
        let mut marks = self.marks.lock().await;
        let (others, mut kept): (Vec<Mark>, Vec<Mark>) = marks.drain(..).partition(which);
        for mark in others {
            if let Err(error) = self.store.bucket.delete(&mark.key).await {
                tracing::warn!(key = %mark.key, %error, "the root of a session could not be removed yet");
                kept.push(mark);
            }
        }
        *marks = kept;
    }

    /// Writes every root anew, and removes the old ones.
    pub async fn renew(&self) -> Result<()> {
        let mut marks = self.marks.lock().await;
        for mark in marks.iter_mut() {
            let Some((lineage, record)) = &mark.on else { continue };
            let new = self.new_key();
            self.put(&new, lineage, *record).await?;
            let old = std::mem::replace(&mut mark.key, new);
            // Only now: at no moment is there none.
            if let Err(error) = self.store.bucket.delete(&old).await {
                tracing::debug!(key = %old, %error, "a root could not be removed; it will expire");
            }
            if !is_live(&self.store, lineage, *record).await? {
                tracing::debug!(%record, "somebody wants to delete what a session builds on");
            }
        }
        Ok(())
    }

    /// Renews them every so often until the keeper is dropped.
    pub fn keep(self: &Arc<Self>, every: Duration) -> RootKeeper {
        let roots = Arc::clone(self);
        RootKeeper(tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                match roots.renew().await {
                    Ok(()) => {}
                    Err(error @ Error::NotFound { .. }) => {
                        tracing::error!(%error, "what this session builds on was deleted");
                    }
                    Err(error) => tracing::warn!(%error, "the root of a session could not be renewed"),
                }
            }
        }))
    }

    fn new_key(&self) -> Key {
        layout::session_root(&self.store.tenant, self.owner.session, clock::new_record_id())
    }

    async fn put(&self, key: &Key, lineage: &Lineage, record: RecordId) -> Result<()> {
        let Owner { session, host } = &self.owner;
        let pin = Pin::root(lineage, record, *session, host, TTL);
        Ok(put_unique(&*self.store.bucket, key, pin.encode().into()).await?)
    }
}

impl Mark {
    fn is_on(&self, record: RecordId) -> bool {
        self.on.as_ref().is_some_and(|(_, on)| *on == record)
    }
}

/// Renews roots while it exists.
#[derive(Debug)]
pub struct RootKeeper(JoinHandle<()>);

impl RootKeeper {
    /// Renews no more.
    pub fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for RootKeeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Removes the roots of a session that is over; says how many.
pub async fn forget(store: &TenantStore, session: RecordId) -> Result<usize> {
    let keys = of_session(store, session).await?;
    for key in &keys {
        store.bucket.delete(key).await?;
    }
    Ok(keys.len())
}

/// The session or mount that needs a snapshot, according to `pins`.
pub fn needed(pins: &[pins::FoundPin], record: RecordId) -> Option<Needed> {
    let holding = || pins.iter().filter(|found| found.holds && found.pin.record == record);
    match holding().find_map(|found| found.pin.session.as_ref()) {
        Some(session) => Some(Needed::Session { id: session.id, host: session.host.clone() }),
        None => holding().next().map(|_| Needed::Mounted),
    }
}

async fn of_session(store: &TenantStore, session: RecordId) -> Result<Vec<Key>> {
    let prefix = layout::session_roots(&store.tenant, session);
    let (entries, _) = list_all(&*store.bucket, &prefix, Depth::All).await?;
    Ok(entries.into_iter().map(|entry| entry.key).collect())
}

/// Whether the record is live; not while somebody is about to delete it.
async fn is_live(store: &TenantStore, lineage: &Lineage, id: RecordId) -> Result<bool> {
    match records::get(store, lineage, id).await.map(|(record, _)| record.state) {
        Ok(State::Live) => Ok(true),
        Ok(State::Trashed) => Ok(false),
        Ok(_) | Err(Error::Bucket(BucketError::NotFound { .. })) => Err(records::deleted(lineage, id)),
        Err(error) => Err(error),
    }
}
