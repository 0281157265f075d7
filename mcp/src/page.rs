//! `page` cuts lists into pages that fit an agent's context.

use engine::failure::Failure;

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
pub(crate) fn page<T>(all: impl IntoIterator<Item = T>, offset: u64, limit: u64) -> Page<T> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut rest = all.into_iter().skip(start);
    let items: Vec<T> = rest.by_ref().take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
    let next_cursor = rest.next().map(|_| (offset + items.len() as u64).to_string());
    Page { items, next_cursor }
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
    fn a_page_is_never_larger_than_an_answer_may_be() {
        assert_eq!((limit(None, 20, 100).unwrap(), limit(Some(7), 20, 100).unwrap()), (20, 7));
        assert_eq!(limit(Some(u32::MAX), 20, 100).unwrap(), 100);
        assert!(limit(Some(0), 20, 100).is_err() && offset(Some("x")).is_err());
    }
}
