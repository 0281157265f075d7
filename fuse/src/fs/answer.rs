//! `Answer` is what the file system says, unless something of the snapshot must be loaded first.

use tokio::runtime::Handle;

use crate::{
    Errno, Result,
    overlay::base_tree::{Missing, Now},
};

/// Why there is no answer.
#[derive(Debug)]
pub enum Unanswered {
    /// What was asked cannot be done.
    Refused(Errno),
    /// It is not known yet: this must be loaded first, and then the same be asked again. Nothing has happened.
    Missing(Missing),
}

pub type Answer<T> = std::result::Result<T, Unanswered>;

impl From<Errno> for Unanswered {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

impl From<Missing> for Unanswered {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

/// Loads what an answer needs. If that fails, so does whatever was asked.
pub async fn load(missing: Missing) -> Result<()> {
    missing.load().await.map_err(|error| {
        tracing::error!(%error, "a part of the snapshot's tree could not be read");
        Errno::IO
    })
}

/// Asks until there is an answer, and waits for whatever that needs: for threads that may wait.
pub fn wait<T>(runtime: &Handle, mut ask: impl FnMut() -> Answer<T>) -> Result<T> {
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(Unanswered::Refused(errno)) => return Err(errno),
            Err(Unanswered::Missing(missing)) => runtime.block_on(load(missing))?,
        }
    }
}

/// What is known now; an error if something would have to be loaded.
pub(super) fn known<T>(answer: Now<T>) -> Option<T> {
    answer.ok()
}
