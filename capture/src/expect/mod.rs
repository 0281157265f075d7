//! `expect` checks a profile against its expectations.
//!
//! Databases are untrusted: a [cell](crate::cell) reads them, and says for each expected cookie and origin whether it
//! exists.

mod check;
mod files_to_read;
pub(crate) mod search;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use store::{Result, catalog::expectations::is_unreadable, format::expectations::Expectations};

pub(crate) use check::{check, lacking};
pub(crate) use files_to_read::{is_wanted, wanted};

/// The state of the expectations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    Expected(Box<Expectations>),
    /// A document is there that cannot be understood, and why.
    Unreadable(String),
}

type Read = dyn Fn() -> Result<Option<Expectations>> + Send + Sync;

/// The expectations of a profile, read when they are first needed: a capture that stores nothing does not
/// read them.
#[derive(Clone, Default)]
pub struct Awaited(Option<Arc<(Box<Read>, OnceLock<Known>)>>);

impl Awaited {
    /// `read` may block.
    pub fn new(read: impl Fn() -> Result<Option<Expectations>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new((Box::new(read), OnceLock::new()))))
    }

    pub(crate) fn get(&self) -> Result<&Known> {
        let Some((read, found)) = self.0.as_deref() else { return Ok(&Known::Nothing) };
        if let Some(known) = found.get() {
            return Ok(known);
        }
        let known = match read() {
            Ok(Some(expectations)) if !expectations.is_empty() => Known::Expected(Box::new(expectations)),
            Ok(_) => Known::Nothing,
            Err(error) if is_unreadable(&error) => Known::Unreadable(error.to_string()),
            Err(error) => return Err(error),
        };
        Ok(found.get_or_init(|| known))
    }

    /// The expectations, as far as they could be read.
    pub(crate) fn expected(&self) -> Option<&Expectations> {
        match self.get() {
            Ok(Known::Expected(expectations)) => Some(expectations),
            _ => None,
        }
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Awaited").field(&self.0.as_ref().and_then(|lazy| lazy.1.get())).finish()
    }
}
