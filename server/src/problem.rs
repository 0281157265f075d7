//! `Problem` is a failure as HTTP hands it out: `application/problem+json`, with the kind and the exit code that a command would end with.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use engine::failure::{Failure, codes, document::HolderFields};
use schemars::JsonSchema;
use serde::Serialize;
use store::ErrorKind;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The answer to a request that fails.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: `kind` tells the problem.
    #[serde(rename = "type")]
    pub reference: &'static str,
    /// The status in words.
    pub title: &'static str,
    /// The status.
    pub status: u16,
    /// The failure, in a sentence.
    pub detail: String,
    /// The kind of failure.
    #[serde(serialize_with = "codes::serialize")]
    #[schemars(schema_with = "codes::schema")]
    pub kind: ErrorKind,
    /// The exit code of a command that fails so.
    pub exit_code: u8,
    /// The next step for the user.
    pub hint: Option<String>,
    /// Names the request in the server's log.
    pub request_id: String,
    /// The holder of the lock, if another holder is the problem.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderFields>,
    /// The requests that wait for the lock at this server, if somebody holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
}

/// The requests that wait for a lock at a server. Those at another server, or on another host, do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Queue {
    /// The earlier requests that still wait, the oldest first.
    pub waiting: Vec<WaitingFields>,
    /// Their number.
    pub ahead: u64,
    /// When this request would have its turn if nobody renews or gives back early: the holder's rest, and
    /// the whole time of everybody who waits before.
    pub estimated_wait_ms: u64,
}

/// A request that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaitingFields {
    /// The name of the run.
    pub holder_run_id: String,
    /// The host of the run.
    pub holder_host: String,
    /// Since when, by the clock of the server's host.
    pub since_ms: u64,
}

/// A refused or failed request, with its status.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The failure.
    pub failure: Failure,
    /// The requests that wait for the lock.
    pub queue: Option<Box<Queue>>,
}

impl Refusal {
    /// With a status of its own.
    pub fn new(status: StatusCode, failure: Failure) -> Self {
        Self { status, failure, queue: None }
    }

    /// The caller did not say who it is, or nobody knows it.
    pub fn unknown_caller(message: &str) -> Self {
        let failure = Failure::new(ErrorKind::Denied, message);
        Self::new(
            StatusCode::UNAUTHORIZED,
            failure.hint("send `Authorization: Bearer SECRET` with a token of this server"),
        )
    }

    /// The caller is known, and may not do this.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, Failure::new(ErrorKind::Denied, message))
    }

    /// The failure, as a document.
    pub fn document(&self, request_id: &str) -> Vec<u8> {
        let problem = Problem {
            reference: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: self.failure.message.clone(),
            kind: self.failure.kind,
            exit_code: self.failure.code(),
            hint: self.failure.hint.clone(),
            request_id: request_id.to_owned(),
            holder: self.failure.holder.as_deref().map(HolderFields::from),
            queue: self.queue.as_deref().cloned(),
        };
        serde_json::to_vec(&problem).unwrap_or_default()
    }

    /// A whole answer of HTTP for a connection on which none is spoken. Nothing comes after it.
    pub(crate) fn last_words(&self) -> Vec<u8> {
        let body = self.document("");
        let title = self.status.canonical_reason().unwrap_or_default();
        let status = self.status.as_u16();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} {title}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        [head.into_bytes(), body].concat()
    }

    /// As it is answered.
    pub fn response(&self, request_id: &str) -> Response<Body> {
        let mut response = Response::new(Body::from(self.document(request_id)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            }
            StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::new(status(failure.kind), failure)
    }
}

/// The status of a kind of failure.
pub fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidInput | ErrorKind::Ambiguous => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Deleted => StatusCode::GONE,
        ErrorKind::TargetExists
        | ErrorKind::PointerNotFlipped
        | ErrorKind::WriteRevoked
        | ErrorKind::SourceChanged
        | ErrorKind::LockHeld
        | ErrorKind::LockLost
        | ErrorKind::PointerMoved
        | ErrorKind::SnapshotNeeded
        | ErrorKind::Conflict
        | ErrorKind::HeldBack
        | ErrorKind::InUse
        | ErrorKind::IntegrityFailed
        | ErrorKind::VersionMismatch
        | ErrorKind::Uncommitted
        | ErrorKind::SessionUnreadable
        | ErrorKind::SessionBehind => StatusCode::CONFLICT,
        ErrorKind::ProfileTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::NotImplemented => StatusCode::NOT_IMPLEMENTED,
        // The store does not let the server in, or is not fit; the caller can do nothing about it.
        ErrorKind::Denied | ErrorKind::StoreRefused | ErrorKind::PointerUnknown => StatusCode::BAD_GATEWAY,
        ErrorKind::Unavailable | ErrorKind::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal
        | ErrorKind::CommandFailed
        | ErrorKind::Io
        | ErrorKind::Damaged
        | ErrorKind::UnsupportedFormat
        | ErrorKind::Repaired
        | ErrorKind::TenantsFailed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
