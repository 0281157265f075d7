//! `value` parses single values of the command line.

use std::time::Duration;

use clap::{ValueEnum, builder::PossibleValue};
use store::{
    format::record::{Geo, Reason},
    ops::read::resolve::Reference,
};

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// The name of an actor: a run or a host.
pub(super) fn actor(text: &str) -> Result<String, String> {
    engine::names::actor_name(text)
}

/// A whole number of seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<u32>().map_err(|_| "it takes a whole number of seconds".to_owned())?;
    Ok(Duration::from_secs(seconds.into()))
}

/// An interval of at least a second: `90s`, `5m` or `1h`.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let wrong = || "it takes a time such as 90s, 5m or 1h".to_owned();
    let unit = match text.bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3600,
        _ => return Err(wrong()),
    };
    let number = text[..text.len() - 1].parse::<u32>().ok().filter(|number| *number > 0);
    number.map(|number| Duration::from_secs(u64::from(number) * unit)).ok_or_else(wrong)
}

/// `US`, or `US/NY`.
pub(super) fn geo(text: &str) -> Result<Geo, String> {
    engine::text::geo::parse(text).map_err(|form| format!("it takes {form}"))
}

/// From 0 to 100.
pub(super) fn percent(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| "it takes a number from 0 to 100".to_owned())
}

/// Mebibytes, as bytes.
pub(super) fn mebibytes(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (1..=1 << 20).contains(number));
    number.map(|number: u64| number << 20).ok_or_else(|| "it takes a number from 1 to 1048576".to_owned())
}

/// `10%` or `1/7`, as the number of such shares in the whole.
pub(super) fn share(text: &str) -> Result<u64, String> {
    if let Some(of) = text.strip_prefix("1/") {
        let of = of.parse().ok().filter(|of| (1..=1000).contains(of));
        return of.ok_or_else(|| "it takes a share from 1/1 to 1/1000".to_owned());
    }
    let percent = text.strip_suffix('%').unwrap_or(text).parse::<u64>();
    match percent {
        Ok(percent @ 1..=100) => Ok(100_u64.div_ceil(percent)),
        _ => Err("it takes a share from 1% to 100%, or as 1/7".to_owned()),
    }
}

/// `131.0.6778.85`, or the beginning of one.
pub(super) fn chrome_version(text: &str) -> Result<String, String> {
    let number = |part: &str| !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit());
    if text.split('.').count() <= 4 && text.split('.').all(number) {
        return Ok(text.to_owned());
    }
    Err("it takes numbers with dots between them, as 131.0.6778.85".to_owned())
}

/// The beginning of a snapshot's id or of its archive's digest; or a whole record id.
pub(super) fn sha_prefix(text: &str) -> Result<Reference, String> {
    let wrong = || "it takes the first of the 64 digits 0-9 a-f that `pstore list` shows".to_owned();
    Reference::digits(text).ok_or_else(wrong)
}

/// A [`Reason`] as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReasonArg(pub(crate) Reason);

impl ValueEnum for ReasonArg {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [ReasonArg; 8] = [
            ReasonArg(Reason::Manual),
            ReasonArg(Reason::Autosave),
            ReasonArg(Reason::RunEnd),
            ReasonArg(Reason::Commit),
            ReasonArg(Reason::BeforeUpgrade),
            ReasonArg(Reason::BeforeRestore),
            ReasonArg(Reason::BeforeRollback),
            ReasonArg(Reason::Import),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        self.0.word().map(PossibleValue::new)
    }
}
