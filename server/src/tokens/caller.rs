//! `Caller` identifies a caller: its name in logs and events, its role and its tenants.

use std::fmt;

use super::{Role, Tenants, Token};

/// How a caller showed who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind {
    /// By the secret of a token.
    Token,
    /// By a certificate.
    Certificate,
    /// By the user of this host that the kernel tells of a socket.
    User,
}

impl CallerKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Token, Self::Certificate, Self::User];

    /// The prefix of the names of such callers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Certificate => "certificate",
            Self::User => "user",
        }
    }
}

/// A caller that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// How it showed that.
    pub kind: CallerKind,
    /// Its name among callers of its kind.
    pub name: String,
    /// The tenants that it may act for.
    pub tenants: Tenants,
    /// Its rights.
    pub role: Role,
}

/// As logs and events name it.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.name)
    }
}

impl From<Token> for Caller {
    fn from(token: Token) -> Self {
        let Token { name, tenants, role, .. } = token;
        Self { kind: CallerKind::Token, name, tenants, role }
    }
}
