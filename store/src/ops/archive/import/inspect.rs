//! `Inspector` looks at the databases of an archive before it becomes a snapshot.

use std::{fmt, path::Path};

use crate::{Result, format::record::Record, ops::write::snapshot::Examined};

/// Chooses the files of an archive that are worth a look, and judges them.
pub trait Inspector: Send + Sync + fmt::Debug {
    /// How much of the beginning of a file is shown to [`Inspector::wants`].
    fn head_bytes(&self) -> usize;

    /// Whether the file at `path`, which begins with `head`, is to be looked at.
    fn wants(&self, path: &Path, head: &[u8]) -> bool;

    /// Looks at the files it wanted, which are below `root`. `base` is the snapshot that the new one is
    /// built on.
    fn judge(&self, root: &Path, base: Option<&Record>) -> Result<Inspected>;
}

/// The result of an inspection.
#[derive(Clone, Debug, Default)]
pub struct Inspected {
    /// The findings about the databases.
    pub examined: Examined,
    /// The full version of the Chrome that ran last on the profile.
    pub chrome_last_version: Option<String>,
    /// How Chrome says that it ended the last time.
    pub exit_type: Option<String>,
}
