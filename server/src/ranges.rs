//! `ranges` reads the range headers of a request, and its conditions.

use std::ops::Range;

use axum::http::{HeaderMap, header};

/// The part of a file that a caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedRange {
    /// All of it.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that it does not have.
    Beyond,
    /// Nothing: the caller has it already.
    Nothing,
}

/// The part that these headers ask for, of a file with this entity tag (in its quotes) and this size, which
/// is not zero. Several parts at once, and units other than bytes, count as all of it.
pub(crate) fn wanted(headers: &HeaderMap, tag: &str, size: u64) -> RequestedRange {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::IF_NONE_MATCH).is_some_and(|tags| names(tags, tag)) {
        return RequestedRange::Nothing;
    }
    // Of something else than the caller has the beginning of, a part is of no use.
    if text(header::IF_RANGE).is_some_and(|had| had.trim() != tag) {
        return RequestedRange::Whole;
    }
    text(header::RANGE).and_then(|range| part(range, size)).unwrap_or(RequestedRange::Whole)
}

/// Whether a list of entity tags has this one; `*` has all.
pub(crate) fn names(tags: &str, tag: &str) -> bool {
    tags.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

fn part(range: &str, size: u64) -> Option<RequestedRange> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        // What does not fit is more than there is.
        true => Some(text.parse().unwrap_or(u64::MAX)),
        false => None,
    };
    let (first, last) = (first.trim(), last.trim());
    let (start, end) = match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        (true, false) => (size.saturating_sub(number(last)?), size),
        (false, true) => (number(first)?, size),
        (false, false) => (number(first)?, number(last)?.saturating_add(1).min(size)),
    };
    // Its end lies before its beginning: that says nothing.
    if !first.is_empty() && !last.is_empty() && number(last)? < start {
        return None;
    }
    Some(if start < end { RequestedRange::Part(start..end) } else { RequestedRange::Beyond })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(lines: &[(header::HeaderName, &str)]) -> RequestedRange {
        let pairs = lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        wanted(&pairs.collect(), "\"abc\"", 100)
    }

    #[test]
    fn a_part_is_counted_from_either_end() {
        for (range, wanted) in [
            ("bytes=0-9", RequestedRange::Part(0..10)),
            ("bytes=90-", RequestedRange::Part(90..100)),
            ("bytes=90-1000", RequestedRange::Part(90..100)),
            ("bytes=-10", RequestedRange::Part(90..100)),
            ("bytes=-1000", RequestedRange::Part(0..100)),
            ("bytes=99-99", RequestedRange::Part(99..100)),
            ("bytes=100-", RequestedRange::Beyond),
            ("bytes=-0", RequestedRange::Beyond),
            ("bytes=99999999999999999999-", RequestedRange::Beyond),
            ("bytes=9-0", RequestedRange::Whole),
            ("bytes=0-1,5-6", RequestedRange::Whole),
            ("bytes=-", RequestedRange::Whole),
            ("bytes=a-b", RequestedRange::Whole),
            ("lines=0-9", RequestedRange::Whole),
        ] {
            assert_eq!(of(&[(header::RANGE, range)]), wanted, "{range}");
        }
        assert_eq!(of(&[]), RequestedRange::Whole);
    }

    #[test]
    fn a_tag_decides_whether_anything_is_sent() {
        use header::{IF_NONE_MATCH, IF_RANGE, RANGE};
        assert_eq!(of(&[(IF_NONE_MATCH, "\"x\", \"abc\"")]), RequestedRange::Nothing);
        assert_eq!(of(&[(IF_NONE_MATCH, "*")]), RequestedRange::Nothing);
        assert_eq!(of(&[(IF_NONE_MATCH, "\"x\"")]), RequestedRange::Whole);
        assert_eq!(of(&[(IF_RANGE, "\"abc\""), (RANGE, "bytes=5-")]), RequestedRange::Part(5..100));
        for other in ["\"x\"", "W/\"abc\"", "Tue, 17 Nov 2026 00:00:00 GMT"] {
            assert_eq!(of(&[(IF_RANGE, other), (RANGE, "bytes=5-")]), RequestedRange::Whole, "{other}");
        }
    }
}
