//! `Credentials` holds the token, certificate or user that a caller shows, and finds out who it is, again and again while a stream lasts.

use axum::http::{HeaderMap, HeaderValue, header, request::Parts};
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
    /// Whether there is one more `Authorization`, of which a proxy may have looked at the other.
    is_ambiguous: bool,
    /// Whether a page of another site has made a browser ask.
    is_of_another_site: bool,
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
        Self {
            authorization,
            is_ambiguous: parts.headers.get_all(header::AUTHORIZATION).iter().count() > 1,
            is_of_another_site: is_of_another_site(&parts.headers),
            certified: parts.extensions.get().cloned(),
            user,
        }
    }

    /// Who shows a token; or else, who shows a certificate, or is a user of this host that is known.
    pub(crate) fn caller(&self, server: &Server) -> Result<Caller, Refusal> {
        if self.is_ambiguous {
            return Err(Refusal::unknown_caller("there is more than one Authorization"));
        }
        let Some(value) = &self.authorization else {
            if let Some(certified) = &self.certified {
                // A browser shows its certificate whichever page makes it ask. A token it does not send by itself.
                return match self.is_of_another_site {
                    true => Err(Refusal::forbidden("a page of another site cannot use this certificate")),
                    false => by_certificate(server, certified),
                };
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

/// Whether a browser says that a page of another site has made it ask. Others than browsers say nothing of the kind.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return !matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    headers.contains_key(header::ORIGIN)
        && text(header::ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host)
            != text(header::HOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_says_which_page_makes_it_ask() {
        let of = |lines: &[(&'static str, &'static str)]| {
            let pairs =
                lines.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            is_of_another_site(&pairs.collect())
        };
        let host = ("host", "here:7070");
        assert!(!of(&[host]) && !of(&[host, ("origin", "https://here:7070")]));
        assert!(!of(&[host, ("sec-fetch-site", "same-origin"), ("origin", "https://here")]));
        assert!(!of(&[host, ("sec-fetch-site", "none")]));
        for (name, value) in [
            ("origin", "https://elsewhere"),
            ("origin", "https://here"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(of(&[host, (name, value)]), "{name}: {value}");
        }
    }
}
