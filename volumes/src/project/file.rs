//! `ProjectFile` reads the TOML file that says what a project consists of.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use engine::failure::Failure;
use serde::{Deserialize, Serialize};
use store::{ErrorKind, name::ProfileName};
use toml::Spanned;

use super::{
    reader::{PAGE, Reader},
    volume::{Volume, VolumeTable},
};

/// How long a container may take to end where the file says nothing.
const DEFAULT_STOP_LIMIT: Duration = Duration::from_secs(6);
/// The longest time that a container may take to end: pstore waits for an answer of the daemon for twice as long.
const MOST_STOP_LIMIT: Duration = Duration::from_secs(300);

const MAX_BYTES: u64 = 1 << 20;
/// How long hooks may take where the file says nothing.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// What a project consists of.
#[derive(Clone, Debug)]
pub struct Project {
    /// The file that says so.
    pub file: PathBuf,
    /// The tenant and the project.
    pub name: ProfileName,
    /// The folder with `files/` and `volumes/`.
    pub state: PathBuf,
    /// The version of the application.
    pub app_version: String,
    /// How many saved states stay.
    pub keep: Keep,
    /// Where the state is gathered on its way to the store.
    pub workspace: Option<PathBuf>,
    /// The address of the Docker daemon of its containers and volumes.
    pub docker_host: Option<String>,
    /// The volumes by their names.
    pub volumes: BTreeMap<String, Volume>,
    /// The services by their names.
    pub services: BTreeMap<String, Service>,
    /// What runs before a save, in its order.
    pub pre_save: Vec<Hook>,
    /// What runs after a save, also after one that failed.
    pub post_save: Vec<Hook>,
    /// Whether it is saved for a caller of a server, so that no folder may be one that other users could replace.
    pub no_links: bool,
}

/// How many saved states stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// All, but for those that the tenant's retention removes.
    #[default]
    All,
    /// The newest alone.
    One,
}

/// A service that can rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// The process whose number a file holds.
    Process {
        /// The file.
        pid_file: PathBuf,
    },
    /// A container.
    Container {
        /// Its name or id.
        container: String,
        /// How long it may take to end, if it is stopped and not only paused.
        stop_seconds: Option<u32>,
    },
}

/// A command that runs before or after a save.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How long it may take.
    pub time_limit: Duration,
    /// What becomes of the save if it fails.
    pub on_error: OnError,
    /// What it finds in its environment.
    pub environment: BTreeMap<String, String>,
}

