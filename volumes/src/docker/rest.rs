//! `Docker::rest` pauses or stops a container, and `Resting::resume` brings it back to the state in which it was found.
//!
//! What was paused stays paused, and what was stopped stays stopped. If this process dies in between,
//! [`Docker::settle_left`] of the next command does it.

use bollard::query_parameters::{
    RemoveContainerOptionsBuilder, RemoveImageOptions, RemoveVolumeOptions, RenameContainerOptionsBuilder,
    StopContainerOptionsBuilder,
};
use engine::failure::Failure;
use store::ErrorKind;

use super::{
    connection::Docker,
    containers::{Container, Status},
    notes::{HeldNote, Note, Notes, Undo},
    problem::failure,
};

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

/// A container that rests. Whoever has one resumes it, however the work ends.
#[derive(Debug)]
#[must_use = "the container rests until it is resumed"]
pub struct Resting {
    docker: Docker,
    /// `None` if it was found resting already.
    note: Option<HeldNote>,
}

impl Docker {
    /// Keeps a container from writing until it is resumed. One that does not run is left alone.
    pub async fn rest(&self, container: &Container, how: Rest, notes: &Notes) -> Result<Resting, Failure> {
        let docker = self.clone();
        let is_done = match (container.status, how) {
            (Status::Running, _) | (Status::Paused, Rest::Stop { .. }) => false,
            (Status::Paused, Rest::Pause) | (Status::Created | Status::Exited, _) => true,
        };
        if is_done {
            return Ok(Resting { docker, note: None });
        }
        let (id, name) = (container.id.clone(), container.name.clone());
        let undo = Undo::Resume { container: id, name, found: container.status };
        let note = notes.write(Note { host: self.host.clone(), undo })?;
        let resting = Resting { docker, note: Some(note) };
        match self.begin_rest(container, how).await {
            Ok(()) => Ok(resting),
            Err(failure) => {
                // It may have begun all the same.
                resting.resume().await?;
                Err(failure)
            }
        }
    }

    async fn begin_rest(&self, container: &Container, how: Rest) -> Result<(), Failure> {
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

    /// Undoes what dead processes of this host and user have left at this daemon: containers that rest, helpers, names of
    /// images. Tells what it did.
    pub async fn settle_left(&self, notes: &Notes) -> Result<Vec<String>, Failure> {
        let mut told = Vec::new();
        for held in notes.left(&self.host) {
            match self.undo(&held.note.undo).await? {
                // It may come yet: the next command looks again.
                None if held.is_young() => {}
                None => held.remove(),
                Some(done) => {
                    told.push(done);
                    held.remove();
                }
            }
        }
        Ok(told)
    }

    /// Tells what was done; `None` if there was nothing to undo.
    pub(super) async fn undo(&self, undo: &Undo) -> Result<Option<String>, Failure> {
        let (is_done, told) = match undo {
            Undo::Resume { container, name, found } => {
                self.bring_back((container, name), *found).await?;
                (true, format!("{name} is {} again, as an interrupted command had found it", found.word()))
            }
            Undo::PutBack { container, name, found } => {
                self.put_back((container, name), *found).await?;
                (true, format!("{name} is back, as an interrupted restore had found it"))
            }
            Undo::Container { name } => (
                self.remove_container(name).await?,
                format!("removed {name}, which an interrupted command had made"),
            ),
            Undo::Image { tag } => (
                self.remove_image(tag).await?,
                format!("removed the image {tag}, which an interrupted command had made"),
            ),
            Undo::Volume { name } => (
                self.remove_volume(name).await?,
                format!("removed the volume {name}, which an interrupted command had made"),
            ),
        };
        Ok(is_done.then_some(told))
    }

    /// Gives a container its name and state back, whatever has its name now.
    pub(super) async fn put_back(&self, (id, name): (&str, &str), found: Status) -> Result<(), Failure> {
        let old = match self.container(id).await {
            Ok(old) => old,
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(()),
            Err(failure) => return Err(failure),
        };
        if old.name != name {
            self.remove_container(name).await?;
            self.rename(id, &old.name, name).await?;
        }
        self.bring_back((id, name), found).await
    }

    async fn bring_back(&self, (id, name): (&str, &str), found: Status) -> Result<(), Failure> {
        let now = match self.container(id).await {
            Ok(container) => container.status,
            // Somebody has removed it meanwhile.
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(()),
            Err(failure) => return Err(failure),
        };
        match (found, now) {
            (Status::Running, Status::Paused) => self.unpause(id, name).await,
            (Status::Running, Status::Created | Status::Exited) => self.start(id, name).await,
            (Status::Paused, Status::Running) => self.pause(id, name).await,
            (Status::Paused, Status::Created | Status::Exited) => {
                self.start(id, name).await?;
                self.pause(id, name).await
            }
            _ => Ok(()),
        }
    }

    async fn pause(&self, id: &str, name: &str) -> Result<(), Failure> {
        let paused = self.api.pause_container(id).await;
        paused.map_err(|error| failure(&format!("cannot pause {name}"), &error))
    }

    async fn unpause(&self, id: &str, name: &str) -> Result<(), Failure> {
        let unpaused = self.api.unpause_container(id).await;
        unpaused.map_err(|error| {
            failure(&format!("cannot resume {name}"), &error).hint(format!(
                "`docker unpause {name}` resumes it; so does the next `pstore container` command"
            ))
        })
    }

    /// Starts a container that does not run.
    pub async fn start(&self, id: &str, name: &str) -> Result<(), Failure> {
        let started = self.api.start_container(id, None).await;
        started.map_err(|error| failure(&format!("cannot start {name}"), &error))
    }

    /// Tells a container's processes to end, and kills them after so many seconds.
    pub async fn stop(&self, id: &str, name: &str, seconds: u32) -> Result<(), Failure> {
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let stopped = self.api.stop_container(id, Some(options)).await;
        stopped.map_err(|error| failure(&format!("cannot stop {name}"), &error))
    }

    /// Gives a container another name.
    pub async fn rename(&self, id: &str, name: &str, to: &str) -> Result<(), Failure> {
        let options = RenameContainerOptionsBuilder::default().name(to).build();
        let renamed = self.api.rename_container(id, options).await;
        renamed.map_err(|error| failure(&format!("cannot rename {name} to {to}"), &error))
    }

    /// Removes a container, even if it runs, with the volumes that were made for it alone. Says whether it was there.
    pub async fn remove_container(&self, name: &str) -> Result<bool, Failure> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = self.api.remove_container(name, Some(options)).await;
        was_there(removed.map_err(|error| failure(&format!("cannot remove the container {name}"), &error)))
    }

