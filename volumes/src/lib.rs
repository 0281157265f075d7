//! `volumes` stores what an agent needs beside its browser's profile: the services, volumes and databases of a
//! project.
//!
//! ```text
//! container, project ──> docker ──> engine
//! ```
//!
//! A front end makes a request and gives it to a function of this crate together with an [`engine::Engine`]. As the
//! engine does, it returns a typed outcome or a failure, and never prints.

#![warn(missing_docs)]

pub mod container;
pub mod docker;
pub mod project;
pub mod schemas;

/// Boxes the future of an `async fn` that other crates await. Without it each of those crates compiles the whole
/// function, and all that it awaits, once more: the program holds it several times and takes longer to build.
pub(crate) use async_recursion::async_recursion as boxed;
