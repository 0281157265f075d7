//! `tokens` defines tokens and roles: each token has a role, tenants and an end.
//!
//! `secret` compares secrets in constant time. Each table in `routes` says which role a route needs, and `dispatch` checks it.

mod caller;
mod file;
mod issue;
mod secret;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::name::Tenant;

pub use self::{
    caller::{Caller, CallerKind},
    file::TokenFile,
    issue::{IssueRequest, IssuedToken, Lifetime},
    secret::SecretDigest,
};

/// The rights of a caller. Each role has the rights of those before it, too.
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
}
