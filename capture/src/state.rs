//! What a check of a database found.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde::{Serialize, Serializer};

/// At most so many problems are told of one database: one is enough to act on.
pub(crate) const MAX_PROBLEMS: usize = 20;

const MAX_PROBLEM_CHARS: usize = 240;

/// The verdict on one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "detail", rename_all = "snake_case")]
pub enum State {
    Ok,
    /// What is wrong, in words; never empty.
    Damaged(Vec<String>),
    /// Neither whole nor damaged as far as is known, and why.
    Unchecked(String),
}

impl State {
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }

    /// `Ok` without problems; the rest is cut to what a person reads.
    pub(crate) fn of_problems(problems: Vec<String>) -> Self {
        if problems.is_empty() {
            return Self::Ok;
        }
        Self::Damaged(problems.into_iter().take(MAX_PROBLEMS).map(|problem| brief(&problem)).collect())
    }

    pub(crate) fn damaged(problem: impl Into<String>) -> Self {
        Self::of_problems(vec![problem.into()])
    }

    pub(crate) fn unchecked(reason: impl AsRef<str>) -> Self {
        Self::Unchecked(brief(reason.as_ref()))
    }

    pub(crate) fn out_of_time() -> Self {
        Self::unchecked("the time for checks ran out")
    }
}

/// Problems quote what a database contains, which may be of any length.
fn brief(text: &str) -> String {
    match text.char_indices().nth(MAX_PROBLEM_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// When checks have to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    pub const NEVER: Self = Self(None);

    pub fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    pub fn passed(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// Names are bytes; documents are text.
pub(crate) fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
