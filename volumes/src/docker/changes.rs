//! `changes` changes containers, images and volumes of a daemon: one request each.

use bollard::{
    models::{
        ContainerUpdateBody, EndpointSettings, NetworkConnectRequest, RestartPolicy, RestartPolicyNameEnum,
    },
    query_parameters::{
        RemoveContainerOptionsBuilder, RemoveImageOptions, RemoveVolumeOptions,
        RenameContainerOptionsBuilder, StopContainerOptionsBuilder,
    },
};
use engine::failure::Failure;
use store::ErrorKind;

use super::{connection::Docker, problem::failure};

/// Says of a container that it is a helper of ours.
pub(super) const HELPER: &str = "pstore.helper";
/// Says of a container or volume which command has made it.
pub(super) const MARK: &str = "pstore.made-by";

/// What has become of a container that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    /// It was removed.
    Gone,
    /// There is none of its name.
    Nothing,
    /// The one of its name was made by somebody else, and stays.
    NotOurs,
}

impl Docker {
    /// Freezes the processes of a container.
    pub(super) async fn pause(&self, id: &str, name: &str) -> Result<(), Failure> {
        let paused = self.api.pause_container(id).await;
        paused.map_err(|error| failure(&format!("cannot pause {name}"), &error))
    }

    /// Lets frozen processes go on.
    pub(super) async fn unpause(&self, id: &str, name: &str) -> Result<(), Failure> {
        let unpaused = self.api.unpause_container(id).await;
        unpaused.map_err(|error| {
            failure(&format!("cannot resume {name}"), &error).hint(format!(
                "`docker unpause {name}` resumes it; so does the next command of pstore about containers or projects"
            ))
        })
    }

    /// Starts a container that does not run.
    #[crate::boxed]
    pub async fn start(&self, id: &str, name: &str) -> Result<(), Failure> {
        let started = self.api.start_container(id, None).await;
        started.map_err(|error| failure(&format!("cannot start {name}"), &error))
    }

    /// Tells a container's processes to end, and kills them after so many seconds.
    #[crate::boxed]
    pub async fn stop(&self, id: &str, name: &str, seconds: u32) -> Result<(), Failure> {
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let stopped = self.api.stop_container(id, Some(options)).await;
        stopped.map_err(|error| failure(&format!("cannot stop {name}"), &error))
    }

    /// Gives a container another name.
    #[crate::boxed]
    pub async fn rename(&self, id: &str, name: &str, to: &str) -> Result<(), Failure> {
        let options = RenameContainerOptionsBuilder::default().name(to).build();
        let renamed = self.api.rename_container(id, options).await;
        renamed.map_err(|error| failure(&format!("cannot rename {name} to {to}"), &error))
    }

    /// Says when the daemon is to start a container by itself.
    pub(super) async fn restarts(&self, id: &str, name: &str, policy: RestartPolicy) -> Result<(), Failure> {
        let policy = match policy.name {
            // What is left out stays as it is.
            None => RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None },
            Some(_) => policy,
        };
        let update = ContainerUpdateBody { restart_policy: Some(policy), ..Default::default() };
        let updated = self.api.update_container(id, update).await;
        updated.map_err(|error| failure(&format!("cannot say when {name} is to be started"), &error))
    }

    /// Connects a container to one network more.
    #[crate::boxed]
    pub async fn connect_network(
        &self,
        id: &str,
        name: &str,
        network: &str,
        endpoint: EndpointSettings,
    ) -> Result<(), Failure> {
        let request = NetworkConnectRequest { container: id.to_owned(), endpoint_config: Some(endpoint) };
        let connected = self.api.connect_network(network, request).await;
        connected.map_err(|error| failure(&format!("cannot connect {name} to the network {network}"), &error))
    }

    /// Removes a container, even if it runs, with the volumes that were made for it alone. Says whether it was there.
    #[crate::boxed]
    pub async fn remove_container(&self, name: &str) -> Result<bool, Failure> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = self.api.remove_container(name, Some(options)).await;
        was_there(removed.map_err(|error| failure(&format!("cannot remove the container {name}"), &error)))
    }

    /// Removes a container that pstore has made: a helper, or one with this mark. Others of its name are somebody's.
    pub(super) async fn remove_made_container(
        &self,
        name: &str,
        mark: Option<&str>,
    ) -> Result<Removed, Failure> {
        let found = self.api.inspect_container(name, None).await;
        let found = found.map_err(|error| failure(&format!("cannot look at the container {name}"), &error));
        let found = match found {
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(Removed::Nothing),
            found => found?,
        };
        let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
        let is_made = match mark {
            Some(mark) => labels.get(MARK).is_some_and(|found| found == mark),
            None => labels.contains_key(HELPER),
        };
        // By its id: its name may be another's by now.
        match (is_made, found.id) {
            (true, Some(id)) => {
                Ok(if self.remove_container(&id).await? { Removed::Gone } else { Removed::Nothing })
            }
            _ => Ok(Removed::NotOurs),
        }
    }

    /// Removes a volume with this mark. Says whether it was there. One that a container uses stays.
    pub(super) async fn remove_made_volume(&self, name: &str, mark: Option<&str>) -> Result<bool, Failure> {
        let found = self.api.inspect_volume(name).await;
        let found = found.map_err(|error| failure(&format!("cannot look at the volume {name}"), &error));
        let found = match found {
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        match mark.is_some_and(|mark| found.labels.get(MARK).is_some_and(|found| found == mark)) {
            true => self.remove_volume(name).await,
            false => Ok(false),
        }
    }

    /// Removes a name of an image, and the image if it has no other. Says whether it was there. One that a container uses
    /// stays.
    #[crate::boxed]
    pub async fn remove_image(&self, tag: &str) -> Result<bool, Failure> {
        let removed = self.api.remove_image(tag, None::<RemoveImageOptions>, None).await;
        unless_used(was_there(
            removed.map_err(|error| failure(&format!("cannot remove the image {tag}"), &error)),
        ))
    }

    /// Removes a temporary image. Fails if a container uses it: a helper that could not be removed, which goes later.
    #[crate::boxed]
    pub async fn remove_temporary_image(&self, tag: &str) -> Result<bool, Failure> {
        let removed = self.api.remove_image(tag, None::<RemoveImageOptions>, None).await;
        was_there(removed.map_err(|error| failure(&format!("cannot remove the image {tag}"), &error)))
    }

    /// Removes a volume. Says whether it was there. One that a container uses stays.
    #[crate::boxed]
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
