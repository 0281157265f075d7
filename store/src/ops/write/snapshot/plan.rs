//! `Plan` tells which files must be read, and which keep the chunks they had.

use std::{collections::BTreeMap, sync::Arc};

use super::Capture;
use crate::{
    Error, Result,
    content::{TenantStore, cache::CacheKind, meta::NewTree, workers::blocking},
    error::IoContext,
    format::{
        FormatError,
        tree::{Entry, Extent, Kind, TreePath},
        tree_limits::Tally,
    },
    ops::write::new_tree,
    progress::Tick,
    tree::{
        root_dir::RootDir,
        stat_cache::StatCache,
        walk::{FileState, FoundFile, Walk, walk},
    },
};

/// Files of this size come after all that are smaller, and so lie in packs of their own. They live less
/// long: Chromium's cache evicts by size times age. When they are gone, whole packs are needed
/// no more, or little of each, and less is left for a collection to copy.
const LARGE_BYTES: u64 = 128 << 10;

/// A walk with the files that need no reading filled in.
pub(super) struct Plan {
    pub root: Arc<RootDir>,
    pub walk: Walk,
    pub to_read: Vec<FoundFile>,
    /// Files that keep the chunks they had.
    pub kept: Vec<FoundFile>,
    /// What every file that was read was then.
    seen: BTreeMap<usize, FileState>,
    exclusions: Vec<String>,
    /// What was known before.
    cache: Arc<StatCache>,
    cache_name: Option<String>,
    threads: usize,
    /// Whether everything was looked at again after it was read, and had not changed.
    pub checked: bool,
}

impl Plan {
    pub async fn make(capture: &Capture<'_>) -> Result<Self> {
        let directory = capture.request.directory.clone();
        let exclusions = capture.request.about.exclusions.clone();
        let (store, rescan) = (capture.store.clone(), capture.request.rescan);
        let (threads, max_bytes) = (capture.request.threads, capture.request.max_bytes);
        let plan = blocking(move || {
            let root = Arc::new(RootDir::open(&directory)?);
            let cache_name = cache_name(&root);
            let cache = match &cache_name {
                Some(name) if !rescan => load(&store, name),
                _ => StatCache::default(),
            };
            let mut walk = walk_with(&root, &exclusions, &cache, threads)?;
            super::size::check(&directory, &walk.entries, walk.bytes, max_bytes)?;
            check_limits(&root, &walk.entries)?;
            let (mut to_read, mut kept) = (Vec::new(), Vec::new());
            for file in std::mem::take(&mut walk.files) {
                let entry = &mut walk.entries[file.entry];
                match cache.extents(entry.path.as_bytes(), &file.state) {
                    Some(known) => {
                        entry.set_extents(known.to_vec());
                        kept.push(file);
                    }
                    None => to_read.push(file),
                }
            }
            // The sort is stable: otherwise they stay in the tree's order.
            to_read.sort_by_key(|file| file.state.size >= LARGE_BYTES);
            Ok(Self {
                root,
                walk,
                to_read,
                kept,
                seen: BTreeMap::new(),
                exclusions,
                cache: Arc::new(cache),
                cache_name,
                threads,
                checked: false,
            })
        })
        .await?;
        let files = plan.to_read.len() + plan.kept.len();
        capture.progress.begin("snapshot", files as u64, plan.walk.bytes);
        let bytes = plan.kept.iter().map(|file| file.state.size).sum();
        capture.progress.tick(Tick { files: plan.kept.len() as u64, bytes, ..Tick::default() });
        Ok(plan)
    }

    /// Moves the plan out, to be used on another thread; what stays is empty.
    pub fn move_out(&mut self) -> Self {
        let empty = Self {
            root: Arc::clone(&self.root),
            walk: Walk::default(),
            to_read: Vec::new(),
            kept: Vec::new(),
            seen: BTreeMap::new(),
            exclusions: Vec::new(),
            cache: Arc::default(),
            cache_name: None,
            threads: self.threads,
            checked: false,
        };
        std::mem::replace(self, empty)
    }

    /// The tree as it is known now.
    pub fn tree(&self, store: &TenantStore) -> Result<NewTree> {
        new_tree(store, &self.walk.entries, |entry, error| unusable(&self.root, entry, error))
    }

    /// Takes in what reading a file gave.
    pub fn fill(&mut self, file: FoundFile, extents: Vec<Extent>, state: Option<FileState>) {
        let entry = &mut self.walk.entries[file.entry];
        entry.set_extents(extents);
        // What was seen while reading counts, not what the walk saw before.
        entry.meta.mtime = state.map_or(entry.meta.mtime, |state| state.mtime);
        if let Some(state) = state {
            self.seen.insert(file.entry, state);
        }
    }

