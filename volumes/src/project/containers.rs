//! `containers` reaches the Docker daemon of a project: it brings containers to rest that are services, and finds the
//! folders of volumes that are Docker's.

use std::{collections::BTreeSet, time::Duration};

use engine::{Engine, failure::Failure};
use store::ErrorKind;

use super::file::{Project, Service};
use crate::docker::{Docker, Notes, Rest, Resting, Status, settle_everywhere};

/// A connection to the daemon of a project.
#[crate::boxed]
pub async fn connect(project: &Project) -> Result<Docker, Failure> {
    Docker::connect(project.docker_host.as_deref()).await
}

/// Finds out where the volumes of a project lie that are Docker's.
#[crate::boxed]
pub async fn locate_volumes(project: &mut Project) -> Result<(), Failure> {
    if project.volumes.values().all(|volume| volume.docker_volume.is_none()) {
        return Ok(());
    }
    let docker = connect(project).await?;
    for volume in project.volumes.values_mut() {
        if let Some(name) = &volume.docker_volume {
            volume.path = docker.volume_folder(name).await?;
        }
    }
    Ok(())
}

/// Brings those of the services to rest that are containers, and says how each was found by what resumes it.
#[crate::boxed]
pub async fn rest(
    engine: &Engine,
    project: &Project,
    services: &BTreeSet<&str>,
    wait: Duration,
) -> Result<Vec<Resting>, Failure> {
    let named = services.iter().filter_map(|name| match project.services.get(*name)? {
        Service::Container { container, stop_seconds } => Some((*name, container, *stop_seconds)),
        Service::Process { .. } => None,
    });
    let (mut at_rest, mut docker) = (Vec::new(), None);
    for (name, container, stop_seconds) in named {
        let docker = match &mut docker {
            Some(docker) => docker,
            absent => absent.insert(connect(project).await?),
        };
        let how = stop_seconds.map_or(Rest::Pause, |seconds| Rest::Stop { seconds });
        let rested = async {
            let container = docker.container(container).await?;
            docker.rest(&container, how, &Notes::of(&engine.settings)?, wait).await
        };
        let resting = rested.await.map_err(|failure| Failure {
            message: format!("service {name:?} cannot be brought to rest: {}", failure.message),
            ..failure
        })?;
        at_rest.push(resting);
    }
    Ok(at_rest)
}

/// The name of a container that has not ended, of those that are services. One that is not there has ended.
#[crate::boxed]
pub async fn not_ended(project: &Project) -> Result<Option<String>, Failure> {
    for (name, service) in &project.services {
        let Service::Container { container, .. } = service else { continue };
        match connect(project).await?.container(container).await {
            Ok(found) if matches!(found.status, Status::Created | Status::Exited) => {}
            Err(failure) if failure.kind == ErrorKind::NotFound => {}
            Ok(_) => return Ok(Some(name.clone())),
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

/// Brings containers back to the state in which dead commands had found them. What cannot be done is a warning: the next
/// command tries again.
#[crate::boxed]
pub async fn settle(engine: &Engine) -> Result<(), Failure> {
    let (told, failed) = settle_everywhere(&Notes::of(&engine.settings)?).await;
    told.iter().for_each(|told| engine.say(told));
    failed.iter().for_each(|failure| engine.warn(&failure.message));
    Ok(())
}
