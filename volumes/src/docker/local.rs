//! `Docker::on_this_host` finds out whether a daemon keeps its files on this host, where a user who may read them can.
//!
//! A daemon names paths of its own. In a container that was given the daemon's socket, or behind a connection to another
//! host, such a path is something else or nothing. But nobody else has a folder with a container's id of 256 random bits
//! where the daemon says that it keeps its containers: if that is here, the rest is, too.

use std::path::{Path, PathBuf};

use bollard::query_parameters::ListContainersOptionsBuilder;
use engine::failure::Failure;
use store::ErrorKind;

use super::{connection::Docker, containers::is_name, problem::failure};

/// The driver of volumes that are folders of the daemon.
const LOCAL_DRIVER: &str = "local";

/// The folder of a daemon whose files are on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonRoot(PathBuf);

impl DaemonRoot {
    /// A path that the daemon has named, if it leads to a folder of the daemon's that can be read here.
    pub fn folder(&self, named: &str) -> Option<PathBuf> {
        let path = Path::new(named);
        let is_plain = path.components().all(|part| part != std::path::Component::ParentDir);
        (is_plain && path.starts_with(&self.0) && std::fs::read_dir(path).is_ok()).then(|| path.to_owned())
    }
}

impl Docker {
    /// The daemon's folder, if it is on this host and can be read.
    #[crate::boxed]
    pub async fn on_this_host(&self) -> Result<Option<DaemonRoot>, Failure> {
        let doing = "cannot ask Docker for its containers";
        let options = ListContainersOptionsBuilder::default().all(true).limit(1).build();
        let listed = self.api.list_containers(Some(options)).await.map_err(|error| failure(doing, &error))?;
        let Some(id) = listed.into_iter().find_map(|container| container.id) else { return Ok(None) };
        self.keeps_here(&id).await
    }

    /// The same, if somebody knows the id of one of its containers.
    #[crate::boxed]
    pub async fn keeps_here(&self, container: &str) -> Result<Option<DaemonRoot>, Failure> {
        let is_id = container.len() == 64 && container.bytes().all(|byte| byte.is_ascii_hexdigit());
        let info =
            self.api.info().await.map_err(|error| failure("cannot ask Docker for its folder", &error))?;
        let Some(root) = info.docker_root_dir.map(PathBuf::from).filter(|root| is_id && root.is_absolute())
        else {
            return Ok(None);
        };
        let is_here = root.join("containers").join(container).is_dir();
        Ok(is_here.then_some(DaemonRoot(root)))
    }

    /// Where a volume lies on this host.
    #[crate::boxed]
    pub async fn volume_folder(&self, name: &str) -> Result<PathBuf, Failure> {
        if !is_name(name) {
            let message = format!("{name:?} is no name of a volume of Docker");
            return Err(Failure::new(ErrorKind::InvalidInput, message)
                .hint("`docker volume ls` lists those there are"));
        }
        let volume = self.api.inspect_volume(name).await.map_err(|error| {
            let failure = failure(&format!("cannot look at the volume {name:?}"), &error);
            match failure.kind {
                ErrorKind::NotFound => {
                    Failure::new(ErrorKind::NotFound, format!("there is no volume {name:?} at {}", self.host))
                        .hint("`docker volume ls` lists those there are; --docker-host or DOCKER_HOST names another daemon")
                }
                _ => failure,
            }
        })?;
        let elsewhere = |why: &str| {
            Failure::new(
                ErrorKind::InvalidInput,
                format!("the volume {name:?} of Docker cannot be read here: {why}"),
            )
            .hint("`pstore container snapshot` stores a container with its volumes through the daemon")
        };
        // One with options is mounted only while a container uses it.
        if volume.driver != LOCAL_DRIVER || !volume.options.is_empty() {
            return Err(elsewhere("it is no plain folder of the daemon"));
        }
        let root = self.on_this_host().await?;
        let folder = root.and_then(|root| root.folder(&volume.mountpoint));
        folder.ok_or_else(|| {
            elsewhere("the daemon keeps it on another host, or for root alone, or has no container")
        })
    }
}
