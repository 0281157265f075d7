//! `events` sends the events of the caller's tenants: page by page, or as they happen.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Method, Response, header},
};
use engine::{Engine, failure::Failure, location::Purpose, verbs::log::LogEvent};
use futures::{Stream, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    ErrorKind,
    catalog::{
        feed::{self, OwnedEvent, Subject},
        store::Store,
    },
    content::TenantStore,
    format::event::EventKind,
    id::{EventId, JobId},
    name::{ChromeMajor, Profile, Tenant},
};
use tokio::time::Instant;

use crate::{
    call::{Answer, Call, answer},
    concurrency_limit::Permit,
    credentials::Credentials,
    problem::Refusal,
    route::{Access::Token, Route, Sent::Feed},
    schemas::{received, sent},
    server_state::Server,
    tokens::{Role, Tenants},
};

/// The least role of a reader of events.
const LEAST_ROLE: Role = Role::Read;
/// How many events a page has, if nothing is said.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// How often a stream looks for new events.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The pause after a look, at least, as a multiple of the time that it took: a store of many tenants is left to others.
const PAUSE_TIMES: u32 = 8;
/// How often a stream says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The media type of a stream.
const EVENT_STREAM: &str = "text/event-stream";
/// Says where a stream goes on.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) static ROUTES: &[Route] = &[Route::new(
    "all_events",
    Method::GET,
    "/v1/events",
    Token(LEAST_ROLE),
    "Tells what has happened in the tenants of the token; with `Accept: text/event-stream`, as it happens",
    Feed(sent::<EventPage>),
    |call| Box::pin(events(call)),
)
.query(received::<FeedQuery>)];

/// Chooses among events.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeedQuery {
    /// Those that follow this event; from the first on if it is not said. A stream goes by `Last-Event-ID`
    /// before it, and begins with the next event if neither is said.
    pub after: Option<EventId>,
    /// How many at most, from 1 to 1000; 100 if it is not said.
    pub limit: Option<usize>,
    /// Of this tenant alone.
    pub tenant_id: Option<Tenant>,
}

/// Some events, in the order in which the store has learnt of them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EventPage {
    /// The events.
    pub events: Vec<FeedEvent>,
    /// Send it as `after` to continue; none if there is no event yet.
    pub next: Option<EventId>,
    /// Whether there is more already.
    pub has_more: bool,
    /// How many could not be read.
    pub unreadable: u64,
}

/// An event, with its owner.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FeedEvent {
    /// The tenant; none of an event of the store.
    pub tenant_id: Option<Tenant>,
    /// The profile; none of an event of a tenant.
    pub profile_id: Option<Profile>,
    /// The Chrome that wrote it.
    pub chrome_major_version: Option<ChromeMajor>,
    /// The event.
    #[serde(flatten)]
    pub event: LogEvent,
    /// The request that a server was sent.
    pub request: Option<RequestFields>,
    /// The job that a server has done.
    pub job_id: Option<JobId>,
}

/// The request that a server was sent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RequestFields {
    /// The method of HTTP.
    pub method: String,
    /// The path.
    pub path: String,
    /// Where it came from: an address, or `unix`.
    pub peer: String,
    /// The status that was answered.
    pub status: u64,
}

impl From<OwnedEvent> for FeedEvent {
    fn from(OwnedEvent { of, event }: OwnedEvent) -> Self {
        let (tenant_id, lineage) = match of {
            Subject::Lineage(lineage) => (Some(lineage.name.tenant.clone()), Some(lineage)),
            Subject::Tenant(tenant) => (Some(tenant), None),
            Subject::Store => (None, None),
        };
        Self {
            tenant_id,
            profile_id: lineage.as_ref().map(|lineage| lineage.name.profile.clone()),
            chrome_major_version: lineage.map(|lineage| lineage.chrome_major),
            request: event.request.clone().map(|request| RequestFields {
                method: request.method,
                path: request.path,
                peer: request.peer,
                status: request.status,
            }),
            job_id: event.job,
            event: event.into(),
        }
    }
}

/// The tenants whose events are sent.
#[derive(Clone, Debug)]
struct EventFilter {
    engine: Engine,
    /// These tenants; without, all there are, and the events of the store.
    tenants: Option<Vec<Tenant>>,
}

impl EventFilter {
    fn of(call: &Call, tenant: Option<Tenant>) -> Result<Self, Refusal> {
        let tenants = match (tenant, &call.tenants) {
            (Some(tenant), _) => {
                call.require_tenant(Some(&tenant))?;
                Some(vec![tenant])
            }
            (None, Some(Tenants::Named(tenants))) => Some(tenants.clone()),
            (None, _) => None,
        };
        Ok(Self { engine: call.engine.clone(), tenants })
    }

