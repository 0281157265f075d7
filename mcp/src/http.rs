//! `http` answers one request of the streamable HTTP transport. Nothing is kept between two requests, so every one says
//! anew who its caller is, and any server of a fleet answers it.

use std::sync::Arc;

use http_body_util::{Full, combinators::BoxBody};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};

use crate::agent_server::AgentServer;

/// Answers a request. Which names and pages may reach the server is for who receives the request to say.
pub async fn answer(
    server: AgentServer,
    request: http::Request<Full<bytes::Bytes>>,
) -> http::Response<BoxBody<bytes::Bytes, std::convert::Infallible>> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts();
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    service.handle(request).await
}
