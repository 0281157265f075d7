//! `log` lists the events of a profile's pointer and lock, with author and reason.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    catalog::events,
    format::event::{Event, EventKind},
    id::{EventId, FlipId, RecordId},
};

use crate::{
    Engine,
    failure::Failure,
    names::LineageName,
    outcome::{ActorFields, LineageFields, Outcome},
};

/// Asks for the events of a profile.
#[derive(Clone, Debug)]
pub struct LogRequest {
    /// The profile of the events.
    pub lineage: LineageName,
    /// Only so many, the newest; all if it is not said.
    pub last: Option<usize>,
}

/// One thing that happened.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogEvent {
    /// The event's id.
    pub event_id: EventId,
    /// The kind of event.
    pub kind: EventKind,
    /// When it happened, by the clock of the host that acted.
    pub at_ms: u64,
    /// The actor.
    pub by: ActorFields,
    /// The reason that was given.
    pub reason: String,
    /// The snapshot that the pointer named before.
    pub from_sha256_prefix: Option<String>,
    /// The snapshot that the pointer named after.
    pub to_sha256_prefix: Option<String>,
    /// The write of the pointer.
    pub flip_id: Option<FlipId>,
    /// The record of the snapshot that it is about.
    pub record: Option<RecordId>,
    /// The run whose lock it was.
    pub holder_run_id: Option<String>,
    /// The host whose lock it was.
    pub holder_host: Option<String>,
    /// Which run of the host held the lock.
    pub holder_host_run_id: Option<String>,
}

/// The events of a profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogOutcome {
    /// The profile of the events.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// How many events could not be read.
    pub unreadable: u64,
    /// The events, the oldest first.
    pub events: Vec<LogEvent>,
}

impl Outcome for LogOutcome {}

impl Engine {
    /// Tells what has happened to a profile's pointer and lock.
    #[crate::boxed]
    pub async fn log(&self, request: &LogRequest) -> Result<LogOutcome, Failure> {
        let (tenant, lineage) = self.lineage(&request.lineage).await?;
        let (mut events, mut unreadable) = (Vec::new(), 0);
        for event in events::log(&tenant, &lineage, request.last).await? {
            match event {
                Ok(event) => events.push(event.into()),
                Err(error) => {
                    self.warn(&error.to_string());
                    unreadable += 1;
                }
            }
        }
        Ok(LogOutcome { lineage: (&lineage).into(), unreadable, events })
    }
}

impl From<Event> for LogEvent {
    fn from(event: Event) -> Self {
        let holder = event.holder.as_ref().map(ActorFields::from);
        Self {
            event_id: event.id,
            kind: event.kind,
            at_ms: event.at_ms,
            by: (&event.by).into(),
            reason: event.reason,
            from_sha256_prefix: event.from_sha256_prefix,
            to_sha256_prefix: event.to_sha256_prefix,
            flip_id: event.flip_id,
            record: event.record,
            holder_run_id: holder.as_ref().map(|holder| holder.run_id.clone()),
            holder_host: holder.as_ref().map(|holder| holder.host.clone()),
            holder_host_run_id: holder.map(|holder| holder.host_run_id),
        }
    }
}
