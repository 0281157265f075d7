//! `Call` is an accepted request: its caller, its input, and the engine that carries it out.
//!
//! A route uses it to check the tenant where the path has none, and to demand a higher role for some inputs.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::Query,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header},
};
use engine::{
    Engine,
    failure::Failure,
    names::{ActorName, LineageName, SnapshotChoice, SnapshotName},
};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use store::{
    ErrorKind,
    name::{ChromeMajor, ProfileName, Tenant},
    ops::read::resolve::{InvalidReference, Reference},
};

use crate::{
    credentials::Credentials,
    problem::Refusal,
    server_state::Server,
    tokens::{Role, Tenants},
};

/// So many digits of an id name a snapshot wherever one is to be changed for good.
const ID_DIGITS: usize = 12;

/// The header that names the current snapshot, as descriptions of routes have it.
pub(crate) const IF_MATCH: (&str, &str) = (
    "If-Match",
    "The `active_sha256_prefix` that the pointer must have, in quotes; if it has another, the answer is 412.",
);

/// Proves that the caller holds the lock.
pub(crate) const LEASE: &str = "Pstore-Lease";

/// The answer of a route.
pub(crate) type Answer = Result<Response<Body>, Refusal>;

/// A request that was let in.
#[derive(Debug)]
pub(crate) struct Call {
    /// The state that all requests share.
    pub(crate) server: Arc<Server>,
    /// Carries out the request.
    pub(crate) engine: Engine,
    /// Names the request in logs and events.
    pub(crate) request_id: String,
    /// The caller's name in events; none where nobody needs to say so.
    pub(crate) caller: Option<String>,
    /// The caller's rights; none where nobody needs to say who it is.
    pub(crate) role: Option<Role>,
    /// The tenants that the caller may act for; none where nobody needs to say who it is.
    pub(crate) tenants: Option<Tenants>,
    /// The caller's proof of who it is.
    pub(crate) shown: Credentials,
    /// The values of the path's open places.
    pub(crate) path: BTreeMap<String, String>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The body of a route that reads it while it arrives, until the route takes it.
    pub(crate) arriving: Mutex<Option<Body>>,
}

impl Call {
    /// The value of one of the path's open places.
    pub(crate) fn segment(&self, name: &str) -> Result<&str, Failure> {
        let found = self.path.get(name).map(String::as_str);
        found.ok_or_else(|| Failure::internal(format!("the route has no {name}")))
    }

    /// The profile that the path names.
    pub(crate) fn profile(&self) -> Result<ProfileName, Failure> {
        let usage = |error: store::name::InvalidName| Failure::usage(error.to_string());
        let tenant = self.segment("tenant_id")?.parse().map_err(usage)?;
        let profile = self.segment("profile_id")?.parse().map_err(usage)?;
        Ok(ProfileName { tenant, profile })
    }

    /// The profile that the path names, as one Chrome writes it.
    pub(crate) fn lineage(&self, chrome_major: Option<ChromeMajor>) -> Result<LineageName, Failure> {
        Ok(LineageName { profile: self.profile()?, chrome_major })
    }

    /// The snapshot that the path names.
    pub(crate) fn snapshot(&self, chrome_major: Option<ChromeMajor>) -> Result<SnapshotChoice, Failure> {
        let named = self.named(self.segment("sha_prefix")?, chrome_major)?;
        // Whichever is current is not looked for among all.
        Ok(SnapshotChoice { sha: named.sha.filter(|sha| !sha.is_current()), ..named })
    }

    /// The snapshot that the path names by digits of its id. These name the same snapshot, or none, however
    /// often they are sent; the target of `latest~1` or of a time changes.
    pub(crate) fn snapshot_by_id(
        &self,
        chrome_major: Option<ChromeMajor>,
    ) -> Result<SnapshotChoice, Failure> {
        let typed = self.segment("sha_prefix")?;
        let sha = Reference::digits(typed).filter(|_| typed.len() >= ID_DIGITS).ok_or_else(|| {
            let message = format!("{typed:?} does not name one snapshot for good");
            Failure::usage(message)
                .hint(format!("send at least {ID_DIGITS} digits of its id, as the list has them"))
        })?;
        Ok(SnapshotChoice { name: SnapshotName::current(self.profile()?), chrome_major, sha: Some(sha) })
    }

