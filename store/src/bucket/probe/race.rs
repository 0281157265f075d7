//! Lets writers race for one key.
//!
//! Races for keys of their own run beside each other, a few at a time, and the result of one is
//! looked at while the next one runs: a store far away is then judged within few round trips. The
//! writers of one race still start together, over connections that are open already.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::{sync::Barrier, task::JoinSet};

use super::{
    ProbeOptions,
    scratch::{ATTEMPTS, MOST_BYTES, Outcome, Scratch, pause},
};
use crate::bucket::{Bucket, BucketError, Key, Result, Version, Write};

/// Lengths of the bodies, in turn: a server may check and write small and large ones in
/// different ways.
const BODY_BYTES: [usize; 2] = [64, 64 << 10];
/// Turns that run beside each other; each is a race of creates and one of replacements.
const TURNS_AT_ONCE: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Create,
    Replace,
}

#[derive(Clone, Debug)]
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

const REFUSED: &str = "it refuses to create a key that is absent";

/// The key of a race, and its content before the race.
struct Start {
    key: Key,
    before: Option<(Bytes, Version)>,
}

impl Start {
    fn at(key: Key) -> Self {
        Self { key, before: None }
    }
}

/// A race that was run, and not judged yet.
struct Raced {
    kind: Kind,
    len: usize,
    key: Key,
    before: Option<Bytes>,
    told: Vec<RacerAnswer>,
}

/// Counts the races that were won; returns the fault of one that was not.
fn count(rounds: Vec<Round>, decided: &mut u32) -> Option<String> {
    for round in rounds {
        match round {
            Round::Won => *decided += 1,
            Round::Broken(reason) => return Some(reason),
            Round::Undecided => {
                return Some("races of conditional writes end without a winner or an answer".into());
            }
        }
    }
    None
}

/// The answer that one racer got.
struct RacerAnswer {
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

    /// How many races were decided, and their faults.
    pub(super) async fn run(&self) -> Result<(u32, Vec<String>)> {
        let started = Instant::now();
        let turns: Vec<usize> = (0..self.options.rounds as usize).collect();
        let preparing = futures::future::try_join_all(turns.iter().map(|_| self.prepare()));
        let (prepared, ()) = futures::future::join(preparing, self.warm()).await;
        let mut prepared = prepared?.into_iter();
        let (mut decided, mut left) = (0, Vec::new());
        for wave in turns.chunks(TURNS_AT_ONCE) {
            let is_enough = wave[0] >= self.options.least_rounds as usize;
            if is_enough && started.elapsed() > self.options.budget {
                break;
            }
            let mut races = Vec::new();
            for (turn, start) in wave.iter().zip(prepared.by_ref()) {
                let Some(start) = start else { return Ok((decided, vec![REFUSED.into()])) };
                let len = BODY_BYTES[turn % BODY_BYTES.len()];
                races.push(self.race(Kind::Create, len, Start::at(self.scratch.key())));
                races.push(self.race(Kind::Replace, len, start));
            }
            let racing = futures::future::try_join_all(races);
            let (raced, rounds) = futures::future::try_join(racing, self.settle(left)).await?;
            if let Some(reason) = count(rounds, &mut decided) {
                return Ok((decided, vec![reason]));
            }
            left = raced;
        }
        let reason = count(self.settle(left).await?, &mut decided);
        Ok((decided, reason.into_iter().collect()))
    }

    /// Something for a race of replacements to replace; `None` if the store refuses to have it.
    async fn prepare(&self) -> Result<Option<Start>> {
        let (key, body) = (self.scratch.key(), self.scratch.body(0));
        Ok(match self.scratch.put(&key, &body, Write::Create).await? {
            Outcome::Applied(version) => Some(Start { key, before: Some((body, version)) }),
            Outcome::Refused => None,
        })
    }

    /// Opens the racers' connections, so that the first races are not decided by who connects first.
    async fn warm(&self) {
        let key = self.scratch.key();
        let reads =
            (0..self.racers * 2 * TURNS_AT_ONCE).map(|racer| self.handle(racer).get(&key, MOST_BYTES));
        futures::future::join_all(reads).await;
    }

    /// The outcomes of these races. A race runs again if its outcome is not known.
    async fn settle(&self, raced: Vec<Raced>) -> Result<Vec<Round>> {
        futures::future::try_join_all(raced.into_iter().map(|raced| self.settle_one(raced))).await
    }

    async fn settle_one(&self, mut raced: Raced) -> Result<Round> {
        for attempt in 1.. {
            let found = self.scratch.get(&raced.key).await?.map(|(bytes, _)| bytes);
            match self.judge(&raced, found) {
                Round::Undecided if attempt < ATTEMPTS => pause(attempt).await,
                round => return Ok(round),
            }
            let start = match raced.kind {
                Kind::Create => Start::at(self.scratch.key()),
                Kind::Replace => match self.prepare().await? {
                    Some(start) => start,
                    None => return Ok(Round::Broken(REFUSED.into())),
                },
            };
            raced = self.race(raced.kind, raced.len, start).await?;
        }
        Ok(Round::Undecided)
    }

    fn handle(&self, racer: usize) -> &Arc<dyn Bucket> {
        &self.handles[racer % self.handles.len()]
    }

    async fn race(&self, kind: Kind, len: usize, Start { key, before }: Start) -> Result<Raced> {
        let (before, write) = match before {
            Some((body, version)) => (Some(body), Write::Replace(version)),
            None => (None, Write::Create),
        };
        let start = Arc::new(Barrier::new(self.racers));
        let mut racers = JoinSet::new();
        for racer in 0..self.racers {
            let (bucket, start) = (Arc::clone(self.handle(racer)), Arc::clone(&start));
            let (key, write, body) = (key.clone(), write.clone(), self.scratch.body(len));
            racers.spawn(async move {
                start.wait().await;
                let answer = bucket.put(&key, body.clone().into(), write).await.map(drop);
                RacerAnswer { body, answer }
            });
        }
        Ok(Raced { kind, len, key, before, told: racers.join_all().await })
    }

    fn judge(&self, raced: &Raced, found: Option<Bytes>) -> Round {
        let Raced { kind, told, before, .. } = raced;
        let before = before.clone();
        let (verb, rule) = match kind {
            Kind::Create => ("creates", "If-None-Match does not exclude other writers"),
            Kind::Replace => ("replacements of one version", "If-Match does not exclude other writers"),
        };
        let winners: Vec<_> = told.iter().filter(|told| told.answer.is_ok()).collect();
        let is_open = |told: &&RacerAnswer| matches!(&told.answer, Err(error) if error.is_retryable());
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