    async fn page(&self, after: Option<EventId>, most: usize) -> Result<EventPage, Failure> {
        let (tenants, store) = self.opened().await?;
        let page = feed::read(&tenants, store.as_ref(), after, most).await?;
        Ok(EventPage {
            next: page.last.or(after),
            has_more: page.has_more,
            unreadable: page.unreadable,
            events: page.events.into_iter().map(FeedEvent::from).collect(),
        })
    }

    /// The newest event there is: a stream begins after it.
    async fn newest(&self) -> Result<Option<EventId>, Failure> {
        let (tenants, store) = self.opened().await?;
        Ok(feed::newest(&tenants, store.as_ref()).await?)
    }

    /// The tenants, and the store if it is for all.
    async fn opened(&self) -> Result<(Vec<TenantStore>, Option<Store>), Failure> {
        let store = self.engine.store(Purpose::Read).await?;
        let names = match &self.tenants {
            Some(tenants) => tenants.clone(),
            None => self.engine.tenants().await?,
        };
        let mut tenants = Vec::with_capacity(names.len());
        for name in names {
            match self.engine.tenant(&name).await {
                Ok(tenant) => tenants.push(tenant),
                // A token may be for a tenant that is still to come, or that is gone.
                Err(failure) if matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Deleted) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok((tenants, self.tenants.is_none().then_some(store)))
    }
}

async fn events(call: Call) -> Answer {
    let query: FeedQuery = call.query()?;
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Failure::usage(format!("limit takes a number from 1 to {MAX_PAGE}")).into());
    }
    let wanted = EventFilter::of(&call, query.tenant_id.clone())?;
    if !wants_stream(&call.headers) {
        return answer(&wanted.page(query.after, limit).await?);
    }
    let after = match call.header(LAST_EVENT_ID)? {
        Some(id) => {
            let id = id.parse().map_err(|error: store::id::InvalidId| Failure::usage(error.to_string()))?;
            Some(id)
        }
        None => query.after,
    };
    let room = call.server.subscribers.take_as(call.caller.clone().unwrap_or_default())?;
    let after = match after {
        Some(after) => Some(after),
        None => wanted.newest().await?,
    };
    let stopping = call.server.stopping.clone();
    let (server, shown) = (Arc::clone(&call.server), call.shown.clone());
    let follower = Follower { wanted, after, server, shown, _room: room, spoke: Instant::now() };
    let until_stopped = stream::unfold(follower, move |follower| {
        let stopped = stopping.raised();
        async move {
            tokio::select! {
                told = follower.next() => told,
                () = stopped => None,
            }
        }
    });
    Ok(streamed(until_stopped))
}

/// Whether the caller accepts a stream.
fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|accepted| accepted.trim().starts_with(EVENT_STREAM))
}

/// A caller that gets events as they happen.
struct Follower {
    wanted: EventFilter,
    after: Option<EventId>,
    server: Arc<Server>,
    shown: Credentials,
    /// Taken until the stream ends.
    _room: Permit,
    spoke: Instant,
}

impl Follower {
    /// The next piece to send. A store that is briefly away ends no stream; a caller's loss of rights does.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            if !self.is_let_in() {
                return None;
            }
            let began = Instant::now();
            let looked = self.wanted.page(self.after, PAGE).await;
            let took = began.elapsed();
            match looked {
                Ok(page) if !page.events.is_empty() => {
                    self.after = page.next;
                    let text: String = page.events.iter().map(framed).collect();
                    return self.said(text);
                }
                // What cannot be read is passed over.
                Ok(page) => self.after = page.next,
                Err(failure) => tracing::warn!("events cannot be looked for: {}", failure.message),
            }
            if self.spoke.elapsed() >= HEARTBEAT {
                return self.said(":\n\n".to_owned());
            }
            tokio::time::sleep(LOOK_AGAIN.max(took * PAUSE_TIMES)).await;
        }
    }

    /// Whether the caller is still known, and may still be told of all that it wanted.
    fn is_let_in(&self) -> bool {
        let Ok(caller) = self.shown.caller(&self.server) else { return false };
        caller.role >= LEAST_ROLE
            && match &self.wanted.tenants {
                Some(tenants) => tenants.iter().all(|tenant| caller.tenants.include(tenant.as_str())),
                None => caller.tenants == Tenants::All,
            }
    }

    fn said(mut self, text: String) -> Option<(Result<Bytes, Infallible>, Self)> {
        self.spoke = Instant::now();
        Some((Ok(Bytes::from(text)), self))
    }
}

/// An event as a stream has it. A document is one line.
fn framed(event: &FeedEvent) -> String {
    let document = serde_json::to_string(event).unwrap_or_default();
    // A word of a later pstore, which nobody has checked, could end the line.
    let kind = match &event.event.kind {
        EventKind::Other(_) => "other",
        known => known.as_str(),
    };
    format!("id: {}\nevent: {kind}\ndata: {document}\n\n", event.event.event_id)
}

fn streamed(events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response<Body> {
    let mut response = Response::new(Body::from_stream(events));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    response
}
