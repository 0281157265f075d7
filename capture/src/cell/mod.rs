//! `Cell` is a confined process that examines untrusted databases.
//!
//! A website, or the author of a snapshot, can put any bytes into a database. SQLite, which is written in C, and our
//! reader of LevelDB read them. If an attacker takes either over, the process can do nothing: it has an empty
//! environment, little memory and time, may open only the directory examined and write only to its copies, and can
//! neither reach the network nor start a process. It is this program, started once more; the kernel ends it with its
//! parent. One is enough for all databases of an examination.
//!
//! Its answers are untrusted too: bounded, parsed strictly, and never more than a verdict on the databases in its
//! order. Its death, or an exceeded limit, is a verdict as well. Only where a database is to be
//! [changed](crate::session_cookies) does the caller take bytes from it, and then it is asked about that one alone.

mod answer_reader;
mod confinement;
mod examine;
mod limits;
mod messages;
mod process;
mod serve;

use std::{ffi::OsString, path::PathBuf, time::Duration};

pub use answer_reader::is_understood;
pub use confinement::Confinement;
pub use serve::serve;

/// The one argument with which the program serves as such a process.
pub const VERB: &str = "examine-databases";

const MEMORY_BYTES: u64 = 256 << 20;
/// Longer than checks may take: their caller ends them first.
const CPU_SECONDS: u64 = 150;
const GRACE: Duration = Duration::from_secs(10);

/// The way to start such a process, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Of memory, for each database that is checked at a time and once for all the rest.
    pub memory_bytes: u64,
    /// For each database that is checked at a time.
    pub cpu_seconds: u64,
    /// How long it is waited for when its time is over, before it is killed.
    pub grace: Duration,
}

impl Cell {
    /// This very program, even if another version has taken its place on disk meanwhile.
    pub fn own() -> Self {
        Self {
            program: "/proc/self/exe".into(),
            arguments: vec![VERB.into()],
            memory_bytes: MEMORY_BYTES,
            cpu_seconds: CPU_SECONDS,
            grace: GRACE,
        }
    }
}
