//! Entity tags, and finding out how a server wants to be asked about them.
//!
//! A server that compares the header as it stands answers 412 to the other form, although
//! the version is the right one. Until a form is known to work, such a 412 is checked: if
//! the object still carries the tag that was sent, the same bytes go out once more in the
//! other form. That cannot apply a write twice, because the first delivery, had it been
//! applied, would have changed the tag that the second is conditioned on. And where the
//! second is refused too, the answer is ambiguous rather than a definite mismatch.

use std::sync::atomic::{AtomicU8, Ordering};

use super::config::IfMatch;
use crate::bucket::Version;

const UNKNOWN: u8 = 0;
const QUOTED: u8 = 1;
const UNQUOTED: u8 = 2;

/// The form this server is known to honour, if it is known.
#[derive(Debug)]
pub(super) struct Form(AtomicU8);

impl Form {
    pub(super) fn new(known: Option<IfMatch>) -> Self {
        Self(AtomicU8::new(match known {
            None => UNKNOWN,
            Some(IfMatch::Quoted) => QUOTED,
            Some(IfMatch::Unquoted) => UNQUOTED,
        }))
    }

    pub(super) fn known(&self) -> Option<IfMatch> {
        match self.0.load(Ordering::Relaxed) {
            QUOTED => Some(IfMatch::Quoted),
            UNQUOTED => Some(IfMatch::Unquoted),
            _ => None,
        }
    }

    /// A write with this form was accepted.
    pub(super) fn learn(&self, form: IfMatch) {
        let learnt = match form {
            IfMatch::Quoted => QUOTED,
            IfMatch::Unquoted => UNQUOTED,
        };
        // Whoever comes first is right: a server accepts one form only, or both.
        let _ = self.0.compare_exchange(UNKNOWN, learnt, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A tag as the server wrote it, without its quotes: servers differ in where they put them.
pub(super) fn version(tag: &str) -> Version {
    Version::new(tag.trim_matches('"'))
}

pub(super) fn header(version: &Version, form: IfMatch) -> String {
    match form {
        IfMatch::Quoted => format!("\"{version}\""),
        IfMatch::Unquoted => version.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_learnt_once() {
        let form = Form::new(None);
        assert_eq!(form.known(), None);
        form.learn(IfMatch::Unquoted);
        form.learn(IfMatch::Quoted);
        assert_eq!(form.known(), Some(IfMatch::Unquoted));
    }

    #[test]
    fn quotes_are_no_part_of_a_version() {
        assert_eq!(version("\"abc-2\""), version("abc-2"));
        assert_eq!(header(&version("\"abc\""), IfMatch::Quoted), "\"abc\"");
        assert_eq!(header(&version("\"abc\""), IfMatch::Unquoted), "abc");
    }
}