    /// Removes a name of an image, and the image if it has no other. Says whether it was there. One that a container uses
    /// stays.
    pub async fn remove_image(&self, tag: &str) -> Result<bool, Failure> {
        let removed = self.api.remove_image(tag, None::<RemoveImageOptions>, None).await;
        unless_used(was_there(
            removed.map_err(|error| failure(&format!("cannot remove the image {tag}"), &error)),
        ))
    }

    /// Removes a volume. Says whether it was there. One that a container uses stays.
    pub async fn remove_volume(&self, name: &str) -> Result<bool, Failure> {
        let removed = self.api.remove_volume(name, None::<RemoveVolumeOptions>).await;
        unless_used(was_there(
            removed.map_err(|error| failure(&format!("cannot remove the volume {name}"), &error)),
        ))
    }
}

fn was_there<T>(removed: Result<T, Failure>) -> Result<bool, Failure> {
    match removed {
        Ok(_) => Ok(true),
        Err(failure) if failure.kind == ErrorKind::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn unless_used(removed: Result<bool, Failure>) -> Result<bool, Failure> {
    match removed {
        Err(failure) if failure.kind == ErrorKind::InUse => Ok(true),
        removed => removed,
    }
}

impl Resting {
    /// Brings the container back to the state in which it was found. The note stays if that fails.
    pub async fn resume(self) -> Result<(), Failure> {
        let Some(held) = self.note else { return Ok(()) };
        self.docker.undo(&held.note.undo).await?;
        held.remove();
        Ok(())
    }
}

/// A container that was set aside for another one of its name.
#[derive(Debug)]
#[must_use = "the container stays aside until it is put back or let go"]
pub struct SetAside {
    docker: Docker,
    note: HeldNote,
}

impl Docker {
    /// Stops a container and calls it `aside`, so that another one can have its name.
    pub async fn set_aside(
        &self,
        container: &Container,
        (aside, seconds): (&str, u32),
        notes: &Notes,
    ) -> Result<SetAside, Failure> {
        let (id, name) = (container.id.clone(), container.name.clone());
        let undo = Undo::PutBack { container: id.clone(), name: name.clone(), found: container.status };
        let note = notes.write(Note { host: self.host.clone(), undo })?;
        let set_aside = SetAside { docker: self.clone(), note };
        let done = async {
            if matches!(container.status, Status::Running | Status::Paused) {
                self.begin_rest(container, Rest::Stop { seconds }).await?;
            }
            self.rename(&id, &name, aside).await
        };
        match done.await {
            Ok(()) => Ok(set_aside),
            Err(failure) => {
                set_aside.put_back().await?;
                Err(failure)
            }
        }
    }
}

impl SetAside {
    /// Removes what has taken its name, and gives the container its name and state back.
    pub async fn put_back(self) -> Result<(), Failure> {
        self.docker.undo(&self.note.note.undo).await?;
        self.note.remove();
        Ok(())
    }

    /// Leaves it aside for good: the other one is in its place.
    pub fn let_go(self) {
        self.note.remove();
    }
}
