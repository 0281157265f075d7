//! `mount_events` writes what the daemon of a mount has noted into `session.db`, each event once.

use std::collections::HashSet;

use super::{
    folder::is_prepared,
    outcome::FileAction,
    session_db::{NewEvent, SessionDb},
};
use crate::{
    Engine,
    failure::Failure,
    mount::{
        checkpoint::{self, Happened, MountEvent, MountEventsRequest},
        live::LiveMount,
    },
};

/// So many are asked for at once.
const PAGE: usize = 10_000;

impl Engine {
    /// Writes down what happened up to an event, but for the paths that are `silenced`: their events are somebody else's to
    /// tell. What cannot be had is found when the next checkpoint is compared with the one before.
    pub(crate) async fn take_events(
        &self,
        live: &LiveMount,
        db: &mut SessionDb,
        until: u64,
        silenced: &HashSet<String>,
    ) {
        if let Err(failure) = taken(live, db, until, silenced).await {
            tracing::warn!(error = %failure.message, "the mount does not tell what happened; the next checkpoint finds it");
        }
    }
}

async fn taken(
    live: &LiveMount,
    db: &mut SessionDb,
    until: u64,
    silenced: &HashSet<String>,
) -> Result<(), Failure> {
    loop {
        let (chronicle, after) = db.position()?;
        let request = MountEventsRequest { chronicle, after, until, limit: PAGE };
        let told = checkpoint::ask_events(live, &request).await?;
        let is_ours =
            |event: &MountEvent| silenced.contains(&event.path) || is_prepared(event.path.as_bytes());
        let events = told.events.into_iter().filter(|event| !is_ours(event)).map(event);
        db.add_up_to(&events.collect::<Vec<_>>(), (told.chronicle, told.last))?;
        if !told.has_more {
            return Ok(());
        }
    }
}

fn event(event: MountEvent) -> NewEvent {
    let action = match event.happened {
        Happened::Created => FileAction::Created,
        Happened::Modified => FileAction::Modified,
        Happened::Deleted => FileAction::Deleted,
    };
    NewEvent { action, path: event.path, size: event.size }
}
