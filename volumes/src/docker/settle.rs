//! `settle` undoes what killed commands of this host and user left at daemons. It resumes or starts containers that
//! they left paused or stopped, puts back containers that a restore had set aside, and removes helpers, volumes and
//! image names.

use std::time::{Duration, Instant};

use bollard::models::RestartPolicy;
use engine::failure::Failure;
use store::ErrorKind;

use super::{
    changes::Removed,
    connection::Docker,
    containers::{Container, Status},
    helper::REPOSITORY,
    notes::{HeldNote, Notes, Undo},
};

/// How long a daemon may take to answer. One that is gone for good must not keep every command waiting.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a container is asked how it is.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long after it was asked for a pause may come.
const ARRIVES: Duration = Duration::from_secs(2);
/// How long after its time to end is up a container may go on, on a busy host.
const ENDS: Duration = Duration::from_secs(30);
/// How long a daemon may refuse to let a container go on.
const GOES_ON: Duration = Duration::from_secs(30);

/// Undoes what dead commands have left at any daemon, for those who do not know which. Tells what it did, and what it could not
/// do.
#[crate::boxed]
pub async fn settle_everywhere(notes: &Notes) -> (Vec<String>, Vec<Failure>) {
    let (mut told, mut failed) = (Vec::new(), Vec::new());
    for host in notes.hosts_left() {
        let connected = tokio::time::timeout(PATIENCE, Docker::connect(Some(&host))).await;
        let connected = connected.unwrap_or_else(|_| {
            let message = format!("Docker at {host} gives no answer, and a command has left something there");
            Err(Failure::new(ErrorKind::Unavailable, message).hint("start it; the next command tries again"))
        });
        match connected {
            Ok(docker) => {
                let (done, problems) = docker.settle_left(notes).await;
                told.extend(done);
                failed.extend(problems);
            }
            Err(failure) => failed.push(failure),
        }
    }
    (told, failed)
}

impl Docker {
    /// Undoes what dead commands have left at this daemon. Tells what it did, and what it could not do: the notes of that
    /// stay for the next command, and keep nothing else from being undone.
    #[crate::boxed]
    pub async fn settle_left(&self, notes: &Notes) -> (Vec<String>, Vec<Failure>) {
        let (mut told, mut failed) = (Vec::new(), Vec::new());
        for held in notes.left(&self.host) {
            match self.settle_one(&held).await {
                Err(failure) => failed.push(failure),
                // It may come yet: the next command looks again.
                Ok(None) if held.is_young() && !matches!(held.note.undo, Undo::Resume { .. }) => {}
                Ok(done) => {
                    told.extend(done);
                    held.remove();
                }
            }
        }
        (told, failed)
    }

    /// Undoes what a command has left that has failed to store a container. Fails if the container does not go on.
    #[crate::boxed]
    pub async fn settle_failed(&self, container: &Container, notes: &Notes) -> Result<(), Failure> {
        for held in notes.left_at_rest(&container.id) {
            // One that a restore has set aside was found so.
            if !matches!(held.note.undo, Undo::Resume { .. }) {
                continue;
            }
            match self.settle_one(&held).await {
                Ok(_) => held.remove(),
                Err(failure) => return Err(rests_yet(&container.name, &failure)),
            }
        }
        // What cannot be undone keeps its note, and the next command tells of it.
        let _ = self.settle_left(notes).await;
        Ok(())
    }

    /// Undoes what these notes say, whatever address they have of this daemon.
    pub(super) async fn settle_all(&self, left: Vec<HeldNote>) -> Result<(), Failure> {
        for held in left {
            self.settle_one(&held).await?;
            held.remove();
        }
        Ok(())
    }

    async fn settle_one(&self, held: &HeldNote) -> Result<Option<String>, Failure> {
        self.await_asked(held).await?;
        self.undo(&held.note.undo).await
    }

