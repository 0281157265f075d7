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

use super::metadata::Consistency;

/// The page that describes the file.
const PAGE: &str = "docs/projects.md";
const MAX_BYTES: u64 = 1 << 20;
/// How long SQLite and hooks may take where the file says nothing.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
/// How long a dump or its restoring may take where the file says nothing.
const DEFAULT_DUMP_LIMIT: Duration = Duration::from_secs(3600);

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
    /// The volumes by their names.
    pub volumes: BTreeMap<String, Volume>,
    /// The services by their names.
    pub services: BTreeMap<String, Service>,
    /// What runs before a save, in its order.
    pub pre_save: Vec<Hook>,
    /// What runs after a save, also after one that failed.
    pub post_save: Vec<Hook>,
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

/// A volume, and how it is saved.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Where it is.
    pub path: PathBuf,
    /// How it is made consistent.
    pub kind: VolumeKind,
}

/// How a volume is made consistent, with what that needs.
#[derive(Clone, Debug)]
pub enum VolumeKind {
    /// Databases of SQLite.
    Sqlite {
        /// These databases alone, by their paths in the volume; without any, the whole folder.
        files: Vec<PathBuf>,
        /// How long to wait for those who write.
        wait: Duration,
    },
    /// A Postgres server.
    Postgres(Postgres),
    /// A folder.
    Generic {
        /// The services that rest while it is copied.
        services: Vec<String>,
    },
}

/// How a Postgres server is reached.
#[derive(Clone, Debug)]
pub struct Postgres {
    /// The connection string of the server, without a password.
    pub url: String,
    /// The databases.
    pub databases: Vec<String>,
    /// Whether roles and tablespaces are saved, too.
    pub globals: bool,
    /// The folder of `pg_dump` and its like; without one, they are looked for.
    pub programs: Option<PathBuf>,
    /// How long one dump may take.
    pub time_limit: Duration,
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
        /// Whether it is stopped, and not only paused.
        stop: bool,
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
    #[serde(default)]
    volumes: BTreeMap<String, Spanned<VolumeTable>>,
    #[serde(default)]
    services: BTreeMap<String, Spanned<ServiceTable>>,
    #[serde(default)]
    hooks: HooksTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeTable {
    consistency: Consistency,
    path: Option<PathBuf>,
    files: Option<Vec<PathBuf>>,
    wait: Option<Spanned<String>>,
    services: Option<Vec<String>>,
    url: Option<String>,
    databases: Option<Vec<String>>,
    globals: Option<bool>,
    programs: Option<PathBuf>,
    time_limit: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceTable {
    pid_file: Option<PathBuf>,
    container: Option<String>,
    during_save: Option<Rest>,
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

    /// Reads `text`, which stands in `file`.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Failure> {
        let reader = Reader { file, text };
        let table: ProjectTable = toml::from_str(text)
            .map_err(|error| reader.failure(error.span().map_or(0, |span| span.start), error.message()))?;
        let name = table.name.get_ref().parse().map_err(|error: store::name::InvalidName| {
            reader.failure(table.name.span().start, &error.to_string())
        })?;
        let state = reader.beside(table.state.get_ref());
        let mut volumes = BTreeMap::new();
        for (name, volume) in table.volumes {
            let at = volume.span().start;
            reader.require_plain(at, "volume", &name)?;
            let path = state.join(volume.get_ref().path.clone().unwrap_or(Path::new("volumes").join(&name)));
            let kind = reader.volume(at, &name, volume.into_inner(), &table.services)?;
            volumes.insert(name, Volume { path, kind });
        }
        let mut services = BTreeMap::new();
        for (name, service) in table.services {
            let at = service.span().start;
            reader.require_plain(at, "service", &name)?;
            services.insert(name.clone(), reader.service(at, &name, service.into_inner(), &state)?);
        }
        let hooks = |hooks: Vec<Spanned<HookTable>>| -> Result<Vec<Hook>, Failure> {
            hooks.into_iter().map(|hook| reader.hook(hook.span().start, hook.into_inner())).collect()
        };
        Ok(Self {
            file: file.to_owned(),
            name,
            state,
            app_version: table.app_version,
            keep: table.keep,
            workspace: table.workspace.map(|path| reader.beside(&path)),
            volumes,
            services,
            pre_save: hooks(table.hooks.pre_save)?,
            post_save: hooks(table.hooks.post_save)?,
        })
    }
}

struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn failure(&self, at: usize, problem: &str) -> Failure {
        let line = self.text[..at.min(self.text.len())].matches('\n').count() + 1;
        let problem = problem.trim_end().replace('\n', "; ");
        Failure::usage(format!("{}, line {line}: {problem}", self.file.display()))
            .hint(format!("{PAGE} lists what a project file can say"))
    }

