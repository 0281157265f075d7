//! `Holes` lists the holes of a file, for which tar has no common form.
//!
//! Their zeros are in the stream, so that every reader gets the file. A pax comment, which
//! every reader passes over, lists their places, so that pstore gets the same tree again.

use crate::format::tree::Extent;

/// Offset and length of each, ascending and apart.
pub(crate) type Holes = Vec<(u64, u64)>;

const PREFIX: &str = "pstore holes ";
/// A file with more is one without: its zeros are stored as they are.
const MAX_BYTES: usize = 64 << 10;

/// The comment: pairs of offset and length.
pub fn encode(extents: &[Extent]) -> Option<String> {
    let mut comment = PREFIX.to_owned();
    let mut offset = 0;
    for extent in extents {
        if let Extent::Hole(len) = extent {
            let comma = if comment.len() > PREFIX.len() { "," } else { "" };
            comment.push_str(&format!("{comma}{offset}+{len}"));
        }
        offset += extent.len();
    }
    (comment.len() <= MAX_BYTES).then_some(comment)
}

/// The holes a comment tells of. Anything else is a comment about something else.
pub fn decode(comment: &[u8]) -> Option<Holes> {
    let text = std::str::from_utf8(comment).ok().filter(|text| text.len() <= MAX_BYTES)?;
    let mut end = None;
    let pair = |pair: &str| {
        let (offset, len) = pair.split_once('+')?;
        let (offset, len): (u64, u64) = (offset.parse().ok()?, len.parse().ok()?);
        let apart = end.is_none_or(|end| offset > end);
        end = Some(offset.checked_add(len)?);
        (len > 0 && apart).then_some((offset, len))
    };
    text.strip_prefix(PREFIX)?.split(',').map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_read_as_they_were_written() {
        let data = |len| Extent::Chunk { id: crate::id::ChunkId::from_bytes([0; 32]), len };
        let extents = [Extent::Hole(4096), data(5), Extent::Hole(7)];
        let comment = encode(&extents).unwrap();
        assert_eq!(comment, "pstore holes 0+4096,4101+7");
        assert_eq!(decode(comment.as_bytes()), Some(vec![(0, 4096), (4101, 7)]));
    }

    #[test]
    fn other_comments_are_no_holes() {
        for other in [
            "",
            "anything",
            "pstore holes ",
            "pstore holes 5",
            "pstore holes 5+0",
            "pstore holes 5+2,6+1",
            "pstore holes 5+2,7+1",
            "pstore holes 1+18446744073709551615",
        ] {
            assert_eq!(decode(other.as_bytes()), None, "{other}");
        }
    }
}
