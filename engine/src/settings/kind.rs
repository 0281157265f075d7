//! `kind` checks what a setting may be, whether it is typed, exported or written in a file.

use std::{ffi::OsStr, path::PathBuf};

use serde_json::{Value as Json, json};
use store::bucket::StoreUrl;
use toml::de::{DeInteger, DeValue};

use crate::text::{geo, secret};

/// The only word there is for a count of snapshots to keep.
pub(super) const ONE: &str = "one";

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    StoreUrl,
    Endpoint,
    Directory,
    Switch,
    Number {
        /// What is counted, as in "a whole number of seconds".
        of: &'static str,
        from: u64,
        to: u64,
    },
    Bytes,
    Word(&'static [&'static str]),
    Words(&'static [&'static str]),
    /// A country, and perhaps a region of it.
    Geo,
    /// A count of snapshots, or the word [`ONE`].
    Keep,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A path.
    Path(PathBuf),
    /// On or off.
    Switch(bool),
    /// A number.
    Number(u64),
    /// Several words.
    Words(Vec<String>),
}

/// Why a value will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// What would.
    Takes(String),
    /// All of it, the value included.
    Says(String),
}

impl Kind {
    /// From a flag or a variable.
    pub(super) fn of_text(self, text: &OsStr) -> Result<Value, Misfit> {
        if let Self::Directory = self {
            return Ok(Value::Path(text.into()));
        }
        let text = text.to_str().ok_or_else(|| Misfit::Takes("UTF-8 only".to_owned()))?;
        match self {
            Self::Switch => match text {
                "1" | "true" | "yes" | "on" => Ok(Value::Switch(true)),
                "0" | "false" | "no" | "off" => Ok(Value::Switch(false)),
                _ => Err(self.takes()),
            },
            Self::Number { .. } | Self::Keep if digits(text) => {
                text.parse().map_err(|_| self.takes()).and_then(|number| self.number(number))
            }
            Self::Words(_) => self.words(text.split(',').map(str::trim)),
            Self::Number { .. } => Err(self.takes()),
            _ => self.text(text),
        }
    }

    /// From a file.
    pub(super) fn of_toml(self, value: &DeValue<'_>) -> Result<Value, Misfit> {
        match (self, value) {
            (Self::Switch, DeValue::Boolean(switch)) => Ok(Value::Switch(*switch)),
            (Self::Number { .. } | Self::Bytes | Self::Keep, DeValue::Integer(integer)) => {
                self.number(whole(integer).ok_or_else(|| self.takes())?)
            }
            (Self::Words(_), DeValue::Array(items)) => {
                let words: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
                self.words(words.ok_or_else(|| self.takes())?.into_iter())
            }
            // The reader of a file may stand anywhere.
            (Self::Directory, DeValue::String(path)) if path.starts_with('/') => {
                Ok(Value::Path(path.as_ref().into()))
            }
            (Self::Text | Self::StoreUrl | Self::Endpoint | Self::Geo, DeValue::String(text)) => {
                self.text(text)
            }
            (Self::Bytes | Self::Word(_) | Self::Keep, DeValue::String(text)) => self.text(text),
            _ => Err(self.takes()),
        }
    }

    fn text(self, text: &str) -> Result<Value, Misfit> {
        if matches!(self, Self::Endpoint | Self::StoreUrl) {
            secret::note(text);
        }
        match self {
            Self::StoreUrl => {
                text.parse::<StoreUrl>().map_err(|error| Misfit::Says(error.to_string()))?;
            }
            Self::Endpoint if !["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) => {
                return Err(Misfit::Says(format!(
                    "{text:?} is no endpoint: it starts with neither http:// nor https://"
                )));
            }
            Self::Bytes => return self.number(bytes(text).ok_or_else(|| self.takes())?),
            Self::Word(known) if !known.contains(&text) => return Err(self.takes()),
            Self::Geo => {
                geo::parse(text).map_err(Misfit::Takes)?;
            }
            Self::Keep if text != ONE => return Err(self.takes()),
            _ if text.is_empty() => return Err(self.takes()),
            _ => {}
        }
        Ok(Value::Text(text.to_owned()))
    }

    fn number(self, number: u64) -> Result<Value, Misfit> {
        let fits = match self {
            Self::Number { from, to, .. } => (from..=to).contains(&number),
            _ => number > 0,
        };
        if fits { Ok(Value::Number(number)) } else { Err(self.takes()) }
    }