    /// Marks these entries, which are regular files, to be read again.
    pub fn read_again(&mut self, entries: &[usize]) -> Result<()> {
        for at in entries {
            let path = &self.walk.entries[*at].path;
            let fd = self.root.open_at(path.as_bytes(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
            let stat =
                fd.and_then(|fd| Ok(rustix::fs::fstat(fd)?)).at("cannot look at", self.root.display(path))?;
            self.to_read.push(FoundFile::new(*at, &stat));
            self.kept.retain(|file| file.entry != *at);
        }
        Ok(())
    }

    /// Fails if anything in the directory has changed since it was walked: files that were
    /// read one after the other belong together only if none of them changed meanwhile.
    pub fn check_unchanged(&self) -> Result<()> {
        let again = walk_with(&self.root, &self.exclusions, &self.cache, self.threads)?;
        let states = again.files.iter().map(|file| (file.entry, file.state));
        let changed = self
            .walk
            .entries
            .iter()
            .zip(&again.entries)
            .find(|(before, now)| before.path != now.path || before.meta != now.meta)
            .map(|(before, now)| before.path.clone().min(now.path.clone()));
        let longer = self.walk.entries.len() != again.entries.len();
        let touched = || {
            let seen = self
                .kept
                .iter()
                .map(|file| (file.entry, file.state))
                .chain(self.seen.iter().map(|(entry, state)| (*entry, *state)));
            let seen: BTreeMap<usize, FileState> = seen.collect();
            states.into_iter().find(|(entry, state)| seen.get(entry).is_some_and(|before| before != state))
        };
        let path = match changed {
            Some(path) => path,
            None if longer => TreePath::root(),
            None => match touched() {
                Some((entry, _)) => self.walk.entries[entry].path.clone(),
                None => return Ok(()),
            },
        };
        Err(Error::SourceChanged { path: self.root.display(&path), attempts: 1 })
    }

    /// Remembers the states of files that may be trusted next time: of those that were kept,
    /// and of `trusted` ones that were read.
    pub fn remember(&self, store: &TenantStore, trusted: &[(usize, FileState)]) {
        let (Some(cache), Some(name)) = (&store.cache, &self.cache_name) else { return };
        let mut states = StatCache::with_capacity(self.kept.len() + trusted.len());
        let mut insert = |entry: usize, state: FileState, sure: bool| {
            let entry = &self.walk.entries[entry];
            if let Kind::File { extents, .. } = &entry.kind {
                let xattrs = sure.then(|| entry.meta.xattrs.clone());
                states.insert(entry.path.as_bytes(), state, xattrs, extents.clone());
            }
        };
        // Attributes are read before the state that may be trusted is taken: they belong to it
        // if they were the same afterwards.
        for file in &self.kept {
            let path = self.walk.entries[file.entry].path.as_bytes();
            insert(file.entry, file.state, self.checked || self.cache.xattrs(path, &file.state).is_some());
        }
        // One that was read again counts as what it was then.
        let current = trusted.iter().filter(|(entry, state)| self.seen.get(entry) == Some(state));
        current.for_each(|(entry, state)| insert(*entry, *state, self.checked));
        cache.write(CacheKind::Stat, name, &states.encode());
    }
}

/// Before anything is stored: what could not be read back is not worth it.
fn check_limits(root: &RootDir, entries: &[Entry]) -> Result<()> {
    let mut tally = Tally::default();
    let mut checked = entries.iter().map(|entry| (entry, tally.add(entry, u64::MAX)));
    match checked.find_map(|(entry, added)| Some((entry, added.err()?))) {
        None => Ok(()),
        Some((entry, error)) => Err(unusable(root, entry, &error)),
    }
}

fn unusable(root: &RootDir, entry: &Entry, error: &FormatError) -> Error {
    let path = root.display(&entry.path);
    Error::InvalidInput { what: format!("{} cannot be stored: {error}", path.display()) }
}

fn walk_with(root: &RootDir, exclusions: &[String], cache: &StatCache, threads: usize) -> Result<Walk> {
    let known = |path: &TreePath, state: &FileState| cache.xattrs(path.as_bytes(), state).cloned();
    walk(root, &|path| is_excluded(exclusions, path), &known, threads)
}

fn is_excluded(exclusions: &[String], path: &TreePath) -> bool {
    exclusions.iter().any(|name| name.as_bytes() == path.as_bytes())
}

/// The cache entry of this directory on this file system; none if it cannot be told.
fn cache_name(root: &RootDir) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let path = root.path().canonicalize().ok()?;
    let stat = rustix::fs::fstat(root.fd()).ok()?;
    let file_system = rustix::fs::fstatvfs(root.fd()).ok()?.f_fsid;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&stat.st_dev.to_le_bytes());
    hasher.update(&file_system.to_le_bytes());
    hasher.update(path.as_os_str().as_bytes());
    Some(hasher.finalize().to_hex()[..32].to_owned())
}

fn load(store: &TenantStore, name: &str) -> StatCache {
    let bytes = store.cache.as_ref().and_then(|cache| cache.read(CacheKind::Stat, name));
    bytes.and_then(|bytes| StatCache::decode(&bytes).ok()).unwrap_or_default()
}
