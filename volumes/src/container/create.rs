//! `NewContainer` says to a daemon how a restored container is to be made: as it was, with the volumes it has now.

use std::collections::HashMap;

use bollard::models::{
    ContainerConfig, ContainerCreateBody, EndpointSettings, HostConfig, Mount, MountType, MountVolumeOptions,
    NetworkingConfig,
};
use engine::failure::Failure;

use super::description::{ContainerDescription, MountKind};
use crate::docker::Docker;

/// Says of a container which snapshot it was made of.
pub(super) const RESTORED_FROM: &str = "pstore.restored-from";
/// Networks that every daemon has.
const BUILT_IN: [&str; 4] = ["none", "host", "default", "bridge"];

/// How a container is to be made.
pub(super) struct NewContainer {
    pub body: ContainerCreateBody,
    /// Networks that it is connected to before it is started: older daemons take one when a container is made.
    pub more_networks: Vec<(String, EndpointSettings)>,
}

/// How the container is to be made. `volumes` has the new name of each volume. Adds to `warnings` what cannot be as it was.
pub(super) async fn new_container(
    docker: &Docker,
    description: &ContainerDescription,
    (image, more_labels): (&str, [(String, String); 2]),
    volumes: &HashMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<NewContainer, Failure> {
    let config = description.config()?;
    let host = description.host_config()?;
    let (networking, network_mode, more_networks) = networks(docker, description, &host, warnings).await?;
    let mut labels = config.labels.clone().unwrap_or_default();
    labels.extend(more_labels);
    // What Docker makes up is the first digits of the id, which is another one now.
    let hostname = config.hostname.clone().filter(|name| !description.id.starts_with(name.as_str()));
    let ContainerConfig {
        domainname,
        user,
        attach_stdin,
        attach_stdout,
        attach_stderr,
        exposed_ports,
        tty,
        open_stdin,
        stdin_once,
        env,
        cmd,
        healthcheck,
        args_escaped,
        working_dir,
        entrypoint,
        on_build,
        stop_signal,
        stop_timeout,
        shell,
        ..
    } = config;
    let body = ContainerCreateBody {
        hostname,
        domainname,
        user,
        attach_stdin,
        attach_stdout,
        attach_stderr,
        exposed_ports,
        tty,
        open_stdin,
        stdin_once,
        env,
        cmd,
        healthcheck,
        args_escaped,
        image: Some(image.to_owned()),
        volumes: None,
        working_dir,
        entrypoint,
        network_disabled: Some(network_mode.as_deref() == Some("none")),
        on_build,
        labels: Some(labels),
        stop_signal,
        stop_timeout,
        shell,
        host_config: Some(HostConfig {
            // Every mount is said anew below, by the names that volumes have now.
            binds: Some(binds(description)),
            mounts: Some(mounts(description, &host, volumes)),
            volumes_from: None,
            network_mode,
            container_id_file: None,
            links: None,
            ..host
        }),
        networking_config: Some(networking),
    };
    Ok(NewContainer { body, more_networks })
}

fn mounts(
    description: &ContainerDescription,
    host: &HostConfig,
    volumes: &HashMap<String, String>,
) -> Vec<Mount> {
    let mount = |typ, source, row: &super::description::MountRow| Mount {
        target: Some(row.destination.clone()),
        source,
        typ: Some(typ),
        read_only: Some(row.read_only),
        ..Default::default()
    };
    let rows = description.mounts.iter().filter_map(|row| match row.kind {
        MountKind::Volume => {
            let name = row.name.as_ref()?;
            let now = volumes.get(name).unwrap_or(name).clone();
            // It holds what the snapshot has, which may be nothing: the image adds nothing to it.
            let volume_options = Some(MountVolumeOptions { no_copy: Some(true), ..Default::default() });
            Some(Mount { volume_options, ..mount(MountType::VOLUME, Some(now), row) })
        }
        // A new one, as Docker would make for a new container.
        MountKind::AnonymousVolume => Some(mount(MountType::VOLUME, None, row)),
        // Directories of the host are said apart.
        MountKind::Bind | MountKind::Tmpfs | MountKind::Other => None,
    });
    // Those that were said by `--tmpfs` stay in the host's configuration.
    let in_memory = host.mounts.iter().flatten().filter(|mount| mount.typ == Some(MountType::TMPFS));
    rows.chain(in_memory.cloned()).collect()
}

/// In the older way to say it, which makes a directory that this host does not have.
fn binds(description: &ContainerDescription) -> Vec<String> {
    let binds = description.mounts.iter().filter(|row| row.kind == MountKind::Bind);
    let said = binds.filter_map(|row| {
        let way = if row.read_only { "ro" } else { "rw" };
        Some(format!("{}:{}:{way}", row.source.as_deref()?, row.destination))
    });
    said.collect()
}

/// The networks of the container that this daemon has: the first, which of them that is, and the others.
async fn networks(
    docker: &Docker,
    description: &ContainerDescription,
    host: &HostConfig,
    warnings: &mut Vec<String>,
) -> Result<(NetworkingConfig, Option<String>, Vec<(String, EndpointSettings)>), Failure> {
    let mut mode = host.network_mode.clone();
    if mode.as_deref().is_some_and(|mode| mode.starts_with("container:")) {
        warnings.push("it shared the network of another container, and has none now".to_owned());
        mode = Some("none".to_owned());
    }
    let mut endpoints = HashMap::new();
    for name in description.networks.keys().filter(|name| !BUILT_IN.contains(&name.as_str())) {
        if docker
            .api
            .inspect_network(name, None::<bollard::query_parameters::InspectNetworkOptions>)
            .await
            .is_err()
        {
            warnings
                .push(format!("there is no network {name} here: `docker network create {name}` makes one"));
            if mode.as_deref() == Some(name) {
                mode = Some("none".to_owned());
            }
            continue;
        }
        let stored = description.endpoint(name)?;
        let aliases = stored.aliases.map(|aliases| {
            aliases.into_iter().filter(|alias| !description.id.starts_with(alias.as_str())).collect()
        });
        // Addresses are the daemon's to give.
        let endpoint = EndpointSettings {
            aliases,
            links: stored.links,
            driver_opts: stored.driver_opts,
            ..Default::default()
        };
        endpoints.insert(name.clone(), endpoint);
    }
    if mode.as_deref() == Some("none") || mode.as_deref() == Some("host") {
        endpoints.clear();
    }
    let first = mode.clone().and_then(|mode| endpoints.remove_entry(&mode));
    let more = endpoints.into_iter().collect();
    Ok((NetworkingConfig { endpoints_config: Some(first.into_iter().collect()) }, mode, more))
}
