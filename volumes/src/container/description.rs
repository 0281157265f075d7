//! `ContainerDescription` is `container.json` of a snapshot: the container as the daemon described it.

use std::collections::BTreeMap;

use bollard::models::{ContainerConfig, EndpointSettings, HostConfig};
use engine::failure::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::ErrorKind;

use crate::docker::{Container, Docker, Status, is_name};

/// The version of the document that this pstore writes.
const VERSION: u64 = 1;

/// The moment of a run at which a snapshot is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Somebody asked for it.
    #[default]
    Manual,
    /// A run begins.
    RunStart,
    /// A run has ended.
    RunEnd,
    /// An action is about to be done.
    BeforeAction,
    /// An action was done.
    AfterAction,
    /// A restore is about to replace the container.
    BeforeRestore,
}

impl Trigger {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::RunStart => "run_start",
            Self::RunEnd => "run_end",
            Self::BeforeAction => "before_action",
            Self::AfterAction => "after_action",
            Self::BeforeRestore => "before_restore",
        }
    }
}

/// What is mounted in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MountKind {
    /// A volume with a name: its content is stored.
    Volume,
    /// A volume that the daemon made for this container alone: its content is not stored.
    AnonymousVolume,
    /// A directory of the host: its content is not stored.
    Bind,
    /// Memory: its content is not stored.
    Tmpfs,
    /// Something else: its content is not stored.
    Other,
}

/// A mount of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountRow {
    /// What it is.
    pub kind: MountKind,
    /// The name of the volume.
    pub name: Option<String>,
    /// The path on the host of a directory.
    pub source: Option<String>,
    /// The path in the container.
    pub destination: String,
    /// The driver of the volume.
    pub driver: Option<String>,
    /// Whether the container may only read it.
    pub read_only: bool,
}

/// The image of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageFields {
    /// The name of the image that the container was made of.
    pub reference: String,
    /// The id of that image.
    pub id: String,
    /// The layers of the stored image, the lowest first, each by the digest of its tar stream.
    pub layers: Vec<String>,
}

/// A container as it was when its snapshot was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerDescription {
    /// The version of this document.
    pub version: u64,
    /// The container's name.
    pub name: String,
    /// The daemon's id of it.
    pub id: String,
    /// Its state.
    pub status: Status,
    /// Whether its health check passed, if it has one.
    pub health: Option<String>,
    /// The moment of the run.
    pub trigger: Trigger,
    /// What somebody wrote about the snapshot.
    pub description: String,
    /// The agent's run.
    pub run_id: Option<String>,
    /// The version of the daemon.
    pub docker_version: Option<String>,
    /// The image.
    pub image: ImageFields,
    /// Environment, working directory, user, command, labels and so on, as Docker's API has them.
    pub config: Value,
    /// Ports, restart policy, limits and so on, as Docker's API has them.
    pub host_config: Value,
    /// The networks by name, as Docker's API has them.
    pub networks: BTreeMap<String, Value>,
    /// The mounts.
    pub mounts: Vec<MountRow>,
    /// Paths of the container whose content is not stored.
    pub excluded: Vec<String>,
}

/// What somebody says about a snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Said<'a> {
    pub trigger: Trigger,
    pub description: &'a str,
    pub run_id: Option<&'a str>,
}

impl ContainerDescription {
    pub(super) async fn of(docker: &Docker, container: &Container, said: Said<'_>) -> Result<Self, Failure> {
        let described = &container.described;
        let value = |value: serde_json::Result<Value>| {
            value.map_err(|error| Failure::internal(format!("a description cannot be written: {error}")))
        };
        let networks = described.network_settings.as_ref().and_then(|settings| settings.networks.clone());
        let networks = networks
            .unwrap_or_default()
            .into_iter()
            .map(|(name, endpoint)| value(serde_json::to_value(endpoint)).map(|endpoint| (name, endpoint)));
        let config = described.config.clone().unwrap_or_default();
        let mut host = described.host_config.clone().unwrap_or_default();
        // The daemon tells them in any order.
        host.binds.iter_mut().for_each(|binds| binds.sort_unstable());
        Ok(Self {
            version: VERSION,
            name: container.name.clone(),
            id: container.id.clone(),
            status: container.status,
            health: container.health.clone(),
            trigger: said.trigger,
            description: said.description.to_owned(),
            run_id: said.run_id.map(str::to_owned),
            docker_version: docker.version().await,
            image: ImageFields {
                reference: config.image.clone().unwrap_or_default(),
                id: described.image.clone().unwrap_or_default(),
                layers: Vec::new(),
            },
            config: value(serde_json::to_value(&config))?,
            host_config: value(serde_json::to_value(host))?,
            networks: networks.collect::<Result<_, Failure>>()?,
            mounts: mounts(container),
            excluded: super::top_layer::EXCLUDED.iter().map(|path| format!("/{path}")).collect(),
        })
    }

    /// The same of a container that was found in the state in which it is there.
    pub(super) fn found_as(self, container: &Container) -> Self {
        Self { status: container.status, health: container.health.clone(), ..self }
    }

