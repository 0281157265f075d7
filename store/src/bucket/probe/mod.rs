//! `probe` finds out whether a store can be trusted with compare-and-swap.
//!
//! By trying, and by a real race: some servers ignore conditions, some check them and
//! then write in a second step, which only shows when several writers come at once. So
//! writers with distinct bodies race for one key, several times, and each time exactly
//! one may win and its body must be the stored one. No number of rounds proves a store
//! right; those that are wrong lose within the first few.
//!
//! Works below a random scratch prefix and removes its objects.

mod race;
mod rules;
mod scratch;
mod verdicts;

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::verdicts::KeptVerdicts;

use self::{race::Race, scratch::Scratch};
use super::{Bucket, BucketError, Checksum, IfMatch, Prefix, Result, ServerFacts};

/// How hard to try.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Writers per race, at least two.
    pub racers: usize,
    /// Races of each kind (creates, replaces) on a store that answers quickly.
    pub rounds: u32,
    /// Races of each kind that are run however slow the store is.
    pub least_rounds: u32,
    /// No further race starts after this long, once there were the least.
    pub budget: Duration,
    /// Where to write.
    pub scratch: Prefix,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            racers: 8,
            rounds: 12,
            least_rounds: 2,
            budget: Duration::from_secs(5),
            scratch: Prefix("probe/".into()),
        }
    }
}

/// The finding of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the store may be used.
    pub ok: bool,
    /// The server's faults, in words; empty when `ok`.
    pub reasons: Vec<String>,
    /// Whether a delete can be conditioned on a version.
    pub conditional_delete: bool,
    /// How the server wants `If-Match`.
    pub if_match: IfMatch,
    /// The checksum of bodies that it verifies. A server that was not asked is probed once more.
    #[serde(default)]
    pub checksum: Option<Checksum>,
    /// Races that were decided.
    pub rounds: u32,
    /// Where the server was reached.
    pub place: Option<String>,
    /// The server's own name.
    pub server: Option<String>,
}

impl Verdict {
    /// Whether it was made on this very server, as far as one can tell without a request.
    pub fn is_on(&self, server: &ServerFacts) -> bool {
        self.place == server.place && self.server == server.name
    }

    /// The verdict if it is good, else an error that says why the store is refused.
    pub fn require(self, store: &str) -> Result<Self> {
        if self.ok {
            return Ok(self);
        }
        Err(BucketError::Unsuitable { store: store.to_owned(), reason: self.reasons.join("; ") })
    }
}

/// Probes the store behind the handles, which all lead to the same one.
///
/// They should be opened with conditional deletes allowed, or the verdict cannot say that
/// the server honours them. An error means that no verdict was reached.
pub async fn probe(handles: &[Arc<dyn Bucket>], options: &ProbeOptions) -> Result<Verdict> {
    let Some(first) = handles.first() else {
        return Err(BucketError::Unsuitable {
            store: "the probe".into(),
            reason: "it was given no store".into(),
        });
    };
    let scratch = Scratch::new(Arc::clone(first), &options.scratch)?;
    let answer = examine(&scratch, handles, options).await;
    scratch.remove().await;
    answer
}

async fn examine(scratch: &Scratch, handles: &[Arc<dyn Bucket>], options: &ProbeOptions) -> Result<Verdict> {
    // All at once, on keys of their own: a store far away costs the round trips of the longest.
    let race = Race::new(scratch, handles, options);
    let (broken, conditional_delete, checksum, raced) = futures::join!(
        rules::broken(scratch),
        rules::honours_conditional_delete(scratch),
        rules::checksum(scratch),
        race.run(),
    );
    // What a single writer meets explains what several meet.
    let broken = broken?;
    let (conditional_delete, checksum, (rounds, reasons)) = match broken.is_empty() {
        true => (conditional_delete?, Some(checksum?), raced?),
        false => (false, None, (0, broken)),
    };
    let server = scratch.bucket().server();
    Ok(Verdict {
        ok: reasons.is_empty(),
        reasons,
        conditional_delete,
        if_match: server.if_match.unwrap_or(IfMatch::Quoted),
        checksum,
        rounds,
        place: server.place,
        server: server.name,
    })
}

#[cfg(test)]
mod tests;
