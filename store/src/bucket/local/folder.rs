//! Lists a directory tree as keys.

use std::{
    ffi::OsString,
    fs::{self, DirEntry},
    io,
    path::Path,
    time::SystemTime,
};

use super::{Layout, failed, lock::FolderLock};
use crate::bucket::{Depth, Entry, Page, Prefix, Result};

/// One listing, folder by folder. A folder is locked while it is read, and no longer.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    layout: &'a Layout,
}

/// An entry of a folder.
enum Child {
    Folder(OsString),
    Object { name: OsString, size: u64, modified: SystemTime },
}

impl<'a> Listing<'a> {
    pub(super) fn new(layout: &'a Layout) -> Self {
        Self { layout }
    }

    /// Everything below the prefix. Names that no key can have, and entries that are neither file nor
    /// directory, are not ours and are left out.
    pub(super) fn list(&self, prefix: &Prefix, depth: Depth) -> Result<Page> {
        let mut page = Page::default();
        self.fill(&mut page, &self.layout.objects().join(prefix.as_str()), prefix, depth)?;
        Ok(page)
    }

    fn fill(&self, page: &mut Page, folder: &Path, prefix: &Prefix, depth: Depth) -> Result<()> {
        for child in self.children(folder, look)? {
            match child {
                Child::Object { name, size, modified } => {
                    let Ok(key) = prefix.key(&name.to_string_lossy()) else { continue };
                    page.entries.push(Entry { key, size, modified });
                }
                Child::Folder(name) => {
                    let path = folder.join(&name);
                    let Ok(below) = prefix.join(&format!("{}/", name.to_string_lossy())) else { continue };
                    match depth {
                        Depth::All => self.fill(page, &path, &below, depth)?,
                        // Directories outlive their objects, but a folder is only there as long
                        // as it holds one.
                        Depth::Children if self.holds_object(&path)? => page.folders.push(below),
                        Depth::Children => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn holds_object(&self, folder: &Path) -> Result<bool> {
        let children = self.children(folder, |entry| Ok(Some((entry.file_type()?, entry.path()))))?;
        if children.iter().any(|(kind, _)| kind.is_file()) {
            return Ok(true);
        }
        for (_, folder) in children.iter().filter(|(kind, _)| kind.is_dir()) {
            if self.holds_object(folder)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The results of `look` for all entries, seen while none of them is being replaced.
    fn children<T>(
        &self,
        folder: &Path,
        look: impl Fn(&DirEntry) -> io::Result<Option<T>>,
    ) -> Result<Vec<T>> {
        loop {
            let lock = FolderLock::shared(self.layout, folder)?;
            let children = read(folder, &look).map_err(failed(folder))?;
            // Without a lock file nobody had replaced anything before. If there is one by now,
            // somebody may have, while the folder was read.
            if lock.is_some() || !FolderLock::is_known(self.layout, folder) {
                return Ok(children);
            }
        }
    }
}

/// Empty if there is no such folder, or an object in its place.
fn read<T>(folder: &Path, look: impl Fn(&DirEntry) -> io::Result<Option<T>>) -> io::Result<Vec<T>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(look(&entry?)?);
    }
    Ok(found)
}

fn look(entry: &DirEntry) -> io::Result<Option<Child>> {
    if entry.file_type()?.is_dir() {
        return Ok(Some(Child::Folder(entry.file_name())));
    }
    match entry.metadata() {
        Ok(metadata) if !metadata.is_file() => Ok(None),
        Ok(metadata) => Ok(Some(Child::Object {
            name: entry.file_name(),
            size: metadata.len(),
            modified: metadata.modified()?,
        })),
        // It was deleted just now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
