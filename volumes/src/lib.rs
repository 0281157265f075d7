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
