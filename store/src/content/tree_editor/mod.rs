//! `TreeEditor` makes the next tree of a base and its changes, and reads only segments that change.
//!
//! A segment that has ended leaves nothing behind that changes how the next one is cut. So the editor refers to the
//! base's segments as they are, up to the one with the first change; it reads that one and cuts its entries anew, with
//! the changes, and those of the segments behind it, until a cut falls where one of them begins. Behind it the base
//! counts again. The tree is the one that cutting all entries from scratch gives.

mod counts;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

pub use self::counts::CountChange;
use super::{
    TenantStore,
    chunk::Locations,
    meta::{NewTree, TreePart},
    snapshot_tree::{LocatedSegment, SnapshotTree},
};
use crate::{
    Error, Result,
    format::{
        FormatError,
        root::{SegmentRef, Span},
        segment::SegmentWriter,
        tree::{Entry, Extent, Kind, TreePath},
    },
};

/// A tree that is being made of its base by changes in the order of paths.
#[derive(Debug)]
pub struct TreeEditor {
    store: TenantStore,
    base: Option<Arc<SnapshotTree>>,
    /// The first segment of the base that was neither read nor referred to nor left out.
    next: usize,
    /// The rest of the segment that was read last.
    waiting: VecDeque<Item>,
    /// Whether the last file of the base that was passed is left out: then so are its extents in later segments.
    is_dropping: bool,
    /// The base's entries from here on, and all below, are left out.
    removed: Option<TreePath>,
    /// The last change.
    last: Option<(TreePath, Change)>,
    /// The last entry that was appended and is no directory: nothing lies below it.
    leaf: Option<TreePath>,
    writer: SegmentWriter,
    parts: Vec<TreePart>,
    located: Locations,
    counts: CountChange,
}

/// The result of changing a base.
#[derive(Debug)]
pub struct Edited {
    /// The new tree.
    pub tree: NewTree,
    /// Where the base has the chunks of those of its segments that were cut anew.
    pub located: Locations,
    /// How many entries of each kind there are more, or fewer, than in the base.
    pub counts: CountChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Put,
    Remove,
}

/// A piece of a segment of the base.
#[derive(Debug)]
enum Item {
    Entry(Entry),
    More(Vec<Extent>),
}

impl TreeEditor {
    /// Nothing has changed so far. Without a base, the tree is empty.
    pub fn new(store: &TenantStore, base: Option<Arc<SnapshotTree>>) -> Self {
        Self {
            store: store.clone(),
            base,
            next: 0,
            waiting: VecDeque::new(),
            is_dropping: false,
            removed: None,
            last: None,
            leaf: None,
            writer: SegmentWriter::default(),
            parts: Vec::new(),
            located: HashMap::new(),
            counts: CountChange::default(),
        }
    }

    /// This entry is new, or stands in place of the one that the base has at its path. What the base has below it
    /// stays. A path comes after all paths that were changed before.
    pub async fn put(&mut self, entry: &Entry) -> Result<()> {
        self.follow(&entry.path, Change::Put)?;
        self.pass(Some(&entry.path)).await?;
        if matches!(self.waiting.front(), Some(Item::Entry(old)) if old.path == entry.path) {
            self.drop_waiting();
        }
        self.counts.add(&entry.kind);
        entry.check().map_err(|error| unusable(entry, &error))?;
        self.append(entry).map_err(|error| unusable(entry, &error))
    }

    /// Removes the base's entry at this path, and all below it. A removal comes after all changes of
    /// paths before it, and before those of the same path.
    pub async fn remove(&mut self, path: &TreePath) -> Result<()> {
        self.follow(path, Change::Remove)?;
        if self.removed.as_ref().is_some_and(|removed| path.is_within(removed)) {
            return Ok(());
        }
        self.pass(Some(path)).await?;
        self.removed = Some(path.clone());
        Ok(())
    }

    /// The tree with all changes.
    pub async fn finish(mut self) -> Result<Edited> {
        self.pass(None).await?;
        let content_bytes = self.writer.content_bytes();
        let last = self.writer.finish().into_iter().map(|segment| TreePart::new(&self.store, segment));
        self.parts.extend(last);
        if self.parts.is_empty() {
            return Err(Error::Internal { what: "a tree without entries".to_owned() });
        }
        let tree = NewTree::of_parts(&self.store, self.parts, content_bytes);
        Ok(Edited { tree, located: self.located, counts: self.counts })
    }

    /// Changes come in the order of paths.
    fn follow(&mut self, path: &TreePath, change: Change) -> Result<()> {
        let follows = self
            .last
            .as_ref()
            .is_none_or(|(last, before)| last < path || last == path && *before == Change::Remove);
        if !follows {
            return Err(Error::Internal { what: format!("{path} was changed out of order") });
        }
        self.last = Some((path.clone(), change));
        Ok(())
    }

