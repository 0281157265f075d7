//! `top` looks at what goes on, on this host or through a server: runs and their locks, mounts, sessions and rates.
//!
//! A look never fails as a whole. Whatever cannot be read is a problem of its part, beside the parts that can.

mod client;
mod host;
mod locks;
mod rates;
mod rows;
mod server;

pub use self::{
    client::{ServerAccess, ServerUrl},
    host::HostView,
    rows::{TopLock, TopMount, TopRate, TopSession},
    server::ServerView,
};

use schemars::JsonSchema;
use serde::Serialize;
use store::ErrorKind;

use crate::{
    failure::{Failure, codes},
    outcome::Outcome,
};

/// What goes on at one moment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TopOutcome {
    /// The host, or the URL of the server.
    pub source: String,
    /// When it was looked at, by the clock of this host.
    pub as_of_ms: u64,
    /// How many locks there are; `locks` may have fewer.
    pub total_locks: u64,
    /// The locks that are not free, with the runs that hold them; those that end first before the others.
    pub locks: Vec<TopLock>,
    /// What is mounted on the host, or on the server's.
    pub mounts: Vec<TopMount>,
    /// The interrupted sessions of the host; of a server, the sessions of all hosts.
    pub sessions: Vec<TopSession>,
    /// What was counted, and how fast it grows.
    pub rates: Vec<TopRate>,
    /// The parts that could not be read.
    pub problems: Vec<TopProblem>,
}

/// A part of what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopPart {
    /// The locks.
    Locks,
    /// The mounts.
    Mounts,
    /// The sessions.
    Sessions,
    /// The rates.
    Rates,
}

impl TopPart {
    /// All there are, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Locks, Self::Mounts, Self::Sessions, Self::Rates];
}

/// A part that could not be read, and why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TopProblem {
    /// The part.
    pub part: TopPart,
    /// The kind of failure.
    #[serde(serialize_with = "codes::serialize")]
    #[schemars(schema_with = "codes::schema")]
    pub kind: ErrorKind,
    /// The failure, in a sentence.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
}

impl Outcome for TopOutcome {
    const HAS_VERDICT: bool = true;

    /// As long as a part could be read, there is something to look at.
    fn verdict(&self) -> Option<Failure> {
        let has_failed = |part: &TopPart| self.problems.iter().any(|problem| problem.part == *part);
        let first = self.problems.first().filter(|_| TopPart::ALL.iter().all(has_failed))?;
        let failure = Failure::new(first.kind, first.message.clone());
        Some(Failure { hint: first.hint.clone(), ..failure })
    }
}

impl TopOutcome {
    fn new(source: String, as_of_ms: u64) -> Self {
        Self {
            source,
            as_of_ms,
            total_locks: 0,
            locks: Vec::new(),
            mounts: Vec::new(),
            sessions: Vec::new(),
            rates: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// What could be read of a part; nothing, and a problem, if it could not.
    fn took<T: Default>(&mut self, part: TopPart, read: Result<T, Failure>) -> T {
        read.unwrap_or_else(|failure| {
            self.lacks(part, failure);
            T::default()
        })
    }

    /// A part, or some of it, could not be read.
    fn lacks(&mut self, part: TopPart, Failure { kind, message, hint, .. }: Failure) {
        self.problems.push(TopProblem { part, kind, message, hint });
    }
}

/// Looks again and again, at a host or through a server.
#[derive(Debug)]
pub enum TopView {
    /// At this host.
    Host(Box<HostView>),
    /// Through a server.
    Server(Box<ServerView>),
}

impl TopView {
    /// Looks once more.
    #[crate::boxed]
    pub async fn look(&mut self) -> TopOutcome {
        match self {
            Self::Host(view) => view.look().await,
            Self::Server(view) => view.look().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_fails_only_if_no_part_could_be_read() {
        let mut seen = TopOutcome::new("h".to_owned(), 0);
        for part in TopPart::ALL {
            assert!(seen.verdict().is_none());
            let failure = Failure::new(ErrorKind::Unavailable, format!("{part:?}")).hint("try again");
            assert_eq!(seen.took(part, Err::<u8, _>(failure)), 0);
        }
        let verdict = seen.verdict().unwrap();
        assert_eq!((verdict.kind, verdict.message.as_str()), (ErrorKind::Unavailable, "Locks"));
        assert_eq!(verdict.hint.as_deref(), Some("try again"));
    }
}
