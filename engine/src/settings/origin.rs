//! `Origin` tells where a value comes from.

use std::{fmt, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(&'static str),
    Flag(&'static str),
}

impl Origin {
    /// Its kind, in one word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Variable(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }

    /// Which file and line, which variable, which flag.
    pub fn place(&self) -> Option<String> {
        match self {
            Self::Default => None,
            Self::File { path, line } => Some(format!("{}:{line}", path.display())),
            Self::Variable(name) | Self::Flag(name) => Some((*name).to_owned()),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            None => f.write_str(self.word()),
            Some(place) => write!(f, "{} {place}", self.word()),
        }
    }
}
