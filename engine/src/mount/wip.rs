//! `wip` finds the work in progress that a run has left, and tells of it or starts from it.

use fuse::mount::{Mount, Snapshot, info::Mode};
use store::{
    Error, ErrorKind,
    catalog::{clock, lock::Hold, work_in_progress},
    content::TenantStore,
    format::{record::Record, work_in_progress::WorkInProgress},
    id::RecordId,
    name::{Lineage, ProfileName},
    ops::{pointer_move, read::open::OpenedTree, work_in_progress as works},
};

use super::choice::{Notes, choose};
use crate::{Engine, failure::Failure, text::size};

/// Work that a run has left, and its snapshot.
#[derive(Debug)]
pub(super) struct LeftWork {
    wip: WorkInProgress,
    record: Record,
}

impl LeftWork {
    /// The work that a lineage has, if it is still there.
    pub(super) async fn find(tenant: &TenantStore, lineage: &Lineage) -> Result<Option<Self>, Failure> {
        let found = work_in_progress::find(tenant, lineage).await?;
        Ok(found.map(|(wip, record)| Self { wip, record }))
    }

    /// The same for who starts without it: that nobody can tell is no reason not to start.
    pub(super) async fn look(tenant: &TenantStore, lineage: &Lineage) -> Option<Self> {
        Self::find(tenant, lineage).await.unwrap_or_else(|failure| {
            tracing::warn!(error = %failure.message, "whether {lineage} has work in progress cannot be told");
            None
        })
    }

    /// Its snapshot.
    pub(super) fn record(&self) -> RecordId {
        self.record.record
    }

    /// Refuses what began with an empty profile in place of one that could not be loaded: it would replace that.
    fn require_continued(&self) -> Result<(), Failure> {
        let Some(why) = &self.record.fallback else { return Ok(()) };
        let name = self.record.lineage().name;
        let message = format!("the work in progress of {name} had started with an empty profile ({why})");
        Err(Failure::new(ErrorKind::HeldBack, message).hint(format!(
            "`pstore rollback {name}@wip --confirm` makes it current all the same; without --from wip the current snapshot is used"
        )))
    }

    /// What a person should know who starts without it, from `current`.
    pub(super) fn told(&self, current: Option<RecordId>) -> String {
        let Actor { run_id, host } = Actor::of(&self.wip);
        let age = clock::unix_ms().saturating_sub(self.wip.saved_at_ms);
        let name = self.record.lineage().name;
        let older = match current == self.record.parent {
            true => "",
            false => ", and stands on another snapshot than the current one",
        };
        format!(
            "run {run_id} on {host} did not end: its work in progress is {} old{older}; `--from wip` starts from it, \
             `pstore restore {name}@wip` looks at it, `pstore delete {name}@wip --tagged` drops it",
            size::age(age)
        )
    }

    /// Makes it the current snapshot, by the lock that is held: a run that starts from it goes on from there. One that cannot be
    /// loaded is refused, and nothing is changed.
    pub(super) async fn open(
        self,
        engine: &Engine,
        (tenant, lineage): (&TenantStore, &Lineage),
        hold: &Hold,
        request: &capture::load::LoadRequest,
        notes: &mut Notes,
    ) -> Result<Snapshot, Failure> {
        self.require_continued()?;
        let left = self.record();
        let opened = OpenedTree::load(tenant, self.record).await;
        let opened = choose(tenant, opened.map(Some), request, Mode::Locked, notes).await?;
        let Some(mut opened) = opened else {
            let why = notes.reason.take().unwrap_or_default();
            let message = format!("the work in progress of {} cannot be loaded: {why}", lineage.name);
            return Err(Failure::new(ErrorKind::Damaged, message)
                .hint("without --from wip the current snapshot is mounted"));
        };
        let job = engine.publish_policy(&lineage.name.tenant);
        let flip_id = hold.handle().new_flip_id();
        let flipping = pointer_move::flip(hold, opened.record, flip_id, Some(&job), engine.progress());
        (opened.record, _) = flipping.await?;
        if let Err(error) = works::end(hold.handle(), &[], Some(left)).await {
            tracing::warn!(%error, "the hint at work in progress could not be removed");
        }
        Ok(Snapshot { lineage: lineage.clone(), opened })
    }
}

/// Looks for work that a run has left before a copy is made, and tells of it unless the copy is to be `from_wip`. Its record.
pub(crate) async fn before_a_copy(
    engine: &Engine,
    hold: &Hold,
    from_wip: bool,
) -> Result<Option<RecordId>, Failure> {
    let (tenant, lineage) = (hold.handle().store(), hold.handle().lineage());
    if from_wip {
        let left = LeftWork::find(tenant, lineage).await?.ok_or_else(|| none(&lineage.name))?;
        left.require_continued()?;
        return Ok(Some(left.record()));
    }
    let left = LeftWork::look(tenant, lineage).await;
    if let Some(left) = &left {
        engine.warn(&left.told(hold.base().await));
    }
    Ok(left.as_ref().map(LeftWork::record))
}

/// The refusal to start from work that is not there.
pub(super) fn none(name: &ProfileName) -> Failure {
    Failure::from(Error::NotFound { what: format!("work in progress of {name}") })
        .hint("without --from wip the current snapshot is used")
}

/// The refusal to start from work that a session of this host has in a later state.
pub(super) fn has_session(name: &ProfileName, session: &str) -> Failure {
    let message =
        format!("session {session} of this host has later changes to {name} than its work in progress");
    Failure::new(ErrorKind::Uncommitted, message).hint(format!(
        "without --from wip the session is continued; `pstore sessions discard {session} --confirm` drops it"
    ))
}

/// All changes of a session are stored: what it has saved of itself is not needed any more.
pub(super) async fn end_of_session(mount: &Mount) {
    let (Some(hold), Ok(session)) = (mount.hold(), mount.session_id().parse()) else { return };
    if let Err(error) = works::end_of_session(hold.handle(), session).await {
        tracing::warn!(%error, "the work in progress of the session could not be removed");
    }
}

/// Who has left it, for a person.
struct Actor<'a> {
    run_id: &'a str,
    host: &'a str,
}

impl<'a> Actor<'a> {
    fn of(wip: &'a WorkInProgress) -> Self {
        let named = |text: &'a str| if text.is_empty() { "?" } else { text };
        Self { run_id: named(&wip.by.run_id), host: named(&wip.by.host) }
    }
}
