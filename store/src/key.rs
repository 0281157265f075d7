//! `Key` and `Prefix` are keys of objects that were checked.
//!
//! A key is one to sixteen segments joined by slashes; a segment is 1–255 of
//! `A-Z a-z 0-9 . _ -` and neither `.` nor `..`. So a key is also a safe relative path,
//! survives every S3 server byte for byte, and never needs escaping.

use std::fmt;

const MAX_KEY_BYTES: usize = 1024;
const MAX_SEGMENTS: usize = 16;
const MAX_SEGMENT_BYTES: usize = 255;

/// A text that is no key, and why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid object key {key:?}: {reason}")]
pub struct InvalidKey {
    key: String,
    reason: &'static str,
}

/// The name of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(super) String);

impl Key {
    /// Checks a key: segments of plain characters, with `/` between them.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        match check(&text) {
            Ok(()) => Ok(Self(text)),
            Err(reason) => Err(InvalidKey { key: text, reason }),
        }
    }

    /// The key as the bucket spells it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last segment.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The common start of the keys of a listing: empty, or segments each followed by a slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix(pub(super) String);

impl Prefix {
    /// The prefix of everything.
    pub fn root() -> Self {
        Self(String::new())
    }

    /// `text` is empty or ends in a slash.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        if text.is_empty() {
            return Ok(Self(text));
        }
        let reason = match text.strip_suffix('/') {
            None => "a prefix ends in a slash",
            Some(head) => match check(head) {
                Ok(()) => return Ok(Self(text)),
                Err(reason) => reason,
            },
        };
        Err(InvalidKey { key: text, reason })
    }

    /// The prefix as the bucket spells it: empty, or with a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last folder's name, without its slash.
    pub fn name(&self) -> &str {
        self.0.trim_end_matches('/').rsplit('/').next().unwrap_or("")
    }

    /// The key that is called `rest` below this prefix.
    pub fn key(&self, rest: &str) -> Result<Key, InvalidKey> {
        Key::new(format!("{}{rest}", self.0))
    }

    /// The folder below this prefix, whose name ends with a slash.
    pub fn join(&self, folder: &str) -> Result<Self, InvalidKey> {
        Self::new(format!("{}{folder}", self.0))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_KEY_BYTES {
        return Err("longer than 1024 bytes");
    }
    let mut segments = 0;
    for segment in text.split('/') {
        segments += 1;
        if segment.is_empty() {
            return Err("an empty segment");
        }
        if segment.len() > MAX_SEGMENT_BYTES {
            return Err("a segment longer than 255 bytes");
        }
        if segment == "." || segment == ".." {
            return Err("a segment that is `.` or `..`");
        }
        if !segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
            return Err("a character outside A-Z a-z 0-9 . _ -");
        }
    }
    if segments > MAX_SEGMENTS {
        return Err("more than 16 segments");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_safe_relative_path() {
        for good in ["a", "a/b", "snapshots/acme/alice/131/latest.json", "x..y", "-_.a"] {
            Key::new(good).unwrap();
        }
        for bad in ["", "/a", "a/", "a//b", ".", "a/..", "a/./b", "a b", "ä", "a\0", "a\n", "a\\b", "a%2fb"]
        {
            Key::new(bad).unwrap_err();
        }
        Key::new("x".repeat(256)).unwrap_err();
        Key::new(vec!["x"; 17].join("/")).unwrap_err();
    }

    #[test]
    fn a_prefix_ends_in_a_slash_or_is_empty() {
        Prefix::new("").unwrap();
        assert_eq!(Prefix::new("a/b/").unwrap().name(), "b");
        for bad in ["a", "/", "a//", "../"] {
            Prefix::new(bad).unwrap_err();
        }
    }
}