    /// A snapshot of the profile that the path names.
    pub(crate) fn named(
        &self,
        reference: &str,
        chrome_major: Option<ChromeMajor>,
    ) -> Result<SnapshotChoice, Failure> {
        let sha: Reference =
            reference.parse().map_err(|error: InvalidReference| Failure::usage(error.to_string()))?;
        Ok(SnapshotChoice { name: SnapshotName::current(self.profile()?), chrome_major, sha: Some(sha) })
    }

    /// The part after the `?`.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let read = Query::try_from_uri(&self.uri);
        read.map(|Query(query)| query).map_err(|error| Failure::usage(error.body_text()))
    }

    /// A header as text. One that is there twice could mean either.
    pub(crate) fn header(&self, name: &str) -> Result<Option<&str>, Failure> {
        if self.headers.get_all(name).iter().count() > 1 {
            return Err(Failure::usage(format!("{name} is there more than once")));
        }
        let text = self.headers.get(name).map(|value| value.to_str());
        text.transpose().map_err(|_| Failure::usage(format!("{name} is no plain text")))
    }

    /// The snapshot that must be current, if the caller says so. `*` is met by any.
    pub(crate) fn if_match(&self) -> Result<Option<String>, Failure> {
        let Some(value) = self.header(header::IF_MATCH.as_str())?.filter(|value| value.trim() != "*") else {
            return Ok(None);
        };
        let digits = value.trim().strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let digits = digits.filter(|digits| !digits.contains('"')).ok_or_else(|| {
            Failure::usage("If-Match takes one entity tag, as the list of snapshots has it in its ETag")
        })?;
        Ok(Some(digits.to_owned()))
    }

    /// Why a move of the pointer failed: if something else is current than the caller has said, its condition did.
    pub(crate) fn unmatched(&self, failure: Failure) -> Refusal {
        let is_conditional = self.if_match().is_ok_and(|expected| expected.is_some());
        match is_conditional && failure.kind == ErrorKind::PointerMoved {
            true => Refusal::new(StatusCode::PRECONDITION_FAILED, failure.hint("look what is current now")),
            false => failure.into(),
        }
    }

    /// The document that was sent.
    pub(crate) fn document<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::usage(format!("the body is not what this route takes: {error}")))
    }

    /// Fails unless the caller has at least this role, which `what` needs.
    pub(crate) fn require_role(&self, role: Role, what: &str) -> Result<(), Refusal> {
        match self.role {
            Some(own) if own >= role => Ok(()),
            Some(own) => {
                Err(Refusal::forbidden(format!("{what} needs the role {role}, and the caller has {own}")))
            }
            None => Err(Refusal::forbidden(format!("{what} needs the role {role}"))),
        }
    }

    /// Fails unless the caller may act for this tenant; for all, if none is named.
    pub(crate) fn require_tenant(&self, tenant: Option<&Tenant>) -> Result<(), Refusal> {
        match (&self.tenants, tenant) {
            (Some(Tenants::All), _) => Ok(()),
            (Some(tenants), Some(tenant)) if tenants.include(tenant.as_str()) => Ok(()),
            (_, Some(_)) => Err(Refusal::forbidden("this token is not for this tenant")),
            (_, None) => Err(Refusal::forbidden("this is for all tenants, and the token is not")),
        }
    }

    /// The actor in events: the caller, and the request.
    pub(crate) fn actor(&self) -> ActorName {
        ActorName {
            run_id: Some(self.caller.clone().unwrap_or_else(|| "nobody".to_owned())),
            host: None,
            host_run_id: format!("request {}", self.request_id),
        }
    }
}

/// Marks an answer of which nothing is to be told: nothing was changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NothingChanged;

/// Marks an answer with the tenant whose events tell of it, where the path names none.
#[derive(Clone, Debug)]
pub(crate) struct ChangeOf(pub(crate) Tenant);

/// An outcome as it is answered; if nothing was changed, no event tells of it.
pub(crate) fn answer_change(outcome: &impl Serialize, is_changed: bool) -> Answer {
    let mut response = answer(outcome)?;
    if !is_changed {
        response.extensions_mut().insert(NothingChanged);
    }
    Ok(response)
}

/// An outcome as it is answered.
pub(crate) fn answer(outcome: &impl Serialize) -> Answer {
    answer_with(StatusCode::OK, outcome)
}

/// A document with a status of its own.
pub(crate) fn answer_with(status: StatusCode, document: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(document)
        .map_err(|error| Failure::internal(format!("the outcome cannot be written: {error}")))?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
