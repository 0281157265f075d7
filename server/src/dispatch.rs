//! `dispatch` takes a request to its route: it finds out who calls and whether it may, reads the body within limits, and answers.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    RequestPartsExt, Router,
    body::{Body, Bytes},
    extract::RawPathParams,
    http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts},
    routing::{MethodFilter, on},
};
use engine::{Engine, failure::Failure, interrupt::Interrupt};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use store::{ErrorKind, catalog::clock};

use crate::{
    call::{Answer, Call},
    connections::{Peer, UNIX},
    observer::RequestObserver,
    problem::Refusal,
    rates::Rates,
    route::{Access, Route},
    routes::ROUTES,
    tokens::{Role, Token, TokenFile},
    work::Work,
};

/// The longest body that is read.
const MAX_BODY_BYTES: usize = 64 << 10;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long a request may take before its caller is told to come back.
const REQUEST_TIME: Duration = Duration::from_secs(120);
/// Names a request in the answer.
const REQUEST_ID: &str = "x-request-id";

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) tokens: TokenFile,
    pub(crate) rates: Rates,
    pub(crate) work: Work,
    /// Raised when the server is to stop.
    pub(crate) stopping: Interrupt,
}

/// All routes, and an answer for everything else.
pub(crate) fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        // The table has only methods that can be routed, which a test of the routes sees to.
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let server = Arc::clone(server);
        let run = move |request: Request<Body>| take(Arc::clone(&server), route, request);
        router = router.route(route.path, on(filter, run));
    }
    router
        .fallback(|request: Request<Body>| async move {
            let message = format!("there is no {}", request.uri().path());
            refused(Refusal::new(StatusCode::NOT_FOUND, Failure::new(ErrorKind::NotFound, message)))
        })
        .method_not_allowed_fallback(|request: Request<Body>| async move {
            let message = format!("{} cannot be used with {}", request.uri().path(), request.method());
            refused(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, Failure::usage(message)))
        })
}

fn refused(refusal: Refusal) -> Response<Body> {
    let request_id = clock::new_record_id().to_string();
    marked(refusal.response(&request_id), &request_id)
}

/// Takes a request through a route.
async fn take(server: Arc<Server>, route: &'static Route, request: Request<Body>) -> Response<Body> {
    let (request_id, began) = (clock::new_record_id().to_string(), Instant::now());
    let peer = request.extensions().get::<Peer>().cloned();
    let path = request.uri().path().to_owned();
    let mut caller = None;
    let answer = done(server, route, request, &request_id, &mut caller).await;
    let response = answer.unwrap_or_else(|refusal| {
        if refusal.status.is_server_error() {
            tracing::error!(request_id, "{route:?}: {}", refusal.failure.message);
        }
        refusal.response(&request_id)
    });
    let (peer, caller) = (peer.as_ref().map_or("", |peer| &peer.0), caller.as_deref().unwrap_or(""));
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis() as u64);
    // Whatever changes something, or was to, is told to everybody who keeps the log.
    if route.method == Method::GET {
        tracing::debug!(request_id, caller, peer, status, ms, "GET {path}");
    } else {
        tracing::info!(request_id, caller, peer, status, ms, "audit: {} {path}", route.method);
    }
    marked(response, &request_id)
}

/// What browsers and proxies need to know of every answer.
fn marked(mut response: Response<Body>, request_id: &str) -> Response<Body> {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn done(
    server: Arc<Server>,
    route: &'static Route,
    request: Request<Body>,
    request_id: &str,
    caller: &mut Option<String>,
) -> Answer {
    let (mut parts, body) = request.into_parts();
    let path = path(&mut parts).await?;
    // Callers of a socket have no address of their own.
    if let Some(Peer(address)) = parts.extensions.get().filter(|Peer(address)| &**address != UNIX) {
        require_rate(&server.rates, &format!("address {address}"))?;
    }
    if let Access::Tenant(role) = route.access {
        let token = known(&server.tokens, &parts)?;
        *caller = Some(token.name.clone());
        require_rate(&server.rates, &format!("token {}", token.name))?;
        require_access(&token, role, &path)?;
    }
    let body = received(&parts, body).await?;
    let interrupt = InterruptedWithCaller(Interrupt::new());
    let observer = Arc::new(RequestObserver { request_id: request_id.to_owned() });
    let call = Call {
        engine: server.engine.for_request(observer, interrupt.0.clone()),
        request_id: request_id.to_owned(),
        caller: caller.clone(),
        path,
        uri: parts.uri,
        body,
    };
    let mut work = std::pin::pin!(server.work.finish((route.run)(call)));
    let stopping = server.stopping.raised();
    tokio::select! {
        answer = &mut work => return answer,
        () = tokio::time::sleep(REQUEST_TIME) => {
            let message = format!("there was no outcome within {} s", REQUEST_TIME.as_secs());
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

/// Raised when the caller goes away, for then its request is dropped: waiting ends, and what is being
/// changed is brought to its end.
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

/// What stands in the open places of the path.
async fn path(parts: &mut Parts) -> Result<BTreeMap<String, String>, Refusal> {
    let params = parts.extract::<RawPathParams>().await;
    let params = params.map_err(|error| Failure::usage(error.body_text()))?;
    Ok(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The token that the caller shows.
fn known(tokens: &TokenFile, parts: &Parts) -> Result<Token, Refusal> {
    let Some(value) = parts.headers.get(header::AUTHORIZATION) else {
        return Err(Refusal::unknown_caller("this needs a token"));
    };
    let secret = value.to_str().ok().and_then(|value| value.split_once(' '));
    let secret = secret.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let token = secret.and_then(|(_, secret)| tokens.find(secret.trim()));
    let token = token.ok_or_else(|| Refusal::unknown_caller("nobody knows this token"))?;
    match token.is_expired(clock::unix_ms()) {
        true => Err(Refusal::unknown_caller("this token has expired")),
        false => Ok(token),
    }
}

/// Fails unless the token is for the tenant, with this role. Whether what is asked for exists plays no part.
fn require_access(token: &Token, role: Role, path: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if !path.get("tenant_id").is_some_and(|tenant| token.tenants.include(tenant)) {
        return Err(Refusal::forbidden("this token is not for this tenant"));
    }
    match token.role < role {
        true => {
            Err(Refusal::forbidden(format!("this needs the role {role}, and the token has {}", token.role)))
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
