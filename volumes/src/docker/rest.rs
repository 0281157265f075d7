//! `Docker::rest` pauses or stops a container so that it writes nothing; `Resting::resume` resumes or starts it again,
//! as it was found.
//!
//! What was paused stays paused, and what was stopped stays stopped. If this process dies in between,
//! [`Docker::settle_left`] of the next command does it.

use std::time::{Duration, Instant};

use engine::failure::Failure;
use store::{ErrorKind, id::random};

use super::{
    connection::Docker,
    containers::{Container, Status},
    notes::{HeldNote, Note, Notes, Undo},
};

/// How often a container is asked how it is.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a daemon must go on saying that a container is paused until that is believed.
const STEADY: Duration = Duration::from_millis(500);
/// How often a container may be found in another state than a moment ago.
const MOST_CHANGES: u32 = 20;
/// How often a container may be wanted by another command in the same moment.
const MOST_COLLISIONS: u32 = 8;

/// How a container is kept from writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Its processes are frozen.
    Pause,
    /// Its processes are told to end, and killed after so many seconds.
    Stop {
        /// How long they may take.
        seconds: u32,
    },
}

/// The failure of a copy of a container that did not rest until it was made.
pub fn went_on(name: &str) -> Failure {
    let message = format!("somebody has let the container {name} go on while it was copied");
    Failure::new(ErrorKind::InUse, message).hint("run this again, and leave the container to it meanwhile")
}

/// A container that rests. Whoever has one resumes it, however the work ends.
#[derive(Debug)]
#[must_use = "the container rests until it is resumed"]
pub struct Resting {
    docker: Docker,
    /// Also of one that was found at rest: nobody else brings it there or back meanwhile.
    note: HeldNote,
    /// The container as it was found.
    pub found: Container,
}

/// What has come of an attempt to bring a container to rest.
enum Attempt {
    Rests(Box<Resting>),
    /// Another command works on the container.
    Held,
    /// Another command has come in the same moment, and each has seen the other.
    Collided,
    /// It is in another state than it was a moment ago.
    Changed,
}