    /// A path as it is meant in the file.
    fn beside(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("/")).join(path)
    }

    /// Names of volumes are names of folders in a snapshot.
    fn require_plain(&self, at: usize, what: &str, name: &str) -> Result<(), Failure> {
        match name.parse::<store::name::Profile>() {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failure(at, &format!("invalid {what} name {name:?}: {}", error.reason))),
        }
    }

    fn limit(&self, text: Option<&Spanned<String>>, default: Duration) -> Result<Duration, Failure> {
        let Some(text) = text else { return Ok(default) };
        let typed = text.get_ref().as_str();
        let (number, scale) = match (typed.strip_suffix("ms"), typed.strip_suffix('s')) {
            (Some(number), _) => (number, 1),
            (None, Some(number)) => (number, 1000),
            _ => (typed.strip_suffix("min").unwrap_or(""), 60_000),
        };
        let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
        millis.filter(|millis| *millis > 0).map(Duration::from_millis).ok_or_else(|| {
            self.failure(text.span().start, &format!("{typed:?} is no time: write it as 500ms, 30s or 5min"))
        })
    }

    fn volume(
        &self,
        at: usize,
        name: &str,
        table: VolumeTable,
        all: &BTreeMap<String, Spanned<ServiceTable>>,
    ) -> Result<VolumeKind, Failure> {
        let consistency = table.consistency;
        let only = |is_set: bool, key: &str, of: Consistency| match is_set && consistency != of {
            true => Err(self.failure(
                at,
                &format!("volume {name:?} has {key:?}, which goes with consistency = {:?}", of.word()),
            )),
            false => Ok(()),
        };
        only(table.files.is_some(), "files", Consistency::Sqlite)?;
        only(table.wait.is_some(), "wait", Consistency::Sqlite)?;
        only(table.services.is_some(), "services", Consistency::Generic)?;
        only(table.url.is_some(), "url", Consistency::Postgres)?;
        only(table.databases.is_some(), "databases", Consistency::Postgres)?;
        only(table.globals.is_some(), "globals", Consistency::Postgres)?;
        only(table.programs.is_some(), "programs", Consistency::Postgres)?;
        only(table.time_limit.is_some(), "time_limit", Consistency::Postgres)?;
        Ok(match consistency {
            Consistency::Sqlite => {
                let files = table.files.unwrap_or_default();
                if let Some(file) = files.iter().find(|file| !is_below(file)) {
                    let problem = format!("{} is no path in volume {name:?}", file.display());
                    return Err(self.failure(at, &problem));
                }
                VolumeKind::Sqlite { files, wait: self.limit(table.wait.as_ref(), DEFAULT_LIMIT)? }
            }
            Consistency::Postgres => {
                if table.url.as_deref().is_some_and(has_password) {
                    let problem = format!(
                        "\"url\" of volume {name:?} has a password, which every user of this host could see; \
                         ~/.pgpass is the place for it"
                    );
                    return Err(self.failure(at, &problem));
                }
                let missing = |key| self.failure(at, &format!("volume {name:?} has no {key:?}"));
                let url = table.url.ok_or_else(|| missing("url"))?;
                let databases = table.databases.filter(|all| !all.is_empty());
                let databases = databases.ok_or_else(|| missing("databases"))?;
                if let Some(odd) = databases.iter().find(|name| name.parse::<store::name::Profile>().is_err())
                {
                    return Err(
                        self.failure(at, &format!("{odd:?} is no name of a database that can be saved"))
                    );
                }
                VolumeKind::Postgres(Postgres {
                    url,
                    databases,
                    globals: table.globals.unwrap_or(true),
                    programs: table.programs.map(|path| self.beside(&path)),
                    time_limit: self.limit(table.time_limit.as_ref(), DEFAULT_DUMP_LIMIT)?,
                })
            }
            Consistency::Generic => {
                let services = table.services.unwrap_or_default();
                if let Some(unknown) = services.iter().find(|service| !all.contains_key(*service)) {
                    let problem =
                        format!("volume {name:?} names the service {unknown:?}, which has no table");
                    return Err(self.failure(at, &problem));
                }
                VolumeKind::Generic { services }
            }
        })
    }

    fn service(&self, at: usize, name: &str, table: ServiceTable, state: &Path) -> Result<Service, Failure> {
        let stop = table.during_save == Some(Rest::Stop);
        match (table.pid_file, table.container) {
            (Some(_), None) if stop => {
                let problem = format!(
                    "service {name:?} is a process, and pstore could not start it again: write during_save = \"pause\""
                );
                Err(self.failure(at, &problem))
            }
            (Some(pid_file), None) => Ok(Service::Process { pid_file: state.join(pid_file) }),
            (None, Some(container)) => Ok(Service::Container { container, stop }),
            _ => {
                Err(self.failure(at, &format!("service {name:?} needs either \"pid_file\" or \"container\"")))
            }
        }
    }

    fn hook(&self, at: usize, table: HookTable) -> Result<Hook, Failure> {
        let command = match (table.command, table.shell) {
            (Some(command), None) if !command.is_empty() => command,
            (None, Some(script)) => vec!["/bin/sh".to_owned(), "-c".to_owned(), script],
            _ => {
                let problem = "a hook has either command = [\"PROGRAM\", …] or shell = \"SCRIPT\"";
                return Err(self.failure(at, problem));
            }
        };
        Ok(Hook {
            command,
            time_limit: self.limit(table.time_limit.as_ref(), DEFAULT_LIMIT)?,
            on_error: table.on_error,
            environment: table.environment,
        })
    }
}

/// Whether a connection string has a password in it.
fn has_password(url: &str) -> bool {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || url.contains("password=")
}

/// Whether a path leads to something below where it begins.
fn is_below(path: &Path) -> bool {
    use std::path::Component;
    path.components().count() > 0 && path.components().all(|part| matches!(part, Component::Normal(_)))
}
