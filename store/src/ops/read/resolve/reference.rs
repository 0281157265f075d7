//! `Reference` is how a person names one snapshot of a profile: the part after the `@` in `acme/alice@REF`.
//!
//! ```text
//! latest, latest~2            the current one; the second before it
//! 2026-11-15T10:00            the newest that is not after this time; UTC, unless an offset says else
//! before-migration            a tag
//! 3f2a91                      the first digits of its id, or of its archive's
//! ```
//!
//! A tag holds neither `~` nor `:`, so that only a tag and digits can be taken for each other.

use std::{fmt, str::FromStr};

use crate::{id::RecordId, name::LATEST, ops::tag};

/// The snapshot of a lineage that a person means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// So many before the current one.
    Latest(usize),
    /// The newest that is not after this time, in milliseconds since 1970; and how it was typed.
    Time(u64, String),
    /// The first digits of its id or of its archive's, or the whole id of its record; never a tag.
    Digits(String),
    /// A tag, or digits.
    Word(String),
}

/// The text names no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no snapshot: it takes the first digits of an id, a tag, latest, latest~2 or a time as 2026-11-15T10:00"
)]
pub struct InvalidReference(pub String);

impl Reference {
    /// The first digits of an id, and nothing else.
    pub fn digits(text: &str) -> Option<Self> {
        is_digits(text).then(|| Self::Digits(text.to_owned()))
    }

    /// Whether it is the current one, whichever that is.
    pub fn is_current(&self) -> bool {
        *self == Self::Latest(0)
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        let invalid = || InvalidReference(text.to_owned());
        if text == LATEST {
            return Ok(Self::Latest(0));
        }
        if let Some(back) = text.strip_prefix("latest~") {
            let is_number = !back.is_empty() && back.bytes().all(|b| b.is_ascii_digit());
            return back.parse().ok().filter(|_| is_number).map(Self::Latest).ok_or_else(invalid);
        }
        if text.contains(':') {
            return unix_ms(text).map(|ms| Self::Time(ms, text.to_owned())).ok_or_else(invalid);
        }
        match tag::check_name(text) {
            Ok(()) => Ok(Self::Word(text.to_owned())),
            Err(_) => Err(invalid()),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest(0) => f.write_str(LATEST),
            Self::Latest(back) => write!(f, "{LATEST}~{back}"),
            Self::Time(_, text) | Self::Digits(text) | Self::Word(text) => f.write_str(text),
        }
    }
}

/// Whether it can be the beginning of an id, or the whole id of a record.
pub(super) fn is_digits(text: &str) -> bool {
    let is_hex = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex || text.to_ascii_uppercase().parse::<RecordId>().is_ok()
}

/// The end of the second that is meant, for times are shown in whole seconds.
fn unix_ms(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once('T')?;
    let (clock, offset_seconds) = offset(rest)?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (number(date.next()?, 4)?, number(date.next()?, 2)?, number(date.next()?, 2)?);
    let mut clock = clock.splitn(3, ':');
    let (hour, minute) = (number(clock.next()?, 2)?, number(clock.next()?, 2)?);
    let second = clock.next().map_or(Some(0), |second| number(second, 2))?;
    let exists = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    if !exists || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    u64::try_from(seconds - offset_seconds).ok().map(|seconds| seconds * 1000 + 999)
}

/// The time without its offset, and the offset in seconds east of Greenwich.
fn offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text, 0)) };
    let (clock, offset) = text.split_at(at);
    let (hours, minutes) = offset[1..].split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let seconds = hours * 3600 + minutes * 60;
    let exists = hours <= 23 && minutes <= 59;
    exists.then_some((clock, if offset.starts_with('-') { -seconds } else { seconds }))
}

/// Of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_one = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_one)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years are taken from March, so that the leap day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Reference> {
        text.parse().ok()
    }

    #[test]
    fn each_form_is_read_as_what_it_is() {
        assert_eq!(read("latest"), Some(Reference::Latest(0)));
        assert_eq!(read("latest~0"), Some(Reference::Latest(0)));
        assert_eq!(read("latest~12"), Some(Reference::Latest(12)));
        assert_eq!(read("3f2a91"), Some(Reference::Word("3f2a91".to_owned())));
        // Without minutes it may be a tag.
        for tag in ["before-migration", "2026-11-15T10"] {
            assert_eq!(read(tag), Some(Reference::Word(tag.to_owned())));
        }
        for wrong in
            ["", "latest~", "latest~x", "latest~+1", "latest~99999999999999999999", "a b", "ü", "a~1", "a/b"]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar_to_the_end_of_their_second() {
        let ms = |text: &str| match read(text) {
            Some(Reference::Time(ms, typed)) if typed == text => Some(ms),
            _ => None,
        };
        for (text, seconds) in [
            ("1970-01-01T00:00", 0),
            ("1970-01-01T00:00:07", 7),
            ("2000-02-29T00:00Z", 951_782_400),
            ("2025-11-15T02:58:03Z", 1_763_175_483),
            ("2025-11-15T04:58:03+02:00", 1_763_175_483),
            ("2025-11-14T21:28:03-05:30", 1_763_175_483),
            ("2100-03-01T00:00:00", 4_107_542_400),
        ] {
            assert_eq!(ms(text), Some(seconds * 1000 + 999), "{text}");
        }
        for wrong in [
            "2026-11-15 10:00",
            "2026-11-31T10:00",
            "2026-02-29T10:00",
            "2026-13-01T10:00",
            "2026-11-15T24:00",
            "2026-11-15T10:60",
            "2026-11-15T10:00:60",
            "2026-1-15T10:00",
            "1969-12-31T23:59",
            "2026-11-15T10:00+2",
            "2026-11-15T10:00:00.5",
            "T10:00",
            "10:00",
            "+026-11-15T10:00",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_read_is_shown_as_it_was_typed() {
        for text in ["latest", "latest~3", "2026-11-15T10:00+01:00", "before-migration", "3F2A91"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
    }
}
