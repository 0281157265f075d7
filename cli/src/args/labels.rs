//! `key=value` pairs, and the words for why a snapshot is taken.

use clap::{ValueEnum, builder::PossibleValue};
use store::format::record::Reason;

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// A [`Reason`] as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReasonArg(pub(crate) Reason);

impl ValueEnum for ReasonArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [ReasonArg; 4] = [
            ReasonArg(Reason::Manual),
            ReasonArg(Reason::Autosave),
            ReasonArg(Reason::BeforeUpgrade),
            ReasonArg(Reason::BeforeRestore),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(reason(self.0)))
    }
}

/// As records and people spell it.
pub(crate) const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Manual => "manual",
        Reason::Autosave => "autosave",
        Reason::BeforeUpgrade => "before-upgrade",
        Reason::BeforeRestore => "before-restore",
    }
}
