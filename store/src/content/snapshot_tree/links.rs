//! `Links` knows the hard links of a tree by the file they lead to.

use std::{collections::HashMap, sync::Arc};

use super::{SnapshotTree, located_segment::LocatedSegment};
use crate::{
    Result,
    format::tree::{Kind, TreePath},
};

/// The other names of every file that has several.
#[derive(Debug, Default)]
pub struct Links(HashMap<TreePath, Vec<TreePath>>);

impl Links {
    /// The hard links to the file at `path`, in order.
    pub fn to(&self, path: &TreePath) -> &[TreePath] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }

    /// Whether no file has several names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes those of a segment.
    pub(super) fn add(&mut self, part: &LocatedSegment) {
        for entry in &part.tree.entries {
            if let Kind::HardLink { target } = &entry.kind {
                self.0.entry(target.clone()).or_default().push(entry.path.clone());
            }
        }
    }
}

impl SnapshotTree {
    /// All hard links. Only the segments are read that have some.
    pub async fn links(&self) -> Result<Arc<Links>> {
        if let Some(links) = self.links.get() {
            return Ok(Arc::clone(links));
        }
        let mut links = Links::default();
        for at in self.linked() {
            links.add(&*self.read(at).await?);
        }
        Ok(Arc::clone(self.links.get_or_init(|| Arc::new(links))))
    }

    /// The segments that have hard links.
    pub(super) fn linked(&self) -> impl Iterator<Item = usize> + '_ {
        let segments = self.root().segments.iter().enumerate();
        let has_links = |(at, segment): (usize, &crate::format::root::SegmentRef)| {
            segment.span.as_ref().is_some_and(|span| span.links > 0).then_some(at)
        };
        segments.filter_map(has_links)
    }
}