    /// Reads the document of a snapshot, which may come from anybody.
    pub(super) fn read(bytes: &[u8], of: &str) -> Result<Self, Failure> {
        let bad = |problem: String| {
            Failure::new(ErrorKind::Damaged, format!("container.json of {of} cannot be read: {problem}"))
        };
        let read: Self = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
        if read.version != VERSION {
            let message = format!(
                "container.json of {of} is of version {}, and this pstore reads {VERSION}",
                read.version
            );
            return Err(Failure::new(ErrorKind::UnsupportedFormat, message).hint("use a newer pstore"));
        }
        // The daemon is asked for them in paths of its API.
        let volumes = read.mounts.iter().filter_map(|mount| mount.name.as_ref());
        for name in [&read.name].into_iter().chain(volumes).chain(read.networks.keys()) {
            if !is_name(name) {
                return Err(bad(format!("{name:?} is no name of a container, a volume or a network")));
            }
        }
        Ok(read)
    }

    pub(super) fn config(&self) -> Result<ContainerConfig, Failure> {
        typed(&self.config)
    }

    pub(super) fn host_config(&self) -> Result<HostConfig, Failure> {
        typed(&self.host_config)
    }

    pub(super) fn endpoint(&self, network: &str) -> Result<EndpointSettings, Failure> {
        self.networks.get(network).map_or_else(|| Ok(EndpointSettings::default()), typed)
    }

    /// The names of the volumes whose content is stored.
    pub(super) fn volumes(&self) -> Vec<String> {
        let named = self.mounts.iter().filter(|mount| mount.kind == MountKind::Volume);
        let mut names: Vec<String> = named.filter_map(|mount| mount.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is mounted and not stored.
    pub(super) fn warnings(&self) -> Vec<String> {
        let told = |mount: &MountRow| {
            let to = &mount.destination;
            match mount.kind {
                MountKind::Volume => None,
                MountKind::AnonymousVolume => Some(format!(
                    "the anonymous volume at {to} is not stored: Docker makes a new one for each container; \
                     `docker run --volume NAME:{to}` gives it a name"
                )),
                MountKind::Bind => Some(format!(
                    "the host's {} at {to} is not stored: a restore on another host finds what that host has there",
                    mount.source.as_deref().unwrap_or("directory")
                )),
                MountKind::Tmpfs => Some(format!("the memory file system at {to} is not stored")),
                MountKind::Other => Some(format!("what is mounted at {to} is not stored")),
            }
        };
        self.mounts.iter().filter_map(told).collect()
    }
}

fn typed<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone()).map_err(|error| {
        Failure::new(ErrorKind::Damaged, format!("container.json says what no daemon would: {error}"))
    })
}

fn mounts(container: &Container) -> Vec<MountRow> {
    let described = &container.described;
    let points = described.mounts.clone().unwrap_or_default().into_iter();
    let rows = points.map(|point| {
        let name = point.name.filter(|name| !name.is_empty());
        let kind = match point.typ.as_deref().unwrap_or_default() {
            "volume" if name.as_deref().is_some_and(is_anonymous) => MountKind::AnonymousVolume,
            "volume" => MountKind::Volume,
            "bind" => MountKind::Bind,
            "tmpfs" => MountKind::Tmpfs,
            _ => MountKind::Other,
        };
        MountRow {
            kind,
            source: point.source.filter(|_| kind == MountKind::Bind),
            name,
            destination: point.destination.unwrap_or_default(),
            driver: point.driver.filter(|driver| !driver.is_empty()),
            read_only: point.rw == Some(false),
        }
    });
    let mut rows: Vec<MountRow> = rows.collect();
    // Those of `--tmpfs` are listed elsewhere.
    let tmpfs = described.host_config.as_ref().and_then(|host| host.tmpfs.clone()).unwrap_or_default();
    rows.extend(tmpfs.into_keys().map(|destination| MountRow {
        kind: MountKind::Tmpfs,
        name: None,
        source: None,
        destination,
        driver: None,
        read_only: false,
    }));
    rows.sort_by(|a, b| a.destination.cmp(&b.destination));
    rows
}

/// Docker calls a volume without a name by 64 digits.
fn is_anonymous(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_in_the_daemons_api_is_refused() {
        let document = |name: &str, volume: &str, network: &str| {
            let mount = json!({ "kind": "volume", "name": volume, "source": null, "destination": "/data",
                "driver": "local", "read_only": false });
            json!({ "version": VERSION, "name": name, "id": "1", "status": "running", "health": null,
                "trigger": "manual", "description": "", "run_id": null, "docker_version": null,
                "image": { "reference": "busybox", "id": "2", "layers": [] }, "config": {}, "host_config": {},
                "networks": { network: {} }, "mounts": [mount], "excluded": [] })
        };
        let read = |document: Value| ContainerDescription::read(document.to_string().as_bytes(), "acme/web");
        read(document("web-1", "data.old", "shop_default")).unwrap();
        for name in ["../volumes/prod", "", ".", "..", "a/b", "a?force=true", "a#", "a%2fb", "-a", "a\n"] {
            for wrong in
                [document(name, "data", "net"), document("web", name, "net"), document("web", "data", name)]
            {
                let failure = read(wrong).unwrap_err();
                assert_eq!(failure.kind, ErrorKind::Damaged, "{name:?}");
            }
        }
    }
}
