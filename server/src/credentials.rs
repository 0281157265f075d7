//! `Credentials` holds the token, certificate or user that a caller shows, and identifies the caller by it.

use axum::http::{HeaderMap, HeaderValue, header, request::Parts};
use engine::failure::Failure;
use store::catalog::clock;

use crate::{
    login::{self, CSRF, LoginCookie},
    peer::{LocalUser, Peer},
    problem::Refusal,
    server_state::Server,
    tls::Certified,
    tokens::{Caller, Token},
    users,
};

/// A caller's proofs of who it is.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    authorization: Option<HeaderValue>,
    /// Whether there is one more `Authorization`, of which a proxy may have looked at the other.
    is_ambiguous: bool,
    /// Whether a page of another site has made a browser ask.
    pub(crate) is_of_another_site: bool,
    /// The cookie of a browser whose user has logged in.
    cookie: Option<LoginCookie>,
    /// With which the page proves that it asks for a change.
    csrf: Option<HeaderValue>,
    is_change: bool,
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
            cookie: login::named_in(&parts.headers),
            csrf: parts.headers.get(CSRF).cloned(),
            is_change: !parts.method.is_safe(),
            certified: parts.extensions.get().cloned(),
            user,
        }
    }

    /// The cookie that counts, its token, and its end. A cookie that is not good any more is none.
    pub(crate) fn login(&self, server: &Server) -> Option<(&LoginCookie, Token, u64)> {
        let cookie = self.cookie.as_ref().filter(|_| self.authorization.is_none())?;
        let named = |name: &str| server.tokens.named(name);
        let (token, end) = cookie.token(&server.login_key, named, clock::unix_ms())?;
        (!server.ended_logins.has(&token, cookie)).then_some((cookie, token, end))
    }

    /// Fails unless the page itself makes the browser ask. A browser sends its cookie by itself.
    fn require_page(&self, server: &Server, cookie: &LoginCookie) -> Result<(), Refusal> {
        if self.is_of_another_site {
            return Err(Refusal::forbidden("a page of another site cannot use this log-in"));
        }
        let sent = self.csrf.as_ref().and_then(|value| value.to_str().ok());
        match !self.is_change || sent.is_some_and(|sent| cookie.is_csrf(&server.login_key, sent)) {
            true => Ok(()),
            false => Err(Refusal::forbidden(
                "a change with a cookie needs the header Pstore-Csrf, as GET /v1/login tells it",
            )),
        }
    }

    /// The owner of the token; else the logged-in user, the subject of the certificate, or a known local
    /// user.
    pub(crate) fn caller(&self, server: &Server) -> Result<Caller, Refusal> {
        if self.is_ambiguous {
            return Err(Refusal::unknown_caller("there is more than one Authorization"));
        }
        let Some(value) = &self.authorization else {
            if let Some((cookie, token, _)) = self.login(server) {
                return self.require_page(server, cookie).map(|()| token.into());
            }
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

/// The caller that the connection's certificate names, if the certificate is still good.
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
