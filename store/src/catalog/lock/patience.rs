//! `Patience` waits for a lock that somebody else holds.
//!
//! On one machine the waiting processes stand in line, and only the first of them asks the store. It
//! asks every half second, and at once when it sees that a holder on this machine has gone.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Hold, LineageHandle, LockAndPointer, Outcome, Terms, presence, queue::Ticket};
use crate::{Error, Result, error::Holder, id::Nonce, observer::LockEvent};

/// How often the store is asked.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How often this machine's files are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long somebody waits for a lock, and how he learns whom he waits for.
#[derive(Clone, Default)]
pub struct Patience {
    wait: Duration,
    teller: Option<Arc<Teller>>,
    /// Whether nobody wants the lock any more.
    given_up: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

type Teller = dyn Fn(&Waiting<'_>) + Send + Sync;

/// The state of a wait, as the waiting process knows it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The present holder of the lock.
    pub holder: &'a Holder,
    /// How many others on this machine come first.
    pub ahead: usize,
    /// How long he will wait yet.
    pub left: Duration,
}

impl Patience {
    /// Calls `teller` when the wait begins, and whenever somebody else holds the lock.
    #[must_use]
    pub fn telling(wait: Duration, teller: impl Fn(&Waiting<'_>) + Send + Sync + 'static) -> Self {
        Self { wait, teller: Some(Arc::new(teller)), given_up: None }
    }

    /// Asks often while it waits, and ends the wait with [`Error::Interrupted`] if so.
    #[must_use]
    pub fn until(self, given_up: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { given_up: Some(Arc::new(given_up)), ..self }
    }

    fn is_given_up(&self) -> bool {
        self.given_up.as_ref().is_some_and(|given_up| given_up())
    }

    /// Whether there is no waiting at all.
    pub fn is_zero(&self) -> bool {
        self.wait.is_zero()
    }
}

impl From<Duration> for Patience {
    fn from(wait: Duration) -> Self {
        Self { wait, ..Self::default() }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl LineageHandle {
    /// Takes the lock and claims the pointer; waits for a holder to give it back.
    pub async fn acquire(&self, terms: Terms, patience: impl Into<Patience>) -> Result<Hold> {
        let survey = self.survey().await?;
        self.acquire_after(survey, terms, patience).await
    }

    /// As [`Self::acquire`], by somebody who has just looked.
    pub async fn acquire_after(
        &self,
        survey: LockAndPointer,
        terms: Terms,
        patience: impl Into<Patience>,
    ) -> Result<Hold> {
        let (began, mut has_waited) = (Instant::now(), false);
        let taken = self.wait_for(survey, terms, patience.into(), &mut has_waited).await;
        if has_waited {
            self.tell(LockEvent::Waited(began.elapsed()));
        }
        match &taken {
            Ok(hold) => self.tell_taken(hold.outcome()),
            Err(Error::LockHeld { .. }) => self.tell(LockEvent::Conflict),
            Err(_) => {}
        }
        taken
    }

    fn tell_taken(&self, outcome: Outcome) {
        match outcome {
            Outcome::Acquired => self.tell(LockEvent::Acquired),
            Outcome::ForcedExpired => self.tell(LockEvent::ForcedExpired),
            Outcome::Held => {}
        }
    }

    /// Takes the lock as soon as it is free, within the patience. `has_waited` tells whether somebody else had it.
    async fn wait_for(
        &self,
        survey: LockAndPointer,
        terms: Terms,
        patience: Patience,
        has_waited: &mut bool,
    ) -> Result<Hold> {
        let until = Instant::now() + patience.wait;
        let mut survey = Some(survey);
        let mut told: Option<(String, u64)> = None;
        // One that waits already comes first.
        let mut ticket = self.ticket(&patience);
        if ticket.as_mut().is_some_and(Ticket::is_first) {
            ticket = None;
        }
        loop {
            // While nothing is under way that may have taken it.
            if patience.is_given_up() {
                return Err(Error::Interrupted);
            }
            let is_first = ticket.as_mut().is_none_or(Ticket::is_first);
            let left = until.saturating_duration_since(Instant::now());
            if !is_first && !left.is_zero() {
                if told.is_none() {
                    let ahead = ticket.as_ref().map_or(0, Ticket::ahead);
                    told = self.tell_of_holder(&patience, ahead, left).await;
                }
                survey = None;
                *has_waited = true;
                tokio::time::sleep(LOOK_AGAIN.min(left)).await;
                continue;
            }
            let error = match self.acquire_now(survey.take(), terms).await {
                Err(error @ Error::LockHeld { .. }) => error,
                answer => return answer,
            };
            let Error::LockHeld { holder, .. } = &error else { return Err(error) };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(error);
            }
            let who = (holder.run_id.clone(), holder.acquired_at_ms);
            if told.as_ref() != Some(&who) {
                patience.tell(holder, ticket.as_ref().map_or(0, Ticket::ahead), left);
                told = Some(who);
            }
            if ticket.is_none() {
                ticket = self.ticket(&patience);
            }
            let pause = ASK_AGAIN.min(left).min(holder.remaining.max(Duration::from_millis(50)));
            *has_waited = true;
            self.pause(holder.nonce, pause, &patience).await;
        }
    }

    fn ticket(&self, patience: &Patience) -> Option<Ticket> {
        let cache = self.store.cache.as_ref().filter(|_| !patience.is_zero())?;
        Ticket::draw(cache, &self.lineage)
    }

    /// Tells the present holder to a waiting process that does not ask the store itself.
    async fn tell_of_holder(
        &self,
        patience: &Patience,
        ahead: usize,
        left: Duration,
    ) -> Option<(String, u64)> {
        let read = self.lock().await.ok().flatten().filter(|read| !read.lock.is_free())?;
        let holder = Holder::from(&read);
        patience.tell(&holder, ahead, left);
        Some((holder.run_id, holder.acquired_at_ms))
    }

    /// Pauses, until a holder that lived on this machine has gone at the latest.
    async fn pause(&self, holder: Option<Nonce>, pause: Duration, patience: &Patience) {
        let until = Instant::now() + pause;
        let cache = self.store.cache.as_ref();
        let lives = || cache.zip(holder).is_some_and(|(cache, nonce)| presence::lives(cache, nonce));
        let lived = lives();
        while Instant::now() < until {
            tokio::time::sleep(LOOK_AGAIN.min(until - Instant::now())).await;
            if lived && !lives() || patience.is_given_up() {
                return;
            }
        }
    }
}

impl Patience {
    fn tell(&self, holder: &Holder, ahead: usize, left: Duration) {
        if let Some(teller) = &self.teller {
            teller(&Waiting { holder, ahead, left });
        }
    }
}
