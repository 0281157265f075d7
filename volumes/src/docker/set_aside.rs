//! `SetAside` is a container that has left its place to another one, and can be put back.

use engine::failure::Failure;
use store::ErrorKind;

use super::{
    connection::Docker,
    containers::{Container, Status},
    helper::Mark,
    notes::{HeldNote, Note, Notes, Undo},
    rest::Rest,
};

/// A container that was set aside for another one of its name.
#[derive(Debug)]
#[must_use = "the container stays aside until it is put back or let go"]
pub struct SetAside {
    docker: Docker,
    note: HeldNote,
}

impl Docker {
    /// Stops a container and calls it `aside`, so that another one, which has the mark `replacement`, can have its name.
    #[crate::boxed]
    pub async fn set_aside(
        &self,
        container: &Container,
        (aside, seconds): (&str, u32),
        replacement: &Mark,
        notes: &Notes,
    ) -> Result<SetAside, Failure> {
        container.require_other()?;
        container.require_stoppable()?;
        let (id, name) = (container.id.clone(), container.name.clone());
        let undo = Undo::PutBack {
            container: id.clone(),
            name: name.clone(),
            found: container.status,
            mark: Some(replacement.0.clone()),
        };
        let note = notes.write(Note { host: self.host.clone(), undo })?;
        if notes.is_at_rest(&id, Some(&note)) {
            note.remove();
            let message = format!("another command of pstore has the container {name} at rest");
            return Err(Failure::new(ErrorKind::LockHeld, message).hint("run this again when that has ended"));
        }
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
    #[crate::boxed]
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
