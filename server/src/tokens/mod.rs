//! `tokens` defines tokens and roles: each token has a role, tenants and an end. Which role a route needs stands
//! in `routes`; `dispatch` checks it.

mod caller;
mod file;
mod issue;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::name::Tenant;
use subtle::ConstantTimeEq;

pub use self::{
    caller::{Caller, CallerKind},
    file::TokenFile,
    issue::{IssueRequest, IssuedToken, Lifetime},
};

/// What a caller may do. Each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Lists snapshots and shows their records.
    Read,
    /// Runs agents: holds locks, and reads the files of profiles.
    Run,
    /// Operates: moves pointers, tags snapshots.
    Operate,
    /// Deletes, and takes locks away.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Operate, Self::Admin];

    /// Its name in the token file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The tenants that a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    /// All there are, and all there will be.
    All,
    /// These.
    Named(Vec<Tenant>),
}

/// The word for all tenants.
const ALL_TENANTS: &str = "*";

impl Tenants {
    /// Of the names in a token file, or on a command line.
    pub fn of(names: &[String]) -> Result<Self, String> {
        if names.iter().any(|name| name == ALL_TENANTS) {
            return match names.len() {
                1 => Ok(Self::All),
                _ => Err(format!("{ALL_TENANTS:?} stands for all tenants, and goes without others")),
            };
        }
        if names.is_empty() {
            return Err(format!("it is for no tenant; {ALL_TENANTS:?} stands for all"));
        }
        let tenants: Result<_, _> = names.iter().map(|name| name.parse()).collect();
        tenants.map(Self::Named).map_err(|error: store::name::InvalidName| error.to_string())
    }

    /// Their names, as the file has them.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::All => vec![ALL_TENANTS.to_owned()],
            Self::Named(tenants) => tenants.iter().map(ToString::to_string).collect(),
        }
    }

    /// Whether this one is among them. It need not be a name that a tenant can have.
    pub fn include(&self, tenant: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(tenants) => tenants.iter().any(|own| own.as_str() == tenant),
        }
    }
}

/// The SHA-256 of a secret: all that is kept of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Of a secret as its holder sends it.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Of the 64 digits that a token file has.
    fn parse(text: &str) -> Option<Self> {
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

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Names it in logs and events.
    pub name: String,
    /// Of its secret.
    pub digest: SecretDigest,
    /// The tenants that it is for.
    pub tenants: Tenants,
    /// The rights of its holder.
    pub role: Role,
    /// When it ends, in milliseconds since 1970; never if there is none.
    pub expires_at_ms: Option<u64>,
}

impl Token {
    /// Whether it has ended at this time.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|end| end <= now_ms)
    }
}

/// The token with this secret. Each one is compared, and each whole, so that the time tells nothing.
fn find<'a>(tokens: &'a [Token], secret: &str) -> Option<&'a Token> {
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

    #[test]
    fn each_role_may_do_what_those_before_it_may() {
        assert!(Role::ALL.is_sorted());
        assert!(Role::Admin > Role::Operate && Role::Run > Role::Read);
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
    }

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
    fn tenants_are_named_or_all() {
        let names =
            |names: &[&str]| Tenants::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let two = names(&["acme", "other"]).unwrap();
        assert!(two.include("acme") && two.include("other") && !two.include("acm") && !two.include("*"));
        assert!(names(&["*"]).unwrap().include("anybody"));
        for wrong in [&[][..], &["*", "acme"], &["a/b"], &[""]] {
            assert!(names(wrong).is_err(), "{wrong:?}");
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
