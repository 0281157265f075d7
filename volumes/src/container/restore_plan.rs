//! `Plan` says what a restore will make at a daemon, and by which names.

use std::collections::HashMap;

use engine::{failure::Failure, text::time};
use store::{ErrorKind, format::record::Record};

use super::{
    description::ContainerDescription,
    restore_outcome::{
        ContainerRestoreOutcome, ContainerRestoreRequest, RestoreMode, RestoreResult, RestoredVolume,
    },
};
use crate::docker::{Container, Docker, Mark, Status, failure};

/// What will be made.
pub(super) struct Plan {
    pub container: String,
    pub repository: String,
    pub tag: String,
    /// The name at the daemon of each volume.
    pub volumes: HashMap<String, String>,
    /// The container that is to be replaced, if it is there.
    pub replaces: Option<Container>,
    pub aside: String,
    /// The mark of the container and its volumes.
    pub mark: Mark,
    pub starts: bool,
}

impl Plan {
    /// What is to be made at a daemon; `suffix` tells it from what is there.
    pub async fn of(
        docker: &Docker,
        request: &ContainerRestoreRequest,
        description: &ContainerDescription,
        record: &Record,
        suffix: &str,
    ) -> Result<Self, Failure> {
        let own = description.name.clone();
        let container = match (&request.container, request.mode) {
            (Some(name), _) => name.clone(),
            (None, RestoreMode::New) => free_container(docker, &own, suffix).await?,
            (None, RestoreMode::Replace) => own,
        };
        let found = there(docker.container(&container).await)?;
        if found.is_some() && request.mode == RestoreMode::New {
            let message = format!("there is a container {container} already");
            return Err(Failure::new(ErrorKind::TargetExists, message).hint(
                "--name gives the new one another name; --replace puts it in the place of the old one",
            ));
        }
        let mut volumes = HashMap::new();
        for name in description.volumes() {
            // What is there may be somebody's: it stays as it is, and the container gets a volume of its own.
            let now = match is_volume(docker, &name).await? {
                true => free_volume(docker, &name, suffix).await?,
                false => name.clone(),
            };
            volumes.insert(name, now);
        }
        let ran = matches!(description.status, Status::Running | Status::Paused);
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let image: String =
            description.name.to_lowercase().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
        Ok(Self {
            aside: format!("{container}-replaced-{suffix}"),
            mark: Mark::unused(),
            container,
            repository: format!("pstore-restored/{}", image.trim_matches(['-', '_'])),
            tag: record.sha256_prefix(),
            volumes,
            replaces: found,
            starts: request.start.unwrap_or(ran),
        })
    }

    /// What is told of it before anything is made.
    pub fn outcome(
        &self,
        description: &ContainerDescription,
        record: &Record,
        name: &str,
    ) -> ContainerRestoreOutcome {
        let volumes = description.mounts.iter().filter_map(|mount| {
            let name = mount.name.as_ref()?;
            let volume = self.volumes.get(name)?;
            Some(RestoredVolume {
                name: name.clone(),
                volume: volume.clone(),
                destination: mount.destination.clone(),
                files: 0,
                bytes: 0,
                verified: false,
            })
        });
        ContainerRestoreOutcome {
            outcome: RestoreResult::Planned,
            container: self.container.clone(),
            container_id: None,
            image: format!("{}:{}", self.repository, self.tag),
            started: self.starts,
            health: None,
            name: name.to_owned(),
            snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
            record: record.record,
            sha256_prefix: record.sha256_prefix(),
            volumes: volumes.collect(),
            set_aside: self.replaces.as_ref().map(|_| self.aside.clone()),
            before: None,
            warnings: Vec::new(),
            elapsed_ms: 0,
        }
    }
}

/// What was looked for, if it is there.
fn there<T>(looked: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.kind == ErrorKind::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn is_volume(docker: &Docker, name: &str) -> Result<bool, Failure> {
    let looked = docker.api.inspect_volume(name).await;
    let looked = looked.map_err(|error| failure(&format!("cannot look at the volume {name}"), &error));
    Ok(there(looked)?.is_some())
}

async fn free_volume(docker: &Docker, name: &str, suffix: &str) -> Result<String, Failure> {
    let mut number = 1;
    loop {
        let free = numbered(name, suffix, number);
        if !is_volume(docker, &free).await? {
            return Ok(free);
        }
        number += 1;
    }
}

async fn free_container(docker: &Docker, name: &str, suffix: &str) -> Result<String, Failure> {
    let mut number = 1;
    loop {
        let free = numbered(name, suffix, number);
        if there(docker.container(&free).await)?.is_none() {
            return Ok(free);
        }
        number += 1;
    }
}

/// `name-suffix`, then `name-suffix-2`, `name-suffix-3` and so on.
fn numbered(name: &str, suffix: &str, number: u32) -> String {
    match number {
        1 => format!("{name}-{suffix}"),
        _ => format!("{name}-{suffix}-{number}"),
    }
}

/// The time as a part of names: `20261118T201500`.
pub(super) fn suffix(unix_ms: u64) -> String {
    time::utc(unix_ms)
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('T'),
            c if c.is_ascii_digit() => Some(c),
            _ => None,
        })
        .collect()
}
