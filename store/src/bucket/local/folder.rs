//! Listing a directory tree as keys.

use std::{
    fs::{self, DirEntry},
    io,
    path::Path,
};

use super::failed;
use crate::bucket::{Depth, Entry, Page, Prefix, Result};

/// Everything below `folder`, whose keys start with `prefix`. Names that no key can have,
/// and what is neither file nor directory, are not ours and are left out.
pub(super) fn list(folder: &Path, prefix: &Prefix, depth: Depth) -> Result<Page> {
    let mut page = Page::default();
    fill(&mut page, folder, prefix, depth)?;
    Ok(page)
}

fn fill(page: &mut Page, folder: &Path, prefix: &Prefix, depth: Depth) -> Result<()> {
    for entry in children(folder)? {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if entry.file_type().map_err(failed(&path))?.is_dir() {
            let Ok(below) = prefix.join(&format!("{name}/")) else { continue };
            match depth {
                Depth::All => fill(page, &path, &below, depth)?,
                // Directories outlive their objects, but a folder is only there as long as
                // it holds one.
                Depth::Children if holds_object(&path)? => page.folders.push(below),
                Depth::Children => {}
            }
            continue;
        }
        let Ok(key) = prefix.key(&name) else { continue };
        match entry.metadata() {
            Ok(metadata) if !metadata.is_file() => {}
            Ok(metadata) => page.entries.push(Entry {
                key,
                size: metadata.len(),
                modified: metadata.modified().map_err(failed(&path))?,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path)(error)),
        }
    }
    Ok(())
}

fn holds_object(folder: &Path) -> Result<bool> {
    let mut folders = Vec::new();
    for entry in children(folder)? {
        let kind = entry.file_type().map_err(failed(folder))?;
        if kind.is_file() {
            return Ok(true);
        }
        if kind.is_dir() {
            folders.push(entry.path());
        }
    }
    for folder in folders {
        if holds_object(&folder)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Empty if there is no such folder, or an object in its place.
fn children(folder: &Path) -> Result<Vec<DirEntry>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(folder)(error)),
    };
    entries.collect::<io::Result<_>>().map_err(failed(folder))
}
