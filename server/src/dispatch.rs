//! `dispatch` takes a request to its route: it identifies the caller, checks its tenant and its role, reads the body
//! within limits, and answers.
//!
//! It checks the tenant that the path names. Where the path names none, the route checks it with
//! `Call::require_tenant`.

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use axum::{
    RequestPartsExt, Router,
    body::{Body, Bytes},
    extract::RawPathParams,
    http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts},
    routing::{MethodFilter, on},
};
use engine::{failure::Failure, interrupt::Interrupt};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::Mutex;
use store::{ErrorKind, bucket::request_id, catalog::clock, name::Tenant};

use crate::{
    audit::{Audit, REQUEST_ID},
    call::{Answer, Call, ChangeOf, NothingChanged},
    concurrency_limit::Permit,
    credentials::Credentials,
    idempotency, kept_answers,
    observer::RequestObserver,
    peer::Peer,
    problem::Refusal,
    rates::Rates,
    route::{Access, Route},
    routes,
    server_state::Server,
    tokens::{Caller, Role},
    unfinished_work::caught,
};

/// The longest body that is read.
const MAX_BODY_BYTES: usize = 64 << 10;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

/// All routes, and an answer for everything else.
pub(crate) fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        // The table has only methods that can be routed, which a test of the routes sees to.
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let server = Arc::clone(server);
        let run = move |request: Request<Body>| take(Arc::clone(&server), route, request);
        router = router.route(route.path, on(filter, run));
    }
    let (nowhere, otherwise) = (Arc::clone(server), Arc::clone(server));
    router
        .fallback(|request: Request<Body>| async move {
            let message = format!("there is no {}", request.uri().path());
            let refusal = Refusal::new(StatusCode::NOT_FOUND, Failure::new(ErrorKind::NotFound, message));
            refused(&nowhere, &request, refusal)
        })
        .method_not_allowed_fallback(|request: Request<Body>| async move {
            let message = format!("{} cannot be used with {}", request.uri().path(), request.method());
            let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, Failure::usage(message));
            refused(&otherwise, &request, refusal)
        })
}

/// The answer to a request that no route takes. It counts against the address.
fn refused(server: &Server, request: &Request<Body>, refusal: Refusal) -> Response<Body> {
    let request_id = clock::new_record_id().to_string();
    let network = request.extensions().get().and_then(Peer::network);
    let refusal = match network.map(|network| require_rate(&server.rates, &network)) {
        Some(Err(too_often)) => too_often,
        _ => refusal,
    };
    marked(refusal.response(&request_id), &request_id)
}

/// Takes a request through a route.
async fn take(server: Arc<Server>, route: &'static Route, request: Request<Body>) -> Response<Body> {
    let mut audit = Audit::new(&route.method, &request);
    let request_id = audit.request_id.clone();
    let answer = match admitted(&server, route, request, &mut audit).await {
        Ok(admitted) => carried_out(&server, route, admitted, audit).await,
        Err(refusal) => {
            let answer = Err(refusal);
            audit.tell(&answer);
            answer
        }
    };
    let response = answer.unwrap_or_else(|refusal| {
        if refusal.status.is_server_error() {
            tracing::error!(request_id, "{route:?}: {}", refusal.failure.message);
        }
        refusal.response(&request_id)
    });
    marked(response, &request_id)
}

