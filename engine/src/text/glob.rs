//! `glob` matches names with patterns: `*`, `**`, `?` and `[a-z]`, on bytes.

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    /// `?`: one byte, but no slash.
    One,
    /// `[a-z]`, or with `!` all but these; never a slash.
    Among {
        ranges: Vec<(u8, u8)>,
        is_inverted: bool,
    },
    /// `*`: any bytes but slashes.
    Some,
    /// `**`: any bytes.
    Any,
}

/// A pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    parts: Vec<Part>,
    /// Without a slash in it, a pattern is about the last name of a path.
    is_of_name: bool,
}

impl Glob {
    /// Reads a pattern; every text is one.
    pub fn new(pattern: &[u8]) -> Self {
        let (mut parts, mut rest) = (Vec::new(), pattern);
        while let Some((first, after)) = rest.split_first() {
            let (part, after) = match first {
                b'*' if after.first() == Some(&b'*') => (Part::Any, &after[1..]),
                b'*' => (Part::Some, after),
                b'?' => (Part::One, after),
                b'[' => among(after).unwrap_or((Part::Byte(b'['), after)),
                b'\\' if !after.is_empty() => (Part::Byte(after[0]), &after[1..]),
                byte => (Part::Byte(*byte), after),
            };
            rest = after;
            // `**/` is also nothing at all: `a/**/b` is like `a/b`.
            if part == Part::Any
                && rest.first() == Some(&b'/')
                && matches!(parts.last(), None | Some(Part::Byte(b'/')))
            {
                rest = &rest[1..];
            }
            parts.push(part);
        }
        Self { parts, is_of_name: !pattern.contains(&b'/') }
    }

    /// Whether a path, names joined by slashes, is like this.
    pub fn is_like(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        fits(&self.parts, if self.is_of_name { name } else { path })
    }
}

/// What follows a `[`, and what comes after it; `None` if it is not closed.
fn among(text: &[u8]) -> Option<(Part, &[u8])> {
    let is_inverted = matches!(text.first(), Some(b'!' | b'^'));
    let mut rest = &text[usize::from(is_inverted)..];
    let mut ranges = Vec::new();
    loop {
        rest = match rest {
            [b']', after @ ..] if !ranges.is_empty() => {
                return Some((Part::Among { ranges, is_inverted }, after));
            }
            [first, b'-', last, after @ ..] if *last != b']' => {
                ranges.push((*first, *last));
                after
            }
            [byte, after @ ..] => {
                ranges.push((*byte, *byte));
                after
            }
            [] => return None,
        };
    }
}

/// In time that is the product of both lengths at most: one row of places for each part.
fn fits(parts: &[Part], text: &[u8]) -> bool {
    // Whether the parts so far fit the first so many bytes.
    let mut places = vec![false; text.len() + 1];
    places[0] = true;
    for part in parts {
        let before = std::mem::replace(&mut places, vec![false; text.len() + 1]);
        let mut runs = false;
        for at in 0..=text.len() {
            places[at] = match part {
                Part::Some | Part::Any => {
                    let goes_on = at > 0 && runs && (*part == Part::Any || text[at - 1] != b'/');
                    runs = before[at] || goes_on;
                    runs
                }
                _ => at > 0 && before[at - 1] && is_one(part, text[at - 1]),
            };
        }
    }
    places[text.len()]
}

fn is_one(part: &Part, byte: u8) -> bool {
    match part {
        Part::Byte(own) => *own == byte,
        Part::One => byte != b'/',
        Part::Among { ranges, is_inverted } => {
            let is_in = ranges.iter().any(|(first, last)| (*first..=*last).contains(&byte));
            byte != b'/' && is_in != *is_inverted
        }
        Part::Some | Part::Any => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_like_what_they_should_be_and_nothing_else() {
        for (pattern, path, expected) in [
            ("Cookies", "Default/Cookies", true),
            ("Cookies", "Default/Cookies-journal", false),
            ("Cookies*", "Default/Cookies-journal", true),
            ("*", "Default/Cookies", true),
            ("Default/*", "Default/Cookies", true),
            ("Default/*", "Default/a/b", false),
            ("Default/**", "Default/a/b", true),
            ("**/*.ldb", "a/b/c.ldb", true),
            ("**/*.ldb", "c.ldb", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "ab", false),
            ("a**b", "a12b", true),
            ("?b", "ab", true),
            ("?b", "b", false),
            ("a?b/c", "a/b/c", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[a-]x", "-x", true),
            ("[ax", "[ax", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(
                Glob::new(pattern.as_bytes()).is_like(path.as_bytes()),
                expected,
                "{pattern} and {path}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(200);
        assert!(!Glob::new(pattern.as_bytes()).is_like("a".repeat(199).as_bytes()));
        assert!(Glob::new(pattern.as_bytes()).is_like("a".repeat(200).as_bytes()));
    }
}
