//! `Expectations` lists the cookies, origins and files that a profile must have, by the word of its owner.
//!
//! Captures are judged by them. A document is replaced as a whole by compare-and-swap, and is never
//! removed: one that expects nothing is empty.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FormatError, MAJOR, MINOR, Result, Unknown, WRITER, document, event::Actor, limits};
use crate::name::ProfileName;

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.expectations";
/// So many that nobody meets the bound, so few that the findings about them fit into a record.
pub const MAX_OF_A_KIND: usize = 64;
/// The longest host of a cookie.
pub const MAX_HOST_BYTES: usize = 254;
/// The longest name of a cookie.
pub const MAX_NAME_BYTES: usize = 256;
/// The longest origin.
pub const MAX_ORIGIN_BYTES: usize = 300;
/// The longest path of a file.
pub const MAX_PATH_BYTES: usize = 4096;

/// A cookie, by its name and not by its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CookieName {
    /// With or without a dot before it: that makes no difference.
    pub host: String,
    /// The cookie's own name.
    pub name: String,
}

impl fmt::Display for CookieName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.name)
    }
}

/// `expectations.json` of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectations {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// The owner of the profile.
    pub tenant_id: crate::name::Tenant,
    /// The profile of which this is expected.
    pub profile_id: crate::name::Profile,
    /// Counts the changes, so that no two of them are the same bytes.
    pub revision: u64,
    /// When it was changed last, by the clock of the host that did it.
    pub changed_at_ms: u64,
    /// The author of the last change.
    pub by: Actor,
    /// The cookies that must be there.
    #[serde(default)]
    pub cookies: Vec<CookieName>,
    /// As `https://app.example.com`, with a port if it is not the usual one.
    #[serde(default)]
    pub origins: Vec<String>,
    /// Paths below the captured directory.
    #[serde(default)]
    pub files: Vec<String>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Expectations {
    /// Expects nothing.
    pub fn new(name: &ProfileName, by: Actor) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            tenant_id: name.tenant.clone(),
            profile_id: name.profile.clone(),
            revision: 0,
            changed_at_ms: 0,
            by,
            cookies: Vec::new(),
            origins: Vec::new(),
            files: Vec::new(),
            unknown: Unknown::new(),
        }
    }

    /// Whether nothing is expected.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty() && self.origins.is_empty() && self.files.is_empty()
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// The bytes to write, which a reader is sure to accept.
    pub fn encode_readable(&self) -> Result<Vec<u8>> {
        let bytes = self.encode();
        Self::decode(&bytes).map(|_| bytes)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::EXPECTATIONS)?;
        document::check_schema(&fields, SCHEMA)?;
        let expectations: Self = document::typed(fields)?;
        expectations.check()?;
        Ok(expectations)
    }

    fn check(&self) -> Result<()> {
        let bad = |what: &str| Err(FormatError::malformed(format!("it expects {what}")));
        if [self.cookies.len(), self.origins.len(), self.files.len()].iter().any(|len| *len > MAX_OF_A_KIND) {
            return bad(&format!("more than {MAX_OF_A_KIND} things of a kind"));
        }
        let is_cookie =
            |of: &CookieName| is_text(&of.host, MAX_HOST_BYTES) && is_text(&of.name, MAX_NAME_BYTES);
        if !self.cookies.iter().all(is_cookie) {
            return bad("a cookie that can be none");
        }
        if !self.origins.iter().all(|origin| is_text(origin, MAX_ORIGIN_BYTES)) {
            return bad("an origin that can be none");
        }
        if !self.files.iter().all(|path| is_path(path)) {
            return bad("a file outside of the profile");
        }
        Ok(())
    }
}

/// Whether it is text of so many bytes at most, and none that moves a cursor.
pub fn is_text(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && !text.chars().any(char::is_control)
}

/// Whether it leads from a directory to something in it.
pub fn is_path(path: &str) -> bool {
    is_text(path, MAX_PATH_BYTES) && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_read_again_and_the_impossible_is_refused() {
        let mut whole = Expectations::new(&"acme/alice".parse().unwrap(), Actor::default());
        whole.cookies = vec![CookieName { host: ".example.com".to_owned(), name: "sid".to_owned() }];
        whole.origins = vec!["https://app.example.com".to_owned()];
        whole.files = vec!["Default/Preferences".to_owned()];
        assert_eq!(Expectations::decode(&whole.encode_readable().unwrap()).unwrap(), whole);
        let refused = |change: &dyn Fn(&mut Expectations)| {
            let mut bad = whole.clone();
            change(&mut bad);
            bad.encode_readable().unwrap_err();
        };
        refused(&|of| of.files = vec!["../Cookies".to_owned()]);
        refused(&|of| of.files = vec!["/etc/passwd".to_owned()]);
        refused(&|of| of.origins = vec!["x".repeat(MAX_ORIGIN_BYTES + 1)]);
        refused(&|of| of.cookies[0].name = "a\u{1b}b".to_owned());
        refused(&|of| of.files = vec!["a".to_owned(); MAX_OF_A_KIND + 1]);
    }
}
