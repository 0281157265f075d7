//! `login` gives a browser a cookie for a token, tells who calls, and takes the cookie back.

use axum::http::{Method, header};
use engine::failure::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{ErrorKind, catalog::clock};

use crate::{
    call::{Answer, Call, answer},
    login::{LoginCookie, cleared},
    problem::Refusal,
    route::{
        Access::{Open, Token},
        Route,
        Sent::Document,
    },
    schemas::{received, sent},
    tokens::{Role, Tenants},
};

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "log_in",
        Method::POST,
        "/v1/login",
        Open,
        "Gives a browser a cookie that stands for a token, for 12 hours or until the token ends",
        Document(sent::<LoginOutcome>),
        |call| Box::pin(log_in(call)),
    )
    .body(received::<LoginBody>),
    Route::new(
        "login",
        Method::GET,
        "/v1/login",
        Token(Role::Read),
        "Tells who calls, and what a page must send with a change",
        Document(sent::<LoginOutcome>),
        |call| Box::pin(login(call)),
    ),
    Route::new(
        "log_out",
        Method::DELETE,
        "/v1/login",
        Open,
        "Takes the cookie of a browser back, and ends it at this server",
        Document(sent::<LogoutOutcome>),
        |call| Box::pin(log_out(call)),
    ),
];

/// The token of somebody who logs in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginBody {
    /// The secret of the token.
    pub token: String,
}

/// The caller, with its rights.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoginOutcome {
    /// The name of the caller in events.
    pub caller: String,
    /// The rights of the caller.
    pub role: Role,
    /// The tenants that the caller may act for; `*` for all.
    pub tenants: Vec<String>,
    /// When the log-in ends; none of a caller without a cookie.
    pub expires_at_ms: Option<u64>,
    /// The value that a page sends with a change as `Pstore-Csrf`; none of a caller without a cookie.
    pub csrf_token: Option<String>,
}

/// That the cookie is gone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogoutOutcome {
    /// Always `logged_out`.
    pub outcome: &'static str,
}

async fn log_in(call: Call) -> Answer {
    if call.shown.is_of_another_site {
        return Err(Refusal::forbidden("a page of another site cannot log in here"));
    }
    let LoginBody { token: secret } = call.document()?;
    let (server, now_ms) = (&call.server, clock::unix_ms());
    let token = server.tokens.find(secret.trim()).filter(|token| !token.is_expired(now_ms));
    let token = token.ok_or_else(|| Refusal::unknown_caller("nobody knows this token, or it has expired"))?;
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)
        .map_err(|error| Failure::new(ErrorKind::Io, format!("this host gives no random bytes: {error}")))?;
    let (cookie, end) = LoginCookie::issue(&server.login_key, &token, nonce, now_ms);
    // A proxy may be what encrypts: the browser tells how it sees this page.
    let origin = call.header(header::ORIGIN.as_str())?.unwrap_or_default();
    let is_secure = server.tls.is_some() || origin.starts_with("https://");
    let line = cookie.header(end.saturating_sub(now_ms) / 1000, is_secure)?;
    let caller = crate::tokens::Caller::from(token);
    let mut response = answer(&LoginOutcome {
        caller: caller.to_string(),
        role: caller.role,
        tenants: caller.tenants.names(),
        expires_at_ms: Some(end),
        csrf_token: Some(cookie.csrf(&server.login_key)),
    })?;
    response.headers_mut().insert(header::SET_COOKIE, line);
    Ok(response)
}

async fn login(call: Call) -> Answer {
    let key = &call.server.login_key;
    let by_cookie = call.shown.login(&call.server);
    answer(&LoginOutcome {
        caller: call.caller.clone().unwrap_or_default(),
        role: call.role.unwrap_or(Role::Read),
        tenants: call.tenants.as_ref().map(Tenants::names).unwrap_or_default(),
        expires_at_ms: by_cookie.as_ref().map(|(_, _, end)| *end),
        csrf_token: by_cookie.map(|(cookie, ..)| cookie.csrf(key)),
    })
}

/// A page of another site cannot end a log-in, but nobody is kept from leaving.
async fn log_out(call: Call) -> Answer {
    let login = call.shown.login(&call.server).filter(|_| !call.shown.is_of_another_site);
    if let Some((cookie, token, end)) = login {
        call.server.ended_logins.add(&token, cookie, end, clock::unix_ms());
    }
    let mut response = answer(&LogoutOutcome { outcome: "logged_out" })?;
    response.headers_mut().insert(header::SET_COOKIE, cleared());
    Ok(response)
}
