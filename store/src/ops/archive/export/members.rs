//! `Members` makes the heads of a tree's entries in a tar stream, and knows the length of each member.

use std::{collections::HashMap, sync::Arc};

use crate::{
    archive::{
        members::{self, Times},
        padding,
    },
    format::tree::{Entry, Kind, Linked, Meta, TreePath},
};

/// The members of an archive, told one after another.
#[derive(Debug)]
pub(super) struct Members {
    linked: Arc<Linked>,
    /// Of the files that have several names, as far as they have come.
    shared: HashMap<TreePath, Meta>,
    times: Times,
}

impl Members {
    /// Of a tree with hard links to these files.
    pub fn new(linked: Arc<Linked>, times: Times) -> Self {
        Self { linked, shared: HashMap::new(), times }
    }

    /// The head of the next entry; none if an archive does not hold it.
    pub fn head(&mut self, entry: &Entry) -> Option<Vec<u8>> {
        let meta = match &entry.kind {
            Kind::HardLink { target } => self.shared.get(target)?,
            _ => &entry.meta,
        };
        let head = members::head(entry, meta, self.times);
        if matches!(entry.kind, Kind::File { .. }) && self.linked.holds(&entry.path) {
            self.shared.insert(entry.path.clone(), entry.meta.clone());
        }
        head
    }

    /// How long the next entry is in the stream.
    pub fn bytes(&mut self, entry: &Entry) -> u64 {
        let size = entry.size();
        self.head(entry).map_or(0, |head| head.len() as u64 + size + padding(size) as u64)
    }
}
