//! `secret` compares the secret that a caller sends with those of all tokens, in constant time.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Token;

/// The SHA-256 of a secret: all that is kept of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Of a secret as its holder sends it.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Of the 64 digits that a token file has.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_digest {
            return None;
        }
        let mut digest = [0; 32];
        for (at, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(digest))
    }
}

impl fmt::Display for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The token with this secret. Each one is compared, and each whole, so that the time tells nothing.
pub(super) fn find<'a>(tokens: &'a [Token], secret: &str) -> Option<&'a Token> {
    let digest = SecretDigest::of(secret);
    let mut found = None;
    for token in tokens {
        if bool::from(token.digest.0.ct_eq(&digest.0)) {
            found = Some(token);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Role, Tenants};

    #[test]
    fn a_digest_is_written_as_it_is_read() {
        let digest = SecretDigest::of("secret");
        assert_eq!(SecretDigest::parse(&digest.to_string()), Some(digest));
        let text = digest.to_string();
        for wrong in ["", "ab", &text[1..], &format!("{}zz", &text[2..])] {
            assert_eq!(SecretDigest::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_token_is_found_by_its_secret_alone() {
        let token = |name: &str, secret: &str| Token {
            name: name.to_owned(),
            digest: SecretDigest::of(secret),
            tenants: Tenants::All,
            role: Role::Read,
            expires_at_ms: None,
        };
        let tokens = [token("one", "s1"), token("two", "s2")];
        assert_eq!(find(&tokens, "s2").unwrap().name, "two");
        assert_eq!(find(&tokens, "s3"), None);
        // What the file holds opens nothing.
        assert_eq!(find(&tokens, &tokens[0].digest.to_string()), None);
    }
}
