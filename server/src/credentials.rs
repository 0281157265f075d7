//! `Credentials` holds the token, certificate or user that a caller shows, and finds out who it is, again and again while a stream lasts.

use axum::http::{HeaderValue, header, request::Parts};
use engine::failure::Failure;
use store::catalog::clock;

use crate::{
    peer::{LocalUser, Peer},
    problem::Refusal,
    server_state::Server,
    tls::Certified,
    tokens::Caller,
    users,
};

/// What a caller shows of itself.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    authorization: Option<HeaderValue>,
    certified: Option<Certified>,
    /// The user of this host that has connected, if it came through a socket in the file system.
    pub(crate) user: Option<LocalUser>,
}

impl Credentials {
    /// With this request.
    pub(crate) fn by(parts: &Parts) -> Self {
        let mut authorization = parts.headers.get(header::AUTHORIZATION).cloned();
        if let Some(secret) = &mut authorization {
            secret.set_sensitive(true);
        }
        let user = match parts.extensions.get() {
            Some(Peer::Socket(user)) => *user,
            _ => None,
        };
        Self { authorization, certified: parts.extensions.get().cloned(), user }
    }

    /// Who shows a token; or else, who shows a certificate, or is a user of this host that is known.
    pub(crate) fn caller(&self, server: &Server) -> Result<Caller, Refusal> {
        let Some(value) = &self.authorization else {
            if let Some(certified) = &self.certified {
                return by_certificate(server, certified);
            }
            let user = self.user.and_then(|user| users::caller(&server.socket_users, user.uid));
            return user.ok_or_else(|| Refusal::unknown_caller("this needs a token"));
        };
        let secret = value.to_str().ok().and_then(|value| value.split_once(' '));
        let secret = secret.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = secret.and_then(|(_, secret)| server.tokens.find(secret.trim()));
        let token = token.ok_or_else(|| Refusal::unknown_caller("nobody knows this token"))?;
        match token.is_expired(clock::unix_ms()) {
            true => Err(Refusal::unknown_caller("this token has expired")),
            false => Ok(token.into()),
        }
    }
}

/// Who the certificate of the connection says, if it is still good.
fn by_certificate(server: &Server, certified: &Certified) -> Result<Caller, Refusal> {
    let tls = server.tls.as_ref().ok_or_else(|| Failure::internal("the connection is not encrypted"))?;
    tls.require_trust(certified).map_err(|problem| {
        Refusal::unknown_caller(&format!(
            "the certificate of this connection is not good any more: {problem}"
        ))
    })?;
    certified.caller.clone().map_err(|problem| Refusal::unknown_caller(&problem))
}
