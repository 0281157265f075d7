//! Writes files that appear under their name when they are whole and durable, or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::{Result, catalog::clock, error::IoContext};

/// A file without its final name; removed again unless it gets one.
#[derive(Debug)]
pub(super) struct Unnamed {
    pub file: File,
    pub path: PathBuf,
    named: bool,
}

impl Unnamed {
    /// Its owner's alone: it may hold cookies and passwords.
    pub fn create(directory: &Path) -> Result<Self> {
        let path = directory.join(format!(".pstore-export-{}", clock::new_record_id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(&path).at("cannot create", &path)?;
        Ok(Self { file, path, named: false })
    }

    /// Makes the file durable and gives it its name, in place of one that has it already.
    pub fn name(mut self, name: &str) -> Result<PathBuf> {
        let target = self.path.with_file_name(name);
        self.file.sync_all().at("cannot flush", &self.path)?;
        fs::rename(&self.path, &target).at("cannot rename to", &target)?;
        self.named = true;
        Ok(target)
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if !self.named {
            // Nothing can be done about one that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a whole file.
pub(super) fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let mut unnamed = Unnamed::create(directory)?;
    unnamed.file.write_all(bytes).at("cannot write", &unnamed.path)?;
    unnamed.name(name)
}

/// Makes the names in a directory durable.
pub(super) fn settle(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|open| open.sync_all()).at("cannot flush", directory)
}
