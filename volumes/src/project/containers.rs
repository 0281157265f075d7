//! `containers` reaches the Docker daemon of a project: it brings containers to rest that are services, and finds the
//! folders of volumes that are Docker's.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use engine::{Engine, failure::Failure};
use store::ErrorKind;

use super::file::{Project, Service};
use crate::docker::{Container, Docker, Notes, Rest, Resting, Status, settle_everywhere};

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
    let (mut found, mut docker) = (BTreeMap::<String, Found<'_>>::new(), None);
    for (name, container, stop_seconds) in named {
        let docker = match &mut docker {
            Some(docker) => docker,
            absent => absent.insert(connect(project).await?),
        };
        let container = docker.container(container).await.map_err(|failure| of_service(name, failure))?;
        // Several services may be one container, which rests once, as the strictest of them wants it.
        match found.get_mut(&container.id) {
            Some(other) => other.stop_seconds = other.stop_seconds.max(stop_seconds),
            None => {
                found.insert(container.id.clone(), Found { name, container, stop_seconds });
            }
        }
    }
    // In the order of their ids, whatever a project calls them: of two projects with the same containers none has one that
    // the other waits for while it waits itself.
    let (mut at_rest, notes) = (Vec::new(), Notes::of(&engine.settings)?);
    for Found { name, container, stop_seconds } in found.into_values() {
        let Some(docker) = &docker else { break };
        let how = stop_seconds.map_or(Rest::Pause, |seconds| Rest::Stop { seconds });
        let rested = docker.rest(&container, how, &notes, wait).await;
        at_rest.push(rested.map_err(|failure| of_service(name, failure))?);
    }
    Ok(at_rest)
}

/// A container that is a service.
struct Found<'a> {
    name: &'a str,
    container: Container,
    /// How long it may take to end, if it is stopped and not only paused.
    stop_seconds: Option<u32>,
}

fn of_service(name: &str, failure: Failure) -> Failure {
    Failure { message: format!("service {name:?} cannot be brought to rest: {}", failure.message), ..failure }
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
