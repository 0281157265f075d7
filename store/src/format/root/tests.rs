//! These tests read roots back as they were written, and refuse impossible spans.

use super::*;
use crate::{
    format::tree::TreePath,
    id::{PackSeq, RecordId},
};

fn pack(seq: PackSeq) -> PackId {
    PackId { write: RecordId::from_bytes([7; 16]), seq }
}

fn blob(byte: u8) -> Blob {
    let id = ChunkId::from_bytes([byte; 32]);
    Blob { id, pack: pack(PackSeq::Meta), offset: 16, stored_len: 40, raw_len: 100, codec: Codec::Zstd }
}

fn span(first: Option<&str>, continues: bool) -> Span {
    let first = first.map(|path| TreePath::new(path).unwrap());
    let entries = u64::from(first.is_some());
    let packs = vec![PackBytes { pack: pack(PackSeq::Data(0)), bytes: 12 }];
    Span { first, continues, entries, links: 0, content_bytes: entries, paths_bytes: 100 * entries, packs }
}

fn root(spans: &[Span]) -> Root {
    let segment =
        |span: &Span| SegmentRef { tree: blob(1), table: blob(2), chunks: 3, span: Some(span.clone()) };
    Root { segments: spans.iter().map(segment).collect() }
}

#[test]
fn what_is_written_is_read() {
    let spans = [
        span(Some(""), false),
        span(Some("a/long"), false),
        span(None, true),
        span(None, true),
        span(Some("a/longer"), true),
    ];
    let spanned = root(&spans);
    assert!(spanned.encode().starts_with(SPANNED_PREFIX));
    assert_eq!(Root::decode(&spanned.encode()).unwrap(), spanned);
    let mut plain = spanned;
    plain.segments.iter_mut().for_each(|segment| segment.span = None);
    assert!(plain.encode().starts_with(PREFIX));
    assert_eq!(Root::decode(&plain.encode()).unwrap(), plain);
}

#[test]
fn spans_that_cannot_be_are_refused() {
    let first = span(Some(""), false);
    let fine = span(Some("b"), false);
    let refused = |spans: &[Span]| Root::decode(&root(spans).encode()).unwrap_err();
    refused(std::slice::from_ref(&fine));
    refused(&[span(Some(""), true)]);
    refused(&[span(None, true), first.clone()]);
    refused(&[first.clone(), span(None, false)]);
    refused(&[first.clone(), fine.clone(), fine.clone()]);
    refused(&[first.clone(), fine.clone(), span(Some("a"), true)]);
    refused(&[first.clone(), Span { links: 2, ..fine.clone() }]);
    refused(&[first.clone(), Span { paths_bytes: 0, ..fine.clone() }]);
    refused(&[first.clone(), Span { paths_bytes: 1 << 40, ..fine.clone() }]);
    refused(&[first.clone(), Span { content_bytes: MAX_CONTENT_BYTES, ..fine.clone() }]);
    refused(&[first.clone(), Span { packs: Vec::new(), ..fine.clone() }]);
    refused(&[first, Span { packs: [fine.packs.clone(), fine.packs.clone()].concat(), ..fine }]);
}

/// A reader's memory must not follow from the claims of a few bytes.
#[test]
fn first_paths_are_bounded_by_the_tree_segments() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let spans = |bytes: u64| {
        let span = |name: &&str| Span { paths_bytes: bytes, ..span(Some(name), false) };
        [span(&"")].into_iter().chain(names.iter().map(span)).collect::<Vec<_>>()
    };
    Root::decode(&root(&spans(12 << 20)).encode()).unwrap();
    Root::decode(&root(&spans(13 << 20)).encode()).unwrap_err();
}
