//! `login` lets a browser in with a cookie, once its user has shown a token.
//!
//! A cookie names a token and an end. It is signed with a key that only servers know, and with the digest of the
//! token: a token that is removed or replaced takes its cookies with it, and a log-out ends its own. A change needs,
//! besides the cookie, a header that only the page can send.

mod cookie;
mod ended;
mod key;

pub(crate) use self::{
    cookie::{LoginCookie, cleared, named_in},
    ended::EndedLogins,
    key::LoginKey,
};

/// The header with which the page proves that it is the page.
pub(crate) const CSRF: &str = "pstore-csrf";