    /// Takes over the base's entries before `path`, or all the rest. Its entry at the path itself, if any,
    /// waits first then.
    async fn pass(&mut self, path: Option<&TreePath>) -> Result<()> {
        loop {
            while let Some(item) = self.waiting.front() {
                if let (Item::Entry(entry), Some(path)) = (item, path)
                    && entry.path >= *path
                {
                    return Ok(());
                }
                self.take_waiting()?;
            }
            let Some(base) = self.base.clone() else { return Ok(()) };
            let segments = &base.root().segments;
            let Some(segment) = segments.get(self.next) else { return Ok(()) };
            let span = span_of(segment)?;
            let begins_later = path.is_some_and(|path| span.first.as_ref().is_some_and(|first| first > path));
            if begins_later && (!span.continues || self.is_dropping) {
                return Ok(());
            }
            if span.first.is_none() && self.is_dropping {
                self.next += 1;
            } else if self.can_keep(span) && ends_before(segments, self.next, path) {
                self.keep(segment, span)?;
            } else {
                let part = base.read(self.next).await?;
                self.next += 1;
                self.wait_with(&part);
            }
        }
    }

    /// Whether a segment of the base would be cut here just as it is, and nothing of it is left out.
    fn can_keep(&self, span: &Span) -> bool {
        let is_removed =
            |removed: &TreePath| span.first.as_ref().is_some_and(|first| first.is_within(removed));
        self.writer.is_between()
            && !(span.continues && self.is_dropping)
            && !self.removed.as_ref().is_some_and(is_removed)
    }

    fn keep(&mut self, segment: &SegmentRef, span: &Span) -> Result<()> {
        self.writer.pass(span, segment.tree.raw_len).map_err(too_large)?;
        self.collect();
        self.parts.push(TreePart::Kept { at: self.next, segment: segment.clone() });
        if span.first.is_some() {
            (self.is_dropping, self.leaf) = (false, None);
        }
        self.next += 1;
        Ok(())
    }

    fn wait_with(&mut self, part: &LocatedSegment) {
        let chunks = part.tree.chunks().zip(&part.locations);
        self.located.extend(chunks.map(|((id, _), location)| (id, *location)));
        if !part.tree.continued.is_empty() {
            self.waiting.push_back(Item::More(part.tree.continued.clone()));
        }
        self.waiting.extend(part.tree.entries.iter().cloned().map(Item::Entry));
    }

    /// Appends the next item of the base, unless it was removed.
    fn take_waiting(&mut self) -> Result<()> {
        match self.waiting.pop_front() {
            Some(Item::More(extents)) if !self.is_dropping => {
                self.writer.more(&extents);
                self.collect();
            }
            Some(Item::Entry(entry)) => {
                self.is_dropping = self.removed.as_ref().is_some_and(|removed| entry.path.is_within(removed));
                match self.is_dropping {
                    true => self.counts.take(&entry.kind),
                    false => self.append(&entry).map_err(too_large)?,
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Leaves out the next entry of the base: another takes its place.
    fn drop_waiting(&mut self) {
        if let Some(Item::Entry(entry)) = self.waiting.pop_front() {
            self.counts.take(&entry.kind);
            self.is_dropping = true;
        }
    }

    fn append(&mut self, entry: &Entry) -> Result<(), FormatError> {
        if let Some(leaf) = self.leaf.take_if(|leaf| entry.path.is_within(leaf)) {
            return Err(FormatError::malformed(format!(
                "{} lies below {leaf}, which is no directory",
                entry.path
            )));
        }
        self.leaf = (entry.kind != Kind::Directory).then(|| entry.path.clone());
        self.writer.begin(entry)?;
        self.collect();
        Ok(())
    }

    /// Names the segments that have ended.
    fn collect(&mut self) {
        for segment in self.writer.take_finished() {
            self.parts.push(TreePart::new(&self.store, segment));
        }
    }
}

/// Whether all that a segment has lies before a path, and another segment comes behind it: only the last one may
/// have ended because nothing followed.
fn ends_before(segments: &[SegmentRef], at: usize, path: Option<&TreePath>) -> bool {
    let Some(path) = path else { return true };
    let goes_on_only = first_of(&segments[at]).is_none() && at + 1 < segments.len();
    goes_on_only || segments[at + 1..].iter().find_map(first_of).is_some_and(|next| next <= path)
}

fn first_of(segment: &SegmentRef) -> Option<&TreePath> {
    segment.span.as_ref()?.first.as_ref()
}

fn span_of(segment: &SegmentRef) -> Result<&Span> {
    let missing = || Error::Internal { what: "a base without spans".to_owned() };
    segment.span.as_ref().ok_or_else(missing)
}

fn unusable(entry: &Entry, error: &FormatError) -> Error {
    Error::InvalidInput { what: format!("{} cannot be stored: {error}", entry.path) }
}

fn too_large(error: FormatError) -> Error {
    Error::InvalidInput { what: format!("the tree cannot be stored: {error}") }
}
