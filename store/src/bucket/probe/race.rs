//! Writers racing for one key.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::{sync::Barrier, task::JoinSet};

use super::{
    ProbeOptions,
    scratch::{ATTEMPTS, MOST_BYTES, Outcome, Scratch, pause},
};
use crate::bucket::{Bucket, BucketError, Key, Result, Write};

/// Lengths of the bodies, in turn: a server may check and write small and large ones in
/// different ways.
const BODY_BYTES: [usize; 2] = [64, 64 << 10];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Create,
    Replace,
}

#[derive(Debug)]
enum Round {
    Won,
    Broken(String),
    /// Answers were lost and nobody's body is there: nothing is known.
    Undecided,
}

pub(super) struct Race<'a> {
    scratch: &'a Scratch,
    handles: &'a [Arc<dyn Bucket>],
    options: &'a ProbeOptions,
    racers: usize,
}

/// What one racer was told.
struct Told {
    body: Bytes,
    answer: Result<()>,
}

impl<'a> Race<'a> {
    pub(super) fn new(
        scratch: &'a Scratch,
        handles: &'a [Arc<dyn Bucket>],
        options: &'a ProbeOptions,
    ) -> Self {
        Self { scratch, handles, options, racers: options.racers.max(2) }
    }

    /// How many races were decided, and what went wrong in them.
    pub(super) async fn run(&self) -> Result<(u32, Vec<String>)> {
        let started = Instant::now();
        self.warm().await;
        let mut decided = 0;
        for turn in 0..self.options.rounds {
            if turn >= self.options.least_rounds && started.elapsed() > self.options.budget {
                break;
            }
            let len = BODY_BYTES[turn as usize % BODY_BYTES.len()];
            // Both at once, on keys of their own: some servers let losers wait for seconds.
            let (create, replace) = futures::future::try_join(
                self.decided_round(Kind::Create, len),
                self.decided_round(Kind::Replace, len),
            )
            .await?;
            for round in [create, replace] {
                match round {
                    Round::Won => decided += 1,
                    Round::Broken(reason) => return Ok((decided, vec![reason])),
                    Round::Undecided => {
                        let reason = "races of conditional writes end without a winner or an answer";
                        return Ok((decided, vec![reason.into()]));
                    }
                }
            }
        }
        Ok((decided, Vec::new()))
    }

    /// Opens the racers' connections, so that the first race is not decided by who connects first.
    async fn warm(&self) {
        let key = self.scratch.key();
        let reads = (0..self.racers).map(|racer| self.handle(racer).get(&key, MOST_BYTES));
        futures::future::join_all(reads).await;
    }

    fn handle(&self, racer: usize) -> &Arc<dyn Bucket> {
        &self.handles[racer % self.handles.len()]
    }

    async fn decided_round(&self, kind: Kind, len: usize) -> Result<Round> {
        for attempt in 1..=ATTEMPTS {
            match self.round(kind, len).await? {
                Round::Undecided => pause(attempt).await,
                round => return Ok(round),
            }
        }
        Ok(Round::Undecided)
    }

    async fn round(&self, kind: Kind, len: usize) -> Result<Round> {
        let key = self.scratch.key();
        let (write, before) = match kind {
            Kind::Create => (Write::Create, None),
            Kind::Replace => {
                let before = self.scratch.body(0);
                match self.scratch.put(&key, &before, Write::Create).await? {
                    Outcome::Applied(version) => (Write::Replace(version), Some(before)),
                    Outcome::Refused => {
                        return Ok(Round::Broken("it refuses to create a key that is absent".into()));
                    }
                }
            }
        };
        let told = self.race(&key, &write, len).await?;
        let found = self.scratch.get(&key).await?.map(|(bytes, _)| bytes);
        Ok(self.judge(kind, &told, found, before))
    }

    async fn race(&self, key: &Key, write: &Write, len: usize) -> Result<Vec<Told>> {
        let start = Arc::new(Barrier::new(self.racers));
        let mut racers = JoinSet::new();
        for racer in 0..self.racers {
            let (bucket, start) = (Arc::clone(self.handle(racer)), Arc::clone(&start));
            let (key, write, body) = (key.clone(), write.clone(), self.scratch.body(len));
            racers.spawn(async move {
                start.wait().await;
                let answer = bucket.put(&key, body.clone().into(), write).await.map(drop);
                Told { body, answer }
            });
        }
        Ok(racers.join_all().await)
    }

    fn judge(&self, kind: Kind, told: &[Told], found: Option<Bytes>, before: Option<Bytes>) -> Round {
        let (verb, rule) = match kind {
            Kind::Create => ("creates", "If-None-Match does not exclude other writers"),
            Kind::Replace => ("replacements of one version", "If-Match does not exclude other writers"),
        };
        let winners: Vec<_> = told.iter().filter(|told| told.answer.is_ok()).collect();
        let is_open = |told: &&Told| matches!(&told.answer, Err(error) if error.is_retryable());
        let refused = |error: &BucketError| {
            matches!(error, BucketError::AlreadyExists { .. } | BucketError::VersionMismatch { .. })
        };
        for told in told {
            if let Err(error) = &told.answer
                && !error.is_retryable()
                && !refused(error)
            {
                return Round::Broken(format!("it answers a race of {verb} with: {error}"));
            }
        }
        match winners[..] {
            [] => match found {
                // The answer was lost, or a proxy sent the write twice and passed on the second
                // answer; the body tells who won.
                Some(found) if told.iter().any(|told| told.body == found) => Round::Won,
                found if found == before && told.iter().any(|told| is_open(&told)) => Round::Undecided,
                found if found == before => {
                    Round::Broken(format!("of {} concurrent {verb} none succeeded", told.len()))
                }
                _ => {
                    Round::Broken(format!("after {} concurrent {verb} nobody's bytes are stored", told.len()))
                }
            },
            [winner] if found.as_ref() == Some(&winner.body) => Round::Won,
            [_] => Round::Broken(format!(
                "of {} concurrent {verb} one succeeded, but another's bytes are stored: {rule}",
                told.len()
            )),
            _ => Round::Broken(format!(
                "{} of {} concurrent {verb} succeeded: {rule}",
                winners.len(),
                told.len()
            )),
        }
    }
}
