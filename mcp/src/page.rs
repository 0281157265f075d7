//! `page` cuts lists into pages that fit an agent's context.

use engine::failure::Failure;
use serde::Serialize;

/// The items of a page together are not longer than this, unless it is a single one.
const MAX_PAGE_BYTES: usize = 32 << 10;
/// A longer text is cut: it was written to be read, and is not what was asked for.
const MAX_TEXT_CHARS: usize = 1000;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// With which the next page is asked for.
    pub(crate) next_cursor: Option<String>,
}

/// How many items an answer has: as many as were asked for, within `most`.
pub(crate) fn limit(typed: Option<u32>, usual: u32, most: u32) -> Result<u64, Failure> {
    match typed.unwrap_or(usual) {
        0 => Err(Failure::usage("a page of 0 has nothing in it")
            .hint(format!("leave \"limit\" out, or give 1 to {most}"))),
        count => Ok(u64::from(count.min(most))),
    }
}

/// Where a page begins.
pub(crate) fn offset(cursor: Option<&str>) -> Result<u64, Failure> {
    let Some(cursor) = cursor else { return Ok(0) };
    cursor.parse().map_err(|_| {
        Failure::usage(format!("{cursor:?} is no cursor"))
            .hint("give the \"next_cursor\" of the page before, or none for the first page")
    })
}

/// The page of a whole list that a cursor names.
pub(crate) fn page<T: Serialize>(all: impl IntoIterator<Item = T>, offset: u64, limit: u64) -> Page<T> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    cut(all.into_iter().skip(start), offset, limit)
}

/// The page that begins with these items, which are those from `offset` on.
pub(crate) fn cut<T: Serialize>(rest: impl IntoIterator<Item = T>, offset: u64, limit: u64) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut items, mut bytes) = (Vec::new(), 0);
    for item in rest {
        bytes += serde_json::to_string(&item).map_or(0, |text| text.len());
        if items.len() == limit || !items.is_empty() && bytes > MAX_PAGE_BYTES {
            let next_cursor = Some((offset + items.len() as u64).to_string());
            return Page { items, next_cursor };
        }
        items.push(item);
    }
    Page { items, next_cursor: None }
}

/// A text that somebody has written, as long as it may be in an answer.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_together_are_the_list() {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let Page { items, next_cursor } = page(0..7, offset(cursor.as_deref()).unwrap(), 3);
            seen.extend(items);
            cursor = next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, (0..7).collect::<Vec<_>>());
        assert_eq!(page(0..3, 0, 3).next_cursor, None);
        assert_eq!(page(0..3, 9, 3), Page { items: vec![], next_cursor: None });
    }

    #[test]
    fn a_page_ends_before_it_is_too_long_and_has_one_item_at_least() {
        let items = vec!["x".repeat(20_000), "y".repeat(10_000), "z".repeat(10_000), "w".repeat(100_000)];
        let lengths = |offset: u64| {
            let page = page(items.clone(), offset, 100);
            (page.items.iter().map(String::len).collect::<Vec<_>>(), page.next_cursor)
        };
        assert_eq!(lengths(0), (vec![20_000, 10_000], Some("2".to_owned())));
        assert_eq!(lengths(2), (vec![10_000], Some("3".to_owned())));
        assert_eq!(lengths(3), (vec![100_000], None));
        let text = shortened(&"ä".repeat(5000));
        assert!(text.ends_with("… (5000 characters)") && text.chars().count() < 1100, "{text}");
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn a_page_is_never_larger_than_an_answer_may_be() {
        assert_eq!((limit(None, 20, 100).unwrap(), limit(Some(7), 20, 100).unwrap()), (20, 7));
        assert_eq!(limit(Some(u32::MAX), 20, 100).unwrap(), 100);
        assert!(limit(Some(0), 20, 100).is_err() && offset(Some("x")).is_err());
    }
}
