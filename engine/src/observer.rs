//! `Observer` is told what happens while the engine works.

use std::{fmt::Debug, sync::Arc};

use store::progress::{Progress, Silent};

/// Receives what the engine has to say besides its outcome. A terminal prints it, a server logs it, a
/// counter counts it. No method may block for long: the engine waits for it.
pub trait Observer: Debug + Send + Sync {
    /// Something happened.
    fn observe(&self, observation: &Observation<'_>);

    /// Whether the door keeps stdout for itself. The commands that it starts then write to stderr.
    fn owns_stdout(&self) -> bool {
        true
    }

    /// Who follows the progress of the operation that begins now.
    fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(Silent)
    }
}

/// Something that happened while a request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// A step is done; only those who follow closely want to know.
    Step(&'a str),
    /// A remark that is not part of the outcome.
    Remark(&'a str),
    /// Something that somebody should look at, though the work goes on.
    Warning(&'a str),
}

/// Keeps everything to itself.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: &Observation<'_>) {}
}
