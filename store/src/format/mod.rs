//! Turns bytes into values and back, as `format-spec/README.md` lays down. Pure and bounded: no I/O, and no
//! allocation on a length's word alone.

pub mod bytes;
pub mod condemned;
pub mod config;
pub mod damage;
mod document;
pub mod event;
pub mod expectations;
pub mod frame;
pub mod health;
pub mod index;
pub mod job;
mod json;
pub mod layout;
pub mod limits;
pub mod lock;
pub mod manifest;
pub mod merged_events;
pub mod metrics;
pub mod pack;
pub mod pin;
pub mod pointer;
mod prefix;
pub mod record;
pub mod root;
pub mod schedule;
pub mod segment;
pub mod startup;
pub mod table;
pub mod tombstone;
pub mod tree;
pub mod tree_limits;
pub mod work_in_progress;

pub use document::Unknown;

use crate::error::plain;

/// The version of every binary object and JSON document this code writes.
pub const MAJOR: u16 = 1;
pub(crate) const MINOR: u16 = 0;

/// The name and version of this program, for messages of a pstore that no longer reads its documents.
pub const WRITER: &str = concat!("pstore ", env!("CARGO_PKG_VERSION"));

/// For messages about objects that name no writer of their own.
pub(crate) const UNNAMED_WRITER: &str = "a newer pstore";

/// Why bytes could not be decoded. The caller adds the object's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes do not follow the format.
    #[error("{0}")]
    Malformed(String),
    /// A version of the format that this code does not know.
    #[error("format version {found}, written by {writer}")]
    Version {
        /// The major version.
        found: u64,
        /// The program that wrote it.
        writer: String,
    },
    /// It needs a feature that this code does not have.
    #[error("needs the unknown feature {feature:?}, written by {writer}")]
    Feature {
        /// The first feature that is unknown.
        feature: String,
        /// The program that wrote it.
        writer: String,
    },
}

impl FormatError {
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed(reason.into())
    }

    /// Something that a later minor version may have added.
    pub(crate) fn feature(feature: impl Into<String>, writer: impl Into<String>) -> Self {
        Self::Feature { feature: feature.into(), writer: writer.into() }
    }

    /// The error of the object called `object`.
    pub fn of(self, object: impl ToString) -> crate::Error {
        let object = object.to_string();
        let line = |text: String| plain::line(&text).into_owned();
        match self {
            Self::Malformed(reason) => crate::Error::damaged(object, reason),
            Self::Version { found, writer } => crate::Error::UnsupportedFormat {
                object,
                found: found.to_string(),
                supported: MAJOR.to_string(),
                writer: line(writer),
            },
            Self::Feature { feature, writer } => {
                crate::Error::UnsupportedFeature { object, feature: line(feature), writer: line(writer) }
            }
        }
    }
}

/// A result whose error is about bytes.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;