impl Docker {
    /// Keeps a container from writing until it is resumed. One that does not run is left alone. If another command has it
    /// at rest, this one waits for that so long: it could not tell what the container was found doing.
    #[crate::boxed]
    pub async fn rest(
        &self,
        container: &Container,
        how: Rest,
        notes: &Notes,
        wait: Duration,
    ) -> Result<Resting, Failure> {
        container.require_other()?;
        if how != Rest::Pause {
            container.require_stoppable()?;
        }
        let deadline = Instant::now() + wait;
        let (mut container, mut changes, mut collisions) = (container.clone(), 0, 0);
        loop {
            match self.try_rest(container.clone(), how, notes).await? {
                Attempt::Rests(resting) => return Ok(*resting),
                Attempt::Collided if collisions < MOST_COLLISIONS || Instant::now() < deadline => {
                    collisions += 1;
                    // One of them comes back first.
                    tokio::time::sleep(Duration::from_millis(u64::from(random::<1>()[0]))).await;
                }
                Attempt::Held if Instant::now() < deadline => {}
                Attempt::Held | Attempt::Collided => {
                    let message =
                        format!("another command of pstore has the container {} at rest", container.name);
                    return Err(Failure::new(ErrorKind::LockHeld, message)
                        .hint("run this again when that has ended; --wait waits for it"));
                }
                Attempt::Changed if changes < MOST_CHANGES => changes += 1,
                Attempt::Changed => {
                    let message = format!("the container {} changes its state all the time", container.name);
                    return Err(Failure::new(ErrorKind::InUse, message)
                        .hint("wait until it is running, paused, exited or created, and stays so"));
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
            container = self.container(&container.id).await?;
        }
    }

    async fn try_rest(&self, container: Container, how: Rest, notes: &Notes) -> Result<Attempt, Failure> {
        let (id, name, found) = (container.id.clone(), container.name.clone(), container.status);
        let stop_seconds = match how {
            Rest::Pause => None,
            Rest::Stop { seconds } => Some(seconds),
        };
        if notes.is_at_rest(&id, None) {
            return Ok(Attempt::Held);
        }
        let undo = Undo::Resume { container: id.clone(), name, found, stop_seconds };
        let note = notes.write(Note { host: self.host.clone(), undo })?;
        // A later command sees this note; an earlier one is seen.
        if notes.is_at_rest(&id, Some(&note)) {
            note.remove();
            return Ok(Attempt::Collided);
        }
        // What a command that has died since left at rest was not found so.
        let left = notes.left_at_rest(&id);
        if !left.is_empty() {
            note.remove();
            self.settle_all(left).await?;
            return Ok(Attempt::Changed);
        }
        match self.stays(&id, found).await {
            Ok(true) => {}
            // Nothing was asked of the daemon.
            otherwise => {
                note.remove();
                return otherwise.map(|_| Attempt::Changed);
            }
        }
        let resting = Resting { docker: self.clone(), note, found: container };
        let is_done = match (found, how) {
            (Status::Running, _) | (Status::Paused, Rest::Stop { .. }) => false,
            (Status::Paused, Rest::Pause) | (Status::Created | Status::Exited, _) => true,
        };
        if is_done {
            return Ok(Attempt::Rests(Box::new(resting)));
        }
        resting.note.touch();
        match self.begin_rest(&resting.found, how).await {
            Ok(()) => Ok(Attempt::Rests(Box::new(resting))),
            // Somebody else has paused it, or so the daemon says: this command has not.
            Err(failure) if failure.kind == ErrorKind::InUse && how == Rest::Pause => {
                resting.note.remove();
                Ok(Attempt::Changed)
            }
            Err(failure) => {
                // It may have begun all the same.
                resting.resume().await?;
                Err(failure)
            }
        }
    }

    /// Whether a container is in this state, and not only said to be. A daemon notes a pause twice: when it is asked for it,
    /// and when word of it comes from below. So for a moment it may take a container for paused that was resumed meanwhile.
    async fn stays(&self, id: &str, found: Status) -> Result<bool, Failure> {
        let began = Instant::now();
        loop {
            if self.container(id).await?.status != found {
                return Ok(false);
            }
            if found != Status::Paused || began.elapsed() >= STEADY {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(super) async fn begin_rest(&self, container: &Container, how: Rest) -> Result<(), Failure> {
        let (id, name) = (&container.id, &container.name);
        match how {
            Rest::Pause => self.pause(id, name).await,
            Rest::Stop { seconds } => {
                if container.status == Status::Paused {
                    // A frozen process cannot be told to end.
                    self.unpause(id, name).await?;
                }
                self.stop(id, name, seconds).await
            }
        }
    }
}

impl Resting {
    /// Brings the container back to the state in which it was found. The note stays if that fails. Says whether it has
    /// rested until now: somebody else may have let it go on, and then a copy of its files is torn.
    #[crate::boxed]
    pub async fn resume(self) -> Result<bool, Failure> {
        let found_at_rest = match self.found.status {
            Status::Running => None,
            // One that is stopped is resumed as one that runs.
            Status::Paused if self.is_stopped() => None,
            Status::Paused | Status::Created | Status::Exited => Some(self.stays_at_rest().await?),
        };
        let undone = self.docker.undo(&self.note.note.undo).await?;
        self.note.remove();
        Ok(found_at_rest.unwrap_or(undone.is_some()))
    }

    fn is_stopped(&self) -> bool {
        matches!(self.note.note.undo, Undo::Resume { stop_seconds: Some(_), .. })
    }

    /// Whether one that was found at rest is so yet. One that was removed has written nothing.
    async fn stays_at_rest(&self) -> Result<bool, Failure> {
        let now = self.docker.status(&self.found.id).await?;
        Ok(now.is_none_or(|now| now == self.found.status))
    }
}