    fn words<'a>(self, words: impl Iterator<Item = &'a str>) -> Result<Value, Misfit> {
        let Self::Words(known) = self else { return Err(self.takes()) };
        let mut found: Vec<String> = Vec::new();
        for word in words {
            if !known.contains(&word) || found.iter().any(|before| before == word) {
                return Err(self.takes());
            }
            found.push(word.to_owned());
        }
        if found.is_empty() { Err(self.takes()) } else { Ok(Value::Words(found)) }
    }

    fn takes(self) -> Misfit {
        Misfit::Takes(match self {
            Self::Text => "text that is not empty".to_owned(),
            Self::Geo => geo::FORM.to_owned(),
            Self::StoreUrl => "file:///absolute/path or s3://bucket/prefix in quotes".to_owned(),
            Self::Endpoint => "a URL in quotes that starts with http:// or https://".to_owned(),
            Self::Directory => "an absolute path in quotes".to_owned(),
            Self::Switch => "true or false".to_owned(),
            Self::Number { of, from: 0, to: u64::MAX } => format!("a whole number of {of}"),
            Self::Number { of, from, to: u64::MAX } => format!("a whole number of {of}, at least {from}"),
            Self::Number { of, from, to } => format!("a whole number of {of} from {from} to {to}"),
            Self::Bytes => "a number of bytes, or text such as \"8GB\" or \"512MiB\"".to_owned(),
            Self::Word(known) => known.join(" or "),
            Self::Words(known) => format!("a list of {}, each at most once", known.join(" and ")),
            Self::Keep => format!("a whole number of snapshots, at least 1, or {ONE:?}"),
        })
    }
}

impl Value {
    /// As a document has it.
    pub fn json(&self) -> Json {
        match self {
            Self::Text(text) => json!(text),
            Self::Path(path) => json!(path.to_string_lossy()),
            Self::Switch(switch) => json!(switch),
            Self::Number(number) => json!(number),
            Self::Words(words) => json!(words),
        }
    }

    /// As people read it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Path(path) => path.display().to_string(),
            Self::Switch(switch) => switch.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Words(words) => words.join(", "),
        }
    }
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn whole(integer: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// `8GB` is 8 000 000 000 and `512MiB` is 512 times 1 048 576.
fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start().to_ascii_lowercase();
    let (prefix, base) = match unit.strip_suffix("ib") {
        Some(prefix) => (prefix, 1024_u64),
        None => (unit.strip_suffix('b').unwrap_or(&unit), 1000),
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == prefix)?;
    // "ib" alone is no unit, and neither is "G", which leaves open which of the two is meant.
    let named = if prefix.is_empty() { base == 1000 } else { unit.ends_with('b') };
    let number: u64 = number.parse().ok().filter(|_| named)?;
    number.checked_mul(base.checked_pow(u32::try_from(power).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_that_say_what_they_mean() {
        for (text, expected) in [
            ("0", Some(0)),
            ("8GB", Some(8_000_000_000)),
            ("8 gb", Some(8_000_000_000)),
            ("512MiB", Some(512 << 20)),
            ("7B", Some(7)),
            ("1KiB", Some(1024)),
            ("8G", None),
            ("8iB", None),
            ("GB", None),
            ("-1GB", None),
            ("1.5GB", None),
            ("99999999999TB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn words_are_known_and_given_once() {
        let kind = Kind::Words(&["cold", "hot"]);
        let of = |text: &str| kind.of_text(OsStr::new(text));
        assert_eq!(of("hot, cold"), Ok(Value::Words(vec!["hot".to_owned(), "cold".to_owned()])));
        for bad in ["", "warm", "cold,cold", "cold,"] {
            of(bad).unwrap_err();
        }
    }

    #[test]
    fn numbers_stay_in_their_bounds() {
        let kind = Kind::Number { of: "seconds", from: 5, to: 10 };
        let of = |text: &str| kind.of_text(OsStr::new(text));
        assert_eq!(of("10"), Ok(Value::Number(10)));
        for bad in ["4", "11", "+7", "7s", "99999999999999999999"] {
            let takes = Misfit::Takes("a whole number of seconds from 5 to 10".to_owned());
            assert_eq!(of(bad), Err(takes), "{bad}");
        }
        assert_eq!(Kind::Keep.of_text(OsStr::new("one")), Ok(Value::Text("one".to_owned())));
        Kind::Keep.of_text(OsStr::new("0")).unwrap_err();
    }
}
