//! `mcp` lets agents use the checkpoints of their workspaces on the server's host, and store their tenants' containers, over the
//! Model Context Protocol.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use engine::{failure::Failure, interrupt::Interrupt};
use http_body_util::Full;
use mcp::{AgentServer, Containers, Workspaces, containers::Permit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use store::{ErrorKind, name::Tenant};

use super::containers;
use crate::{
    call::{Answer, Call},
    problem::Refusal,
    route::{Access::Token, Route, Sent::Mcp},
    schemas::received,
    tokens::Role,
};

/// The media types that a client accepts, which the protocol requires.
const ACCEPT: (&str, &str) =
    ("Accept", "`application/json, text/event-stream`, which the protocol requires.");
/// The revision that a client speaks.
const REVISION: (&str, &str) =
    ("MCP-Protocol-Version", "The revision of the protocol, such as `2026-07-28`.");

pub(super) static ROUTES: &[Route] = &[Route::new(
    "mcp",
    Method::POST,
    "/mcp",
    Token(Role::Run),
    "Lets an agent use the checkpoints of its workspaces, over the Model Context Protocol (streamable HTTP)",
    Mcp,
    |call| Box::pin(answer(call)),
)
.headers(&[ACCEPT, REVISION])
.body(received::<McpMessage>)];

/// A message of the protocol.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[allow(dead_code)] // It describes what is handed on as it is.
pub struct McpMessage {
    /// `2.0`.
    pub jsonrpc: String,
    /// Names the request; a notification has none.
    pub id: Option<Value>,
    /// Such as `tools/call`.
    pub method: String,
    /// The parameters of the method.
    pub params: Option<Value>,
}

/// The containers that the caller may store: those of its tenants, if this server stores any. `left` is raised when it leaves.
fn stored_here(call: &Call, left: &Interrupt) -> Option<Containers> {
    let docker_host = call.server.containers.clone()?;
    let server = Arc::clone(&call.server);
    let admits = move |tenant: &Tenant| match containers::room(&server, tenant) {
        // With progress, the answer begins before the snapshot has ended. The server waits for its end.
        Ok(room) => Ok(Box::new((room, server.work.begin())) as Permit),
        Err(refusal) => Err(refusal.failure),
    };
    let interrupts = (left.clone(), call.server.ending.clone());
    Some(Containers::of_tenants(docker_host, call.actor(), interrupts, admits))
}

/// Answers one message. Nothing is kept between two of them, so every one is for the tenants of its own token.
async fn answer(call: Call) -> Answer {
    let Some(folder) = call.server.workspaces.clone() else {
        let failure = Failure::new(ErrorKind::NotFound, "this server offers no workspaces");
        return Err(failure.hint("its operator starts it with --workspaces DIRECTORY").into());
    };
    let tenants = call.tenants.clone().ok_or_else(|| Refusal::forbidden("this needs a token"))?;
    let workspaces = Workspaces::below(folder, move |tenant| tenants.include(tenant.as_str()));
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = call.uri.clone();
    *request.headers_mut() = call.headers.clone();
    // Who calls is known; nothing behind this needs the secret.
    request.headers_mut().remove(header::AUTHORIZATION);
    request.headers_mut().remove(header::COOKIE);
    let server = AgentServer::new(call.engine.clone(), workspaces);
    let left = Interrupt::new();
    let server = match stored_here(&call, &left) {
        Some(containers) => server.with_containers(containers),
        None => server,
    };
    let mut answering = Box::pin(mcp::http::answer(server, request));
    let answer = tokio::select! {
        answer = &mut answering => answer,
        // Once the answer has begun, its reader is listened to instead.
        () = call.engine.interrupt.raised() => {
            left.raise();
            answering.await
        }
    };
    Ok(answer.map(Body::new))
}
