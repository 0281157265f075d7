//! `SetAside` is a container that has left its place to another one, and can be put back.

use bollard::models::{RestartPolicy, RestartPolicyNameEnum};
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
    /// Its daemon does not start it again by itself. It must have the name by which the caller knows it.
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
        // It was looked at before its volumes were filled, which may be long ago.
        let container = self.container(&id).await?;
        let runs = matches!(container.status, Status::Running | Status::Paused);
        let host_config = container.described.host_config.as_ref();
        let restarts = host_config.and_then(|config| config.restart_policy.clone()).filter(starts_by_itself);
        let undo = Undo::PutBack {
            container: id.clone(),
            name: name.clone(),
            found: container.status,
            mark: Some(replacement.0.clone()),
            stop_seconds: runs.then_some(seconds),
            restarts: restarts.clone(),
        };
        let note = notes.write(Note { host: self.host.clone(), undo })?;
        if notes.is_at_rest(&id, Some(&note)) {
            note.remove();
            let message = format!("another command of pstore has the container {name} at rest");
            return Err(Failure::new(ErrorKind::LockHeld, message).hint("run this again when that has ended"));
        }
        // Nobody else works on it from now on; before that somebody may have.
        let now = self.container(&id).await;
        if !now.as_ref().is_ok_and(|now| now.name == name && now.status == container.status) {
            note.remove();
            let message = format!("somebody has renamed, started or stopped the container {name} meanwhile");
            return Err(now.err().unwrap_or_else(|| {
                Failure::new(ErrorKind::InUse, message)
                    .hint("run this again, for the container that it is now")
            }));
        }
        note.touch();
        let set_aside = SetAside { docker: self.clone(), note };
        let done = async {
            if restarts.is_some() {
                self.restarts(&id, &name, RestartPolicy::default()).await?;
            }
            if runs {
                self.begin_rest(&container, Rest::Stop { seconds }).await?;
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

/// Whether a daemon starts a container that has ended, or when it is started itself.
fn starts_by_itself(policy: &RestartPolicy) -> bool {
    !matches!(policy.name, None | Some(RestartPolicyNameEnum::EMPTY | RestartPolicyNameEnum::NO))
}

impl SetAside {
    /// Removes what has taken its name, and gives the container its name and state back.
    #[crate::boxed]
    pub async fn put_back(self) -> Result<(), Failure> {
        self.docker.undo(&self.note.note.undo).await?;
        self.note.remove();
        Ok(())
    }

    /// Leaves it aside for good: the other one is in its place. Says when it started by itself until now, if it did.
    pub fn let_go(self) -> Option<String> {
        let restarts = match &self.note.note.undo {
            Undo::PutBack { restarts, .. } => restarts.as_ref().and_then(|policy| policy.name),
            _ => None,
        };
        self.note.remove();
        restarts.map(|name| name.to_string())
    }
}
