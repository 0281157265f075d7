//! `examine` has the files of a commit checked before they become a snapshot.
//!
//! They are copied out of the frozen tree, and the copies are looked at: what is judged are the
//! bytes that are stored, whatever is changed meanwhile. Nothing is read through the kernel.
//! Whoever makes or removes a name has the kernel's lock of that directory until it is answered;
//! a look through the mount would wait for that lock, and a change that waits for the commit
//! would never be answered.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use store::{
    Error, Result,
    format::{
        health::{Finding, Health},
        record::Record,
    },
    ops::write::{
        commit::TreeChange,
        snapshot::{Examined, Examiner, TreeFiles},
    },
    scratch::{self, Scratch},
};

use super::Mount;
use crate::{
    attributes::FileKind,
    freeze::{
        FrozenChanges, FrozenNodes,
        frozen_files::{FrozenFile, FrozenFiles, to_path},
    },
};

/// Files of which more than this lies far away are not fetched to be checked.
const MAX_FETCHED_TO_CHECK: u64 = 16 << 20;
/// How every database of SQLite's starts.
const DATABASE: [u8; 16] = *b"SQLite format 3\0";
/// So much is copied at once.
const AT_ONCE: u64 = 4 << 20;

impl Mount {
    /// Has the files looked at that a commit stores. Blocks.
    pub(super) fn examine(
        &self,
        examiner: &dyn Examiner,
        frozen: &FrozenNodes,
        changes: &FrozenChanges,
        base: Option<&Record>,
    ) -> Result<Examined> {
        let files = FrozenFiles::of(frozen, &self.runtime);
        let far = |at: usize| !self.is_near() && changes.files.far_bytes(at) > MAX_FETCHED_TO_CHECK;
        let mut changed: BTreeSet<PathBuf> = changes.removed.iter().map(to_path).collect();
        let mut unchecked = Vec::new();
        for (entry, at) in changes.changes.changes.iter().filter_map(TreeChange::rewritten) {
            let path = to_path(&entry.path);
            if !far(at) {
                changed.insert(path);
            } else if files.head(&path, DATABASE.len()).is_some_and(|head| head == DATABASE) {
                changed.remove(&path);
                unchecked.push(finding(&path, "most of it has not been read on this host"));
            }
        }
        let read = examiner.reads(&files, base.map(|_| &changed))?;
        let copy = Copy::of(&files, &read)?;
        if let Some(health) = base.and_then(|base| base.health.as_ref()) {
            copy.show(&files, health)?;
        }
        // What could not be copied is said, and so is what it was a part of.
        changed.retain(|path| !copy.is_without(path));
        unchecked.extend(copy.without.iter().map(|(path, why)| finding(path, why)));
        let scope = base.map(|_| &changed);
        let mut examined = examiner.examine(copy.folder.path(), scope, base)?;
        if let Some(health) = &mut examined.health {
            health.unchecked.extend(unchecked);
        }
        Ok(examined)
    }
}

/// Files of the frozen tree, where nobody else sees them.
#[derive(Debug)]
struct Copy {
    folder: Scratch,
    /// Files that could not be copied, and why. None of their directories is in it.
    without: Vec<(PathBuf, String)>,
}

impl Copy {
    fn of(files: &FrozenFiles<'_>, paths: &BTreeSet<PathBuf>) -> Result<Self> {
        let folder = Scratch::make(&std::env::temp_dir(), scratch::Kind::Look)?;
        let mut copy = Self { folder, without: Vec::new() };
        for path in paths {
            let Some(file) = files.file(path)? else { continue };
            if copy.is_without(path) {
                continue;
            }
            if let Err(error) = copy.add(path, &file) {
                tracing::warn!(%error, path = %path.display(), "a database is not checked");
                copy.without.push((path.clone(), format!("it could not be copied: {error}")));
                // A database of which a part is missing would be found damaged.
                copy.remove_beside(path)?;
            }
        }
        Ok(copy)
    }

    fn add(&self, path: &Path, file: &FrozenFile) -> Result<()> {
        let to = self.folder.path().join(path);
        let failed = |error| Error::io("cannot write", &to, error);
        let made = make(&to).map_err(failed)?;
        let size = file.size();
        made.set_len(size).map_err(failed)?;
        let mut buffer = vec![0; AT_ONCE.min(size) as usize];
        for start in (0..size).step_by(AT_ONCE as usize) {
            let part = &mut buffer[..AT_ONCE.min(size - start) as usize];
            file.read(start, part)?;
            if part.iter().any(|byte| *byte != 0) {
                made.write_all_at(part, start).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Takes the files of one directory away.
    fn remove_beside(&self, path: &Path) -> Result<()> {
        let folder = self.folder.path().join(path.parent().unwrap_or(Path::new("")));
        let failed = |error| Error::io("cannot clear", &folder, error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_file() {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Whether files of this one's directory are left out.
    fn is_without(&self, path: &Path) -> bool {
        self.without.iter().any(|(without, _)| without.parent() == path.parent())
    }

    /// What was found before still holds if what it was found of is still there: shows that it
    /// is. Nobody looks at its bytes, since they are as they were.
    fn show(&self, files: &FrozenFiles<'_>, found: &Health) -> Result<()> {
        let findings = found.damaged.iter().chain(&found.unchecked).map(|finding| &finding.path);
        let recovered = found.recovered.iter().map(|recovered| &recovered.path);
        let torn = found.torn_logs.iter().map(|log| &log.path);
        let named: BTreeSet<&Path> =
            findings.chain(&found.hot_journals).chain(recovered).chain(torn).map(Path::new).collect();
        for path in named {
            let to = self.folder.path().join(path);
            let shown = match files.kind(path)? {
                None => Ok(()),
                Some(FileKind::Directory) => private(&to),
                Some(_) if to.exists() => Ok(()),
                Some(_) => make(&to).map(drop),
            };
            shown.map_err(|error| Error::io("cannot write", &to, error))?;
        }
        Ok(())
    }
}

/// Makes a file, and the directories it is in.
fn make(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        private(parent)?;
    }
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

fn private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn finding(path: &Path, problem: &str) -> Finding {
    Finding {
        path: path.to_string_lossy().into_owned(),
        problem: problem.to_owned(),
        unknown: Default::default(),
    }
}
