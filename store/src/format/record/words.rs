//! `Mode` and `Reason` encode a record's words, and keep words that a newer pstore wrote.

use serde::{Deserialize, Serialize};

/// Whether Chrome was running: one of these words, or any other. Nothing depends on it, so a
/// word that a later pstore came up with is kept and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Mode {
    /// The browser had ended.
    Cold,
    /// The browser was running.
    Hot,
    /// A word that this code does not know.
    Other(String),
}

impl Mode {
    /// The word in the record.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cold => "cold",
            Self::Hot => "hot",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for Mode {
    fn from(word: String) -> Self {
        match word.as_str() {
            "cold" => Self::Cold,
            "hot" => Self::Hot,
            _ => Self::Other(word),
        }
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.as_str().to_owned()
    }
}

/// Why a snapshot was taken: one of these words, or any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Reason {
    /// Somebody asked for it.
    Manual,
    /// Taken by itself, on a schedule.
    Autosave,
    /// A run of a browser ended.
    RunEnd,
    /// The changes in a mount were committed.
    Commit,
    /// Taken before another Chrome opened the profile.
    BeforeUpgrade,
    /// Taken before another snapshot was restored in its place.
    BeforeRestore,
    /// Taken before the pointer went back to an older one.
    BeforeRollback,
    /// It was an archive.
    Import,
    /// A word that this code does not know.
    Other(String),
}

impl Reason {
    /// All that have a word of their own.
    pub const KNOWN: [Self; 8] = [
        Self::Manual,
        Self::Autosave,
        Self::RunEnd,
        Self::Commit,
        Self::BeforeUpgrade,
        Self::BeforeRestore,
        Self::BeforeRollback,
        Self::Import,
    ];

    /// Of a write that takes no snapshot, but moves chunks of others.
    pub fn moving() -> Self {
        Self::Other("repack".to_owned())
    }

    /// The word in the record.
    pub fn as_str(&self) -> &str {
        self.word().unwrap_or_else(|| match self {
            Self::Other(word) => word,
            _ => "",
        })
    }

    /// The word of its own, if it has one.
    pub const fn word(&self) -> Option<&'static str> {
        Some(match self {
            Self::Manual => "manual",
            Self::Autosave => "autosave",
            Self::RunEnd => "run_end",
            Self::Commit => "commit",
            Self::BeforeUpgrade => "before-upgrade",
            Self::BeforeRestore => "before-restore",
            Self::BeforeRollback => "before-rollback",
            Self::Import => "import",
            Self::Other(_) => return None,
        })
    }
}

impl From<String> for Reason {
    fn from(word: String) -> Self {
        Self::KNOWN.into_iter().find(|known| known.as_str() == word).unwrap_or(Self::Other(word))
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.as_str().to_owned()
    }
}
