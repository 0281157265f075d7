//! `Container` is a container as the daemon describes it, in one of the states in which it can be worked on.

use bollard::models::{ContainerInspectResponse, ContainerStateStatusEnum, HealthStatusEnum};
use engine::failure::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::ErrorKind;

use super::{connection::Docker, own, problem::failure};

/// A state in which a container can be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was made and never started.
    Created,
    /// Its processes run.
    Running,
    /// Its processes are frozen.
    Paused,
    /// Its processes have ended.
    Exited,
}

impl Status {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Exited => "exited",
        }
    }
}

/// A container, as it was when it was looked at.
#[derive(Clone, Debug)]
pub struct Container {
    /// The daemon's id.
    pub id: String,
    /// Its name, without the slash.
    pub name: String,
    /// Its state.
    pub status: Status,
    /// Whether its health check passes: `healthy`, `unhealthy` or `starting`; `None` if it has none.
    pub health: Option<String>,
    /// All that the daemon says.
    pub described: ContainerInspectResponse,
}

/// Whether Docker takes this as a name: nothing that leads elsewhere in a path of its API.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric()) && text.bytes().all(is_plain)
}

impl Docker {
    /// Looks a container up by its name or id. One in another state than those of [`Status`] is refused.
    #[crate::boxed]
    pub async fn container(&self, name: &str) -> Result<Container, Failure> {
        if !is_name(name) {
            let message = format!("{name:?} is no name or id of a container");
            return Err(Failure::new(ErrorKind::InvalidInput, message)
                .hint("`docker ps --all` lists the names of those there are"));
        }
        let described = self.api.inspect_container(name, None).await.map_err(|error| {
            let failure = failure(&format!("cannot look at the container {name:?}"), &error);
            match failure.kind {
                ErrorKind::NotFound => {
                    Failure::new(ErrorKind::NotFound, format!("there is no container {name:?} at {}", self.host))
                        .hint("`docker ps --all` lists those there are; --docker-host or DOCKER_HOST names another daemon")
                }
                _ => failure,
            }
        })?;
        Container::of(name, described)
    }
}

impl Container {
    /// Fails for the container in which this process runs: it would come to rest with it.
    pub(super) fn require_other(&self) -> Result<(), Failure> {
        let driver = self.described.graph_driver.as_ref();
        let upper = driver.and_then(|driver| driver.data.get("UpperDir"));
        match own::is_own(&self.id, upper.map(String::as_str)) {
            true => {
                let message = format!(
                    "the container {} is the one in which pstore itself runs: paused or stopped, it could not let itself go on",
                    self.name
                );
                Err(Failure::new(ErrorKind::InvalidInput, message)
                    .hint("run pstore on the host, or in another container that has the daemon's socket"))
            }
            false => Ok(()),
        }
    }

    /// Fails for a container that its daemon removes when it ends.
    pub(super) fn require_stoppable(&self) -> Result<(), Failure> {
        let host_config = self.described.host_config.as_ref();
        match host_config.and_then(|config| config.auto_remove) {
            Some(true) => {
                let message = format!(
                    "the container {} was started with --rm: its daemon removes it when it ends",
                    self.name
                );
                Err(Failure::new(ErrorKind::InvalidInput, message)
                    .hint("make it without --rm; what only pauses a container works with --rm"))
            }
            _ => Ok(()),
        }
    }

    fn of(name: &str, described: ContainerInspectResponse) -> Result<Self, Failure> {
        let state = described.state.clone().unwrap_or_default();
        let status = match state.status {
            Some(ContainerStateStatusEnum::CREATED) => Status::Created,
            Some(ContainerStateStatusEnum::RUNNING) => Status::Running,
            Some(ContainerStateStatusEnum::PAUSED) => Status::Paused,
            Some(ContainerStateStatusEnum::EXITED) => Status::Exited,
            other => {
                let word = other.map_or_else(|| "in no known state".to_owned(), |other| other.to_string());
                let message = format!("the container {name:?} is {word}: it cannot be worked on");
                return Err(Failure::new(ErrorKind::InUse, message)
                    .hint("wait until it is running, paused, exited or created"));
            }
        };
        let health = state.health.and_then(|health| health.status).and_then(|status| match status {
            HealthStatusEnum::EMPTY | HealthStatusEnum::NONE => None,
            status => Some(status.to_string()),
        });
        let told = described.name.clone().unwrap_or_default();
        Ok(Self {
            id: described.id.clone().unwrap_or_default(),
            name: told.trim_start_matches('/').to_owned(),
            status,
            health,
            described,
        })
    }
}
