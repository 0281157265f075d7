//! `TreeCutter` cuts a tree into segments as it is told entry by entry, and refers to those that the base has.

use std::collections::HashMap;

use crate::{
    content::{
        TenantStore,
        meta::{NewTree, TreePart},
    },
    format::{
        Result,
        root::Root,
        segment::{Segment, SegmentWriter},
        tree::Entry,
    },
    id::ChunkId,
};

pub(super) struct TreeCutter<'a> {
    store: &'a TenantStore,
    base: Option<&'a Root>,
    /// The base's segments, by id.
    places: HashMap<ChunkId, usize>,
    writer: SegmentWriter,
    parts: Vec<TreePart>,
}

impl<'a> TreeCutter<'a> {
    pub fn new(store: &'a TenantStore, base: Option<&'a Root>) -> Self {
        let segments = base.into_iter().flat_map(|base| &base.segments);
        let places = segments.enumerate().map(|(at, segment)| (segment.tree.id, at)).collect();
        Self { store, base, places, writer: SegmentWriter::default(), parts: Vec::new() }
    }

    /// The next entry, in the order of the tree.
    pub fn push(&mut self, entry: &Entry) -> Result<()> {
        self.writer.push(entry)?;
        for segment in self.writer.take_finished() {
            self.add(segment);
        }
        Ok(())
    }

    pub fn finish(mut self) -> NewTree {
        let content_bytes = self.writer.content_bytes();
        for segment in std::mem::take(&mut self.writer).finish() {
            self.add(segment);
        }
        NewTree::of_parts(self.store, self.parts, content_bytes)
    }

    fn add(&mut self, segment: Segment) {
        let id = self.store.key().id_of(&segment.bytes);
        let kept = self.places.get(&id).zip(self.base);
        self.parts.push(match kept {
            Some((at, base)) => TreePart::Kept { at: *at, segment: base.segments[*at].clone() },
            None => TreePart::New { id, segment },
        });
    }
}
