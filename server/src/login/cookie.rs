//! `LoginCookie` is a browser's memory of a log-in: the name of a token, an end, and a signature.

use axum::http::{HeaderMap, HeaderValue, header};
use engine::failure::Failure;
use subtle::ConstantTimeEq;

use super::key::LoginKey;
use crate::tokens::Token;

/// The name of the cookie.
const NAME: &str = "pstore_login";
/// How long a log-in lasts at most.
const LIFETIME_MS: u64 = 12 * 3600 * 1000;
/// The first part of every cookie of this form.
const VERSION: &str = "1";

/// A cookie that nobody has looked into yet.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LoginCookie(String);

impl std::fmt::Debug for LoginCookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoginCookie")
    }
}

/// The cookie of a request, if it has one. One that is there twice is none.
pub(crate) fn named_in(headers: &HeaderMap) -> Option<LoginCookie> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut found = lines.flat_map(|line| line.split(';')).filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == NAME).then(|| LoginCookie(value.to_owned()))
    });
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// A header that makes a browser forget its cookie.
pub(crate) fn cleared() -> HeaderValue {
    const CLEARED: &str = "pstore_login=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0";
    HeaderValue::from_static(CLEARED)
}

impl LoginCookie {
    /// For the holder of a token, and when it ends.
    pub(crate) fn issue(key: &LoginKey, token: &Token, nonce: [u8; 16], now_ms: u64) -> (Self, u64) {
        let end = now_ms.saturating_add(LIFETIME_MS);
        let end = token.expires_at_ms.map_or(end, |token| token.min(end));
        let nonce: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        let payload = format!("{VERSION}.{end}.{nonce}.{}", token.name);
        let signature = signature(key, &payload, token);
        (Self(format!("{payload}.{signature}")), end)
    }

    /// The token and the end, if this server, or one with the same key, has issued it and it has not ended.
    pub(crate) fn token(
        &self,
        key: &LoginKey,
        named: impl FnOnce(&str) -> Option<Token>,
        now_ms: u64,
    ) -> Option<(Token, u64)> {
        let (payload, signed) = self.0.rsplit_once('.')?;
        let mut parts = payload.splitn(4, '.');
        let (version, end) = (parts.next()?, parts.next()?.parse::<u64>().ok()?);
        let (_nonce, name) = (parts.next()?, parts.next()?);
        let token = named(name)?;
        let expected = signature(key, payload, &token);
        let is_signed = bool::from(expected.as_bytes().ct_eq(signed.as_bytes()));
        (version == VERSION && is_signed && now_ms < end && !token.is_expired(now_ms)).then_some((token, end))
    }

    /// The number that tells it from all other cookies.
    pub(super) fn nonce(&self) -> Option<&str> {
        self.0.split('.').nth(2)
    }

    /// The value that the page must send with a change.
    pub(crate) fn csrf(&self, key: &LoginKey) -> String {
        key.sign("csrf", &[&self.0]).to_hex().to_string()
    }

    /// Whether this is the value that the page must send.
    pub(crate) fn is_csrf(&self, key: &LoginKey, sent: &str) -> bool {
        self.csrf(key).as_bytes().ct_eq(sent.as_bytes()).into()
    }

    /// A header that makes a browser keep it. `secure`: only for encrypted connections.
    pub(crate) fn header(&self, seconds: u64, secure: bool) -> Result<HeaderValue, Failure> {
        let Self(value) = self;
        let secure = if secure { "; Secure" } else { "" };
        let line = format!("{NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
        let mut line = HeaderValue::from_str(&line)
            .map_err(|error| Failure::internal(format!("the cookie cannot be sent: {error}")))?;
        line.set_sensitive(true);
        Ok(line)
    }
}

fn signature(key: &LoginKey, payload: &str, token: &Token) -> String {
    key.sign("cookie", &[payload, &token.digest.to_string()]).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Role, SecretDigest, Tenants};

    fn token(secret: &str) -> Token {
        Token {
            name: "ops.1".to_owned(),
            digest: SecretDigest::of(secret),
            tenants: Tenants::All,
            role: Role::Read,
            expires_at_ms: None,
        }
    }

    #[test]
    fn a_cookie_is_good_for_its_token_until_its_end_and_for_its_key_alone() {
        let (key, other) = (LoginKey::open(None).unwrap(), LoginKey::open(None).unwrap());
        let (cookie, end) = LoginCookie::issue(&key, &token("s1"), [7; 16], 1000);
        assert_eq!(end, 1000 + LIFETIME_MS);
        let known = |key: &LoginKey, token: Token, now: u64| {
            cookie.token(key, |name| (name == "ops.1").then_some(token), now).is_some()
        };
        assert!(known(&key, token("s1"), end - 1));
        assert!(!known(&key, token("s1"), end), "it has ended");
        assert!(!known(&other, token("s1"), 2000), "another key has signed it");
        assert!(!known(&key, token("s2"), 2000), "the token was replaced");
        assert!(
            !known(&key, Token { expires_at_ms: Some(1500), ..token("s1") }, 2000),
            "the token has ended"
        );
        assert!(cookie.token(&key, |_| None, 2000).is_none(), "the token was removed");
        let (short, end) =
            LoginCookie::issue(&key, &Token { expires_at_ms: Some(5000), ..token("s1") }, [7; 16], 1000);
        assert_eq!(end, 5000);
        assert!(cookie.is_csrf(&key, &cookie.csrf(&key)) && !cookie.is_csrf(&key, &short.csrf(&key)));
    }

    #[test]
    fn no_letter_of_a_cookie_can_be_changed() {
        let key = LoginKey::open(None).unwrap();
        let (LoginCookie(text), _) = LoginCookie::issue(&key, &token("s1"), [7; 16], 1000);
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            let changed = LoginCookie(String::from_utf8(bytes).unwrap());
            assert!(changed.token(&key, |_| Some(token("s1")), 2000).is_none(), "{at}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others_and_not_twice() {
        let of = |lines: &[&'static str]| {
            let pairs = lines.iter().map(|line| (header::COOKIE, HeaderValue::from_static(line)));
            named_in(&pairs.collect())
        };
        assert_eq!(of(&["a=b; pstore_login=1.x; c=d"]), Some(LoginCookie("1.x".to_owned())));
        assert_eq!(of(&["a=b", "xpstore_login=1"]), None);
        assert_eq!(of(&["pstore_login=1", "pstore_login=2"]), None);
    }
}