    /// A command may have died after it had asked for a rest and before the daemon had brought it about: that comes yet.
    async fn await_asked(&self, held: &HeldNote) -> Result<(), Failure> {
        let (id, place, found, stop_seconds) = match &held.note.undo {
            Undo::Resume { container, found, stop_seconds, .. } => (container, None, *found, *stop_seconds),
            // One that was not told to end is where it was.
            Undo::PutBack { container, name, found, stop_seconds: Some(seconds), .. } => {
                (container, Some(name), *found, Some(*seconds))
            }
            _ => return Ok(()),
        };
        let limit = stop_seconds.map_or(ARRIVES, |seconds| ENDS + Duration::from_secs(seconds.into()));
        let comes = |now: &Container| match (found, stop_seconds) {
            // It is set aside after it has ended.
            _ if place.is_some_and(|place| now.name != *place) => false,
            (Status::Running, None) => now.status == Status::Running,
            // A paused one is resumed before it is told to end.
            (Status::Running | Status::Paused, Some(_)) => {
                matches!(now.status, Status::Running | Status::Paused)
            }
            _ => false,
        };
        while held.is_younger_than(limit) {
            match self.container(id).await {
                Ok(now) if comes(&now) => tokio::time::sleep(LOOK_EVERY).await,
                Ok(_) => break,
                Err(failure) if failure.kind == ErrorKind::NotFound => break,
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Tells what was done; `None` if there was nothing to undo.
    pub(super) async fn undo(&self, undo: &Undo) -> Result<Option<String>, Failure> {
        let (is_done, told) = match undo {
            Undo::Resume { container, name, found, stop_seconds } => (
                self.bring_back((container, name), *found, stop_seconds.is_some()).await?,
                format!("{name} is {} again, as an interrupted command had found it", found.word()),
            ),
            Undo::PutBack { container, name, found, mark, restarts, .. } => {
                self.put_back((container, name), *found, mark.as_deref(), restarts.clone()).await?;
                (true, format!("{name} is back, as an interrupted restore had found it"))
            }
            Undo::Container { name, mark } => (
                self.remove_made_container(name, mark.as_deref()).await? == Removed::Gone,
                format!("removed {name}, which an interrupted command had made"),
            ),
            Undo::Image { tag } => (
                match tag.split_once(':').is_some_and(|(repository, _)| repository == REPOSITORY) {
                    true => self.remove_temporary_image(tag).await?,
                    false => self.remove_image(tag).await?,
                },
                format!("removed the image {tag}, which an interrupted command had made"),
            ),
            Undo::Volume { name, mark } => (
                self.remove_made_volume(name, mark.as_deref()).await?,
                format!("removed the volume {name}, which an interrupted command had made"),
            ),
        };
        Ok(is_done.then_some(told))
    }

    /// Gives a container its name and state back. What has its name now goes if pstore has made it to replace the container.
    async fn put_back(
        &self,
        (id, name): (&str, &str),
        found: Status,
        mark: Option<&str>,
        restarts: Option<RestartPolicy>,
    ) -> Result<(), Failure> {
        let old = match self.container(id).await {
            Ok(old) => old,
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(()),
            Err(failure) => return Err(failure),
        };
        if old.name != name {
            if self.remove_made_container(name, mark).await? == Removed::NotOurs {
                let message = format!(
                    "{} was to be {name} again, as an interrupted restore had found it, and somebody has made another {name}",
                    old.name
                );
                return Err(Failure::new(ErrorKind::InUse, message).hint(format!(
                    "`docker rename {name} NEW` makes room for the next command; `docker rm {}` gives the old one up",
                    old.name
                )));
            }
            self.rename(id, &old.name, name).await?;
        }
        self.bring_back((id, name), found, true).await?;
        if let Some(policy) = restarts
            && let Err(failure) = self.restarts(id, name, policy).await
        {
            // It is back, and that alone keeps nobody from anything.
            tracing::warn!(error = failure.message, "{name} does not start by itself any more");
        }
        Ok(())
    }

    /// Brings a container back to the state in which it was found, after it was told to stop or to pause. Says whether
    /// anything had to be done.
    async fn bring_back(
        &self,
        (id, name): (&str, &str),
        found: Status,
        is_stopped: bool,
    ) -> Result<bool, Failure> {
        match (found, is_stopped) {
            (Status::Created | Status::Exited, _) | (Status::Paused, false) => return Ok(false),
            (Status::Running, false) => return self.go_on(id, name).await,
            (Status::Running | Status::Paused, true) => {}
        }
        let Some(now) = self.status(id).await? else { return Ok(false) };
        let has_ended = matches!(now, Status::Created | Status::Exited);
        if has_ended {
            self.start(id, name).await?;
        }
        let is_resumed = found == Status::Paused && now != Status::Paused;
        if is_resumed {
            self.pause(id, name).await?;
        }
        Ok(has_ended || is_resumed)
    }

    /// Lets a paused container go on. What the daemon says of its state may be older than the pause, and is not believed: one that
    /// can be paused runs. Says whether it was paused.
    async fn go_on(&self, id: &str, name: &str) -> Result<bool, Failure> {
        let (began, mut was_paused) = (Instant::now(), true);
        loop {
            let Err(failure) = self.unpause(id, name).await else { return Ok(was_paused) };
            if matches!(self.status(id).await?, None | Some(Status::Created | Status::Exited)) {
                return Ok(false);
            }
            if began.elapsed() >= GOES_ON {
                return Err(failure);
            }
            match self.pause(id, name).await {
                Ok(()) => was_paused = false,
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// The state of a container; `None` if somebody has removed it.
    pub(super) async fn status(&self, id: &str) -> Result<Option<Status>, Failure> {
        match self.container(id).await {
            Ok(container) => Ok(Some(container.status)),
            Err(failure) if failure.kind == ErrorKind::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// The failure to let a container go on.
fn rests_yet(name: &str, failure: &Failure) -> Failure {
    let message =
        format!("the container {name} was told to rest, and cannot be told to go on: {}", failure.message);
    Failure::new(ErrorKind::CommandFailed, message).hint(format!(
        "`docker unpause {name}` resumes it; the next snapshot of any container tries that, too"
    ))
}
