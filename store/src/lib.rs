//! Snapshots of directory trees as deduplicated, verified chunks in a bucket.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> store::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let (here, there) = (folder.path().join("here"), folder.path().join("there"));
//! # std::fs::create_dir(&here).unwrap();
//! std::fs::write(here.join("Preferences"), "{}").unwrap();
//! let store = store::Store::open(&format!("file://{}", folder.path().join("store").display())).await?;
//! store.init(Default::default()).await?;
//!
//! let alice = store.profile("acme/alice", 131).await?;
//! let stored = alice.snapshot(&here).label("task", "checkout").await?;
//! assert_eq!(stored.counts.files, 1);
//!
//! alice.restore(&there).await?;
//! assert_eq!(std::fs::read(there.join("Preferences")).unwrap(), b"{}");
//! assert_eq!(alice.read("Preferences").await?, b"{}");
//! # Ok(())
//! # }
//! ```
//!
//! [`Store`] and [`Profile`] are the short way in; [`ops`] has every operation with all that can be said
//! about it. The layers, each knowing only those to its right:
//!
//! ```text
//! profile ──> ops ──> catalog ──> content ──> format, bucket ──> id, name, key, error, scratch
//! ops ──> tree ─────────────────> format
//! ops ──> archive ──────────────> format
//! ```
//!
//! The library never talks to a person: no terminal, no environment, no exit.

#![warn(missing_docs)]

pub mod archive;
pub mod bucket;
pub mod catalog;
pub mod content;
pub mod error;
pub mod format;
pub mod id;
pub mod key;
pub mod name;
pub mod observer;
pub mod ops;
mod profile;
pub mod progress;
#[cfg(feature = "schema")]
mod schema;
pub mod scratch;
pub mod tree;

pub use catalog::store::Store;
pub use error::{Error, ErrorKind, Result};
pub use profile::{Profile, RestoreBuilder, SnapshotBuilder};