/// Adds the headers that browsers and proxies need in every answer.
fn marked(mut response: Response<Body>, request_id: &str) -> Response<Body> {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A request that may be carried out, and the room that it takes meanwhile.
struct Admitted {
    call: Call,
    room: Option<Permit>,
}

/// Finds out who calls and whether it may, and reads all that it sends.
async fn admitted(
    server: &Arc<Server>,
    route: &'static Route,
    request: Request<Body>,
    audit: &mut Audit,
) -> Result<Admitted, Refusal> {
    let (mut parts, body) = request.into_parts();
    let caller = caller(server, route, &parts, audit)?;
    let path = path(&mut parts).await?;
    match (route.access, &caller) {
        (Access::Tenant(role), Some(caller)) => {
            require_tenant(caller, &path)?;
            require_role(caller, role)?;
        }
        (Access::Token(role), Some(caller)) => require_role(caller, role)?,
        _ => {}
    }
    let (body, arriving) = match route.takes_archive {
        true => (Bytes::new(), Some(body)),
        false => (received(&parts, body).await?, None),
    };
    // Whoever watches the server is answered however much there is to do.
    let room = match (route.access, path.get("tenant_id"), &audit.caller) {
        (Access::Open, ..) => None,
        (Access::Tenant(_), Some(tenant), _) => Some(server.requests.take_as(format!("tenant {tenant}"))?),
        (_, _, Some(caller)) => Some(server.requests.take_as(caller.clone())?),
        _ => Some(server.requests.take()?),
    };
    let observer = Arc::new(RequestObserver { request_id: audit.request_id.clone() });
    let call = Call {
        server: Arc::clone(server),
        engine: server.engine.for_request(observer, Interrupt::new()),
        request_id: audit.request_id.clone(),
        caller: audit.caller.clone(),
        role: caller.as_ref().map(|caller| caller.role),
        tenants: caller.map(|caller| caller.tenants),
        shown: Credentials::by(&parts),
        path,
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body,
        arriving: Mutex::new(arriving),
    };
    Ok(Admitted { call, room })
}

/// The caller, if the route needs one. A request counts against a caller that is known, and else
/// against the address, which callers behind a proxy share.
fn caller(
    server: &Server,
    route: &Route,
    parts: &Parts,
    audit: &mut Audit,
) -> Result<Option<Caller>, Refusal> {
    let known = match route.access {
        Access::Open => Ok(None),
        Access::Tenant(_) | Access::Token(_) => Credentials::by(parts).caller(server).map(Some),
    };
    if let Ok(Some(caller)) = &known {
        audit.caller = Some(caller.to_string());
        require_rate(&server.rates, &caller.to_string())?;
    } else if let Some(network) = parts.extensions.get().and_then(Peer::network) {
        require_rate(&server.rates, &network)?;
    }
    known
}

/// Carries a request out. A change is brought to its end, and told in the log, whether or not its caller
/// still waits; all else ends with its caller.
async fn carried_out(
    server: &Server,
    route: &'static Route,
    Admitted { call, room }: Admitted,
    audit: Audit,
) -> Answer {
    let interrupt = InterruptedWithCaller(call.engine.interrupt.clone());
    let engine = route.is_told.then(|| call.engine.clone());
    let tenant: Option<Tenant> = call.path.get("tenant_id").and_then(|tenant| tenant.parse().ok());
    let actor = call.actor();
    let doing = request_id::for_request(call.request_id.clone(), idempotency::once(route, call));
    let doing = async move {
        let answer = caught(doing).await;
        let status = audit.tell(&answer);
        let has_changed = match &answer {
            Ok(answer) => {
                !kept_answers::is_replay(answer) && answer.extensions().get::<NothingChanged>().is_none()
            }
            Err(_) => true,
        };
        let named = answer.as_ref().ok().and_then(|answer| answer.extensions().get::<ChangeOf>());
        let tenant = tenant.or_else(|| named.map(|ChangeOf(tenant)| tenant.clone()));
        if let Some((engine, tenant)) = engine.zip(tenant).filter(|_| has_changed) {
            audit.store(&engine, &tenant, &actor, status).await;
        }
        drop(room);
        answer
    };
    let mut work: Pin<Box<dyn Future<Output = Answer> + Send + '_>> = match route.method == Method::GET {
        true => Box::pin(doing),
        false => Box::pin(server.work.finish(doing)),
    };
    let stopping = server.stopping.raised();
    let patience = route.patience;
    tokio::select! {
        answer = &mut work => return answer,
        () = tokio::time::sleep(patience) => {
            let message = format!("there was no outcome within {} s", patience.as_secs());
            return Err(Failure::new(ErrorKind::Unavailable, message)
                .hint("a change that was begun is brought to its end; look what became of it")
                .into());
        }
        () = stopping => {}
    }
    // Who only waits need not go on; all else is brought to its end.
    interrupt.0.raise();
    work.await
}

/// Raised when the caller goes away, for then its request is dropped: waiting ends, and changes under
/// way are brought to their end.
struct InterruptedWithCaller(Interrupt);

impl Drop for InterruptedWithCaller {
    fn drop(&mut self) {
        self.0.raise();
    }
}

fn require_rate(rates: &Rates, caller: &str) -> Result<(), Refusal> {
    if rates.admit(caller) {
        return Ok(());
    }
    let failure = Failure::new(ErrorKind::Unavailable, format!("{caller} asks too often"));
    Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, failure.hint("ask again in a second")))
}

/// The values of the path's open places.
async fn path(parts: &mut Parts) -> Result<BTreeMap<String, String>, Refusal> {
    let params = parts.extract::<RawPathParams>().await;
    let params = params.map_err(|error| Failure::usage(error.body_text()))?;
    Ok(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Fails unless the caller may act for the tenant. Whether the thing asked for exists plays no part.
fn require_tenant(caller: &Caller, path: &BTreeMap<String, String>) -> Result<(), Refusal> {
    match path.get("tenant_id").is_some_and(|tenant| caller.tenants.include(tenant)) {
        true => Ok(()),
        false => {
            let word = caller.kind.word();
            Err(Refusal::forbidden(format!("this {word} is not for this tenant")))
        }
    }
}

/// Fails unless the caller has at least this role.
fn require_role(caller: &Caller, role: Role) -> Result<(), Refusal> {
    let word = caller.kind.word();
    match caller.role < role {
        true => {
            Err(Refusal::forbidden(format!("this needs the role {role}, and the {word} has {}", caller.role)))
        }
        false => Ok(()),
    }
}

/// The whole body, if it is neither too long nor too late.
async fn received(parts: &Parts, body: Body) -> Result<Bytes, Refusal> {
    let too_long = || {
        let message = format!("the body is longer than {MAX_BODY_BYTES} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Failure::usage(message))
    };
    let announced = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse::<u64>().ok())
        .is_some_and(|length| length > MAX_BODY_BYTES as u64)
    {
        return Err(too_long());
    }
    let reading = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIME, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_long()),
        Ok(Err(error)) => Err(Failure::usage(format!("the body cannot be read: {error}")).into()),
        Err(_) => {
            let message = format!("the body took longer than {} s", BODY_TIME.as_secs());
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, Failure::usage(message)))
        }
    }
}
