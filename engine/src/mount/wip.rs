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
pub(crate) struct LeftWork {
    wip: WorkInProgress,
    record: Record,
}

impl LeftWork {
    /// The work that a lineage has, if it is still there. That nobody can tell is no reason not to mount.
    pub(crate) async fn find(tenant: &TenantStore, lineage: &Lineage) -> Option<Self> {
        let found = work_in_progress::find(tenant, lineage).await;
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "whether {lineage} has work in progress cannot be told");
            None
        });
        found.map(|(wip, record)| Self { wip, record })
    }

    /// What a person should know who starts without it, from `current`.
    pub(crate) fn told(&self, current: Option<RecordId>) -> String {
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

    /// Makes it the current snapshot, by the lock that is held: whoever starts from it goes on from there. One that cannot be
    /// loaded is refused, and nothing is changed.
    pub(super) async fn open(
        self,
        engine: &Engine,
        (tenant, lineage): (&TenantStore, &Lineage),
        hold: &Hold,
        request: &capture::load::LoadRequest,
        notes: &mut Notes,
    ) -> Result<Snapshot, Failure> {
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
        if let Err(error) = works::end(hold.handle(), &[]).await {
            tracing::warn!(%error, "the hint at work in progress could not be removed");
        }
        Ok(Snapshot { lineage: lineage.clone(), opened })
    }
}

/// The refusal to start from work that is not there.
pub(crate) fn none(name: &ProfileName) -> Failure {
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
