//! `DbState` is the verdict on one database: whole, damaged or not checked.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize, Serializer};

/// At most so many problems are told of one database: one is enough to act on.
pub(crate) const MAX_PROBLEMS: usize = 20;

const MAX_PROBLEM_CHARS: usize = 240;

/// The verdict on one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "detail", rename_all = "snake_case", deny_unknown_fields)]
pub enum DbState {
    Ok,
    /// The problem, in words; never empty.
    Damaged(Vec<String>),
    /// Neither whole nor damaged as far as is known, and why.
    Unchecked(String),
}

impl DbState {
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }

    /// `Ok` without problems; the rest is cut to a readable length.
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

    pub(crate) fn out_of_memory() -> Self {
        Self::unchecked("there is not enough memory to check it")
    }

    /// Of a database whose check never comes to an end by itself. Whether it is damaged nobody
    /// can say; that nobody should rely on it is certain, so it counts as damaged.
    pub(crate) fn unexaminable(why: impl AsRef<str>) -> Self {
        Self::damaged(format!("it could not be examined: {}", why.as_ref()))
    }

    /// The same as somebody tells it who is not trusted; `None` if it makes no sense.
    pub(crate) fn told(self) -> Option<Self> {
        match self {
            Self::Damaged(problems) if problems.is_empty() => None,
            Self::Damaged(problems) => Some(Self::of_problems(problems)),
            Self::Unchecked(reason) => Some(Self::unchecked(reason)),
            Self::Ok => Some(Self::Ok),
        }
    }
}

/// Problems quote the content of a database, which may be of any length.
pub(crate) fn brief(text: &str) -> String {
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

    /// How long it is until then; `None` if they need not end.
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// Names are bytes; documents are text.
pub(crate) fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Names are bytes; each is the character of that number, so that most read as they are.
pub(crate) mod path_as_bytes {
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt, OsStringExt},
        path::{Path, PathBuf},
    };

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = path.as_os_str().as_bytes().iter().map(|byte| char::from(*byte)).collect();
        serializer.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        let bytes = bytes.map_err(|_| D::Error::custom("a character is no byte"))?;
        Ok(OsString::from_vec(bytes).into())
    }
}
