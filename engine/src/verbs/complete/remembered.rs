//! `Remembered` keeps names that this host has asked for before, in a file for each question.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::most_time;
use crate::failure::Failure;

/// For so long the answer is not asked for again: somebody who types asks with every key.
const FRESH: Duration = Duration::from_secs(20);

/// The answer to one question about one store.
pub(super) struct Remembered {
    path: Option<PathBuf>,
}

impl Remembered {
    pub(super) fn new(cache_root: Option<&Path>, store: &str, what: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (store, what).hash(&mut hasher);
        let name = format!("{:016x}", hasher.finish());
        Self { path: cache_root.map(|root| root.join("names").join(name)) }
    }

    /// What is remembered, if it is fresh; else what `asking` finds out in time; else what is
    /// remembered, however old.
    pub(super) async fn or_ask(
        &self,
        asking: impl Future<Output = Result<Vec<String>, Failure>>,
    ) -> Vec<String> {
        if let Some(fresh) = self.read(Some(FRESH)) {
            return fresh;
        }
        match tokio::time::timeout(most_time(), asking).await {
            Ok(Ok(names)) => {
                self.write(&names);
                names
            }
            Ok(Err(_)) | Err(_) => self.read(None).unwrap_or_default(),
        }
    }

    fn read(&self, at_most: Option<Duration>) -> Option<Vec<String>> {
        let path = self.path.as_ref()?;
        let age = fs::metadata(path).ok()?.modified().ok()?.elapsed().ok();
        if at_most.is_some_and(|at_most| age.is_none_or(|age| age > at_most)) {
            return None;
        }
        Some(fs::read_to_string(path).ok()?.lines().map(str::to_owned).collect())
    }

    /// If it cannot be written, the next completion asks again.
    fn write(&self, names: &[String]) {
        let Some(path) = &self.path else { return };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            let aside = path.with_extension(std::process::id().to_string());
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
            file.write_all(names.join("\n").as_bytes())?;
            fs::rename(&aside, path)
        };
        let _ = write();
    }
}
