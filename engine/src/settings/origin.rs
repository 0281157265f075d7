//! `Origin` tells where a value comes from.

use std::{fmt, path::PathBuf};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A line of the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An environment variable of this name.
    Variable(&'static str),
    /// A flag of the command line.
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
