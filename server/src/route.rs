//! `Route` describes a route: its purpose, its role, its input and its answer.

use std::{fmt, pin::Pin, time::Duration};

use axum::http::Method;
use serde_json::Value;

use crate::{
    call::{Answer, Call},
    problem::Refusal,
    tokens::Role,
};

/// How long a request may take before its caller is told to look what becomes of it.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one may take that sends an archive, or waits for a container for an hour.
const LONG_PATIENCE: Duration = Duration::from_secs(3600 + 120);

/// The role that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Open,
    /// A caller with at least this role for the tenant in the path.
    Tenant(Role),
    /// A caller with at least this role; the route checks the tenants.
    Token(Role),
}

/// A request that is being carried out.
pub(crate) type Doing = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Finds out whether an answer that was given before is still true.
pub(crate) type StillTrue =
    for<'a> fn(&'a Call, &'a [u8]) -> Pin<Box<dyn Future<Output = Result<bool, Refusal>> + Send + 'a>>;

/// The answer of a route that succeeds.
#[derive(Clone, Copy, Debug)]
pub enum Sent {
    /// A document with this schema.
    Document(fn() -> Value),
    /// A document with this schema; or, for callers who ask for it, a stream of events.
    Feed(fn() -> Value),
    /// Counts, for a Prometheus.
    Metrics,
    /// A page for people.
    Page,
    /// A file of the page.
    PageFile,
    /// The bytes of a file.
    Bytes,
    /// A message of the Model Context Protocol, or a stream of them.
    Mcp,
    /// An archive, a part of one, or where it can be fetched.
    Archive,
}

/// One route.
pub struct Route {
    /// Names it among all.
    pub name: &'static str,
    /// The method.
    pub method: Method,
    /// The path, with names in braces for its open places.
    pub path: &'static str,
    /// The role that it needs.
    pub access: Access,
    /// A sentence about its purpose.
    pub summary: &'static str,
    /// The query, as a schema.
    pub query: Option<fn() -> Value>,
    /// The body, as a schema.
    pub body: Option<fn() -> Value>,
    /// The headers that it looks at, each with its meaning.
    pub headers: &'static [(&'static str, &'static str)],
    /// Whether the body is an archive, which is read while it arrives.
    pub takes_archive: bool,
    /// How long it may take before its caller is told to look what becomes of it.
    pub patience: Duration,
    /// The answer.
    pub sent: Sent,
    /// Whether the store keeps an event of every change that it makes.
    pub(crate) is_told: bool,
    /// Asked before an answer is given again; if there is none, all answers are.
    pub(crate) still_true: Option<StillTrue>,
    pub(crate) run: fn(Call) -> Doing,
}

impl Route {
    /// One that takes neither a query nor a body.
    pub(crate) const fn new(
        name: &'static str,
        method: Method,
        path: &'static str,
        access: Access,
        summary: &'static str,
        sent: Sent,
        run: fn(Call) -> Doing,
    ) -> Self {
        Self {
            name,
            method,
            path,
            access,
            summary,
            query: None,
            body: None,
            headers: &[],
            takes_archive: false,
            patience: PATIENCE,
            sent,
            is_told: false,
            still_true: None,
            run,
        }
    }

    /// The same with a query.
    pub(crate) const fn query(mut self, schema: fn() -> Value) -> Self {
        self.query = Some(schema);
        self
    }

    /// The same, with an event in the store for every change that it makes.
    pub(crate) const fn told(mut self) -> Self {
        self.is_told = true;
        self
    }

    /// The same, whose answers are given again only while they are true.
    pub(crate) const fn replayed_while(mut self, still_true: StillTrue) -> Self {
        self.still_true = Some(still_true);
        self
    }

    /// The same with these headers, each with its meaning.
    pub(crate) const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    /// The same with an archive that is read while it arrives.
    pub(crate) const fn archive(mut self) -> Self {
        self.takes_archive = true;
        self.long()
    }

    /// The same, which may take an hour.
    pub(crate) const fn long(mut self) -> Self {
        self.patience = LONG_PATIENCE;
        self
    }

    /// The same with a body.
    pub(crate) const fn body(mut self, schema: fn() -> Value) -> Self {
        self.body = Some(schema);
        self
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