/// What becomes of a save if a hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It fails.
    #[default]
    Abort,
    /// It goes on, with a warning.
    Continue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectTable {
    name: Spanned<String>,
    state: Spanned<PathBuf>,
    #[serde(default)]
    app_version: String,
    #[serde(default)]
    keep: Keep,
    workspace: Option<PathBuf>,
    docker_host: Option<String>,
    #[serde(default)]
    volumes: BTreeMap<String, Spanned<VolumeTable>>,
    #[serde(default)]
    services: BTreeMap<String, Spanned<ServiceTable>>,
    #[serde(default)]
    hooks: HooksTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceTable {
    pid_file: Option<PathBuf>,
    container: Option<String>,
    during_save: Option<Rest>,
    stop_limit: Option<Spanned<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rest {
    Pause,
    Stop,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HooksTable {
    #[serde(default)]
    pre_save: Vec<Spanned<HookTable>>,
    #[serde(default)]
    post_save: Vec<Spanned<HookTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HookTable {
    command: Option<Vec<String>>,
    shell: Option<String>,
    time_limit: Option<Spanned<String>>,
    #[serde(default)]
    on_error: OnError,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

impl Project {
    /// Reads the file.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let shown = file.display();
        let unread = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure::new(ErrorKind::NotFound, format!("there is no project file {shown}"))
                    .hint(format!("{PAGE} shows how to write one"))
            }
            _ => Failure::new(ErrorKind::Io, format!("cannot read {shown}: {error}")),
        };
        if fs::metadata(file).map_err(unread)?.len() > MAX_BYTES {
            return Err(Failure::usage(format!("{shown} is longer than 1 MiB, which no project file is")));
        }
        let bytes = fs::read(file).map_err(unread)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{shown} is not UTF-8, as TOML has to be")))?;
        let file = std::path::absolute(file).map_err(unread)?;
        Self::parse(&file, &text)
    }

    /// The same at this Docker daemon, if one is named.
    pub fn at_docker_host(self, docker_host: Option<&str>) -> Self {
        let named = docker_host.filter(|host| !host.is_empty()).map(ToOwned::to_owned);
        Self { docker_host: named.or(self.docker_host), ..self }
    }

    /// Reads `text`, which stands in `file`.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Failure> {
        let reader = Reader { file, text };
        let table: ProjectTable = toml::from_str(text)
            .map_err(|error| reader.failure(error.span().map_or(0, |span| span.start), error.message()))?;
        let name = table.name.get_ref().parse().map_err(|error: store::name::InvalidName| {
            reader.failure(table.name.span().start, &error.to_string())
        })?;
        let state = reader.beside(table.state.get_ref());
        let names = table.services.keys().cloned().collect();
        let mut volumes = BTreeMap::new();
        for (name, volume) in table.volumes {
            let at = volume.span().start;
            reader.require_plain(at, "volume", &name)?;
            let volume = volume.into_inner().read(&reader, (at, &name), &state, &names)?;
            volumes.insert(name, volume);
        }
        let mut services = BTreeMap::new();
        for (name, service) in table.services {
            let at = service.span().start;
            reader.require_plain(at, "service", &name)?;
            services.insert(name.clone(), service_of(&reader, (at, &name), service.into_inner(), &state)?);
        }
        let hooks = |hooks: Vec<Spanned<HookTable>>| -> Result<Vec<Hook>, Failure> {
            hooks.into_iter().map(|hook| hook_of(&reader, hook.span().start, hook.into_inner())).collect()
        };
        Ok(Self {
            file: file.to_owned(),
            name,
            state,
            app_version: table.app_version,
            keep: table.keep,
            workspace: table.workspace.map(|path| reader.beside(&path)),
            docker_host: table.docker_host,
            volumes,
            services,
            pre_save: hooks(table.hooks.pre_save)?,
            post_save: hooks(table.hooks.post_save)?,
            no_links: false,
        })
    }
}

fn service_of(
    reader: &Reader<'_>,
    (at, name): (usize, &str),
    table: ServiceTable,
    state: &Path,
) -> Result<Service, Failure> {
    let stop = table.during_save == Some(Rest::Stop);
    if let Some(limit) = table.stop_limit.as_ref().filter(|_| !stop || table.pid_file.is_some()) {
        let problem = format!("service {name:?} has \"stop_limit\", which goes with during_save = \"stop\"");
        return Err(reader.failure(limit.span().start, &problem));
    }
    match (table.pid_file, table.container) {
        (Some(_), None) if stop => {
            let problem = format!(
                "service {name:?} is a process, and pstore could not start it again: write during_save = \"pause\""
            );
            Err(reader.failure(at, &problem))
        }
        (Some(pid_file), None) => Ok(Service::Process { pid_file: state.join(pid_file) }),
        (None, Some(container)) => {
            let limit = reader.limit(table.stop_limit.as_ref(), DEFAULT_STOP_LIMIT)?.min(MOST_STOP_LIMIT);
            let seconds = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX).max(1);
            Ok(Service::Container { container, stop_seconds: stop.then_some(seconds) })
        }
        _ => Err(reader.failure(at, &format!("service {name:?} needs either \"pid_file\" or \"container\""))),
    }
}

fn hook_of(reader: &Reader<'_>, at: usize, table: HookTable) -> Result<Hook, Failure> {
    let command = match (table.command, table.shell) {
        (Some(command), None) if !command.is_empty() => command,
        (None, Some(script)) => vec!["/bin/sh".to_owned(), "-c".to_owned(), script],
        _ => {
            let problem = "a hook has either command = [\"PROGRAM\", …] or shell = \"SCRIPT\"";
            return Err(reader.failure(at, problem));
        }
    };
    Ok(Hook {
        command,
        time_limit: reader.limit(table.time_limit.as_ref(), DEFAULT_LIMIT)?,
        on_error: table.on_error,
        environment: table.environment,
    })
}
