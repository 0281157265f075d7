//! Chooses some paths of a snapshot instead of all of it.

use std::collections::HashMap;

use crate::{
    Result,
    content::chunk::Piece,
    format::tree::{Entry, Kind, TreePath},
    ops::read::{browse, open::Opened},
};

/// Leaves what `paths` name, all below them, and the directories they are in. A file of which only
/// a hard link is left takes that link's name.
pub(super) fn select(opened: Opened, paths: &[TreePath]) -> Result<Opened> {
    for path in paths {
        browse::entry(&opened.entries, path).ok_or_else(|| browse::missing(&opened.record, path))?;
    }
    let pieces: Vec<Vec<Piece>> = opened.pieces().collect();
    let Opened { record, metadata, entries, .. } = opened;
    let is_chosen = |path: &TreePath| paths.iter().any(|chosen| is_below(path, chosen));
    let leads_there = |entry: &Entry| {
        entry.kind == Kind::Directory && paths.iter().any(|chosen| is_below(chosen, &entry.path))
    };
    let (mut chosen, mut locations) = (Vec::new(), Vec::new());
    // The names that files got whose own was not chosen.
    let mut renamed: HashMap<TreePath, TreePath> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if !is_chosen(&entry.path) && !leads_there(entry) {
            continue;
        }
        let (entry, at) = match &entry.kind {
            Kind::HardLink { target } if !is_chosen(target) => match renamed.get(target) {
                Some(name) => (Entry { kind: Kind::HardLink { target: name.clone() }, ..entry.clone() }, at),
                None => {
                    let file = entries.binary_search_by(|other| other.path.cmp(target)).unwrap_or(at);
                    renamed.insert(target.clone(), entry.path.clone());
                    (Entry { path: entry.path.clone(), ..entries[file].clone() }, file)
                }
            },
            _ => (entry.clone(), at),
        };
        locations.extend(pieces[at].iter().map(|piece| piece.location));
        chosen.push(entry);
    }
    Ok(Opened { record, metadata, entries: chosen, locations })
}

/// Whether `path` is `directory`, or in it.
fn is_below(path: &TreePath, directory: &TreePath) -> bool {
    let (path, directory) = (path.as_bytes(), directory.as_bytes());
    match path.strip_prefix(directory) {
        Some(rest) => directory.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}
