//! `Volume` is a volume of a project, as its table in the project file says.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use engine::failure::Failure;
use serde::Deserialize;
use toml::Spanned;

use super::{metadata::Consistency, reader::Reader};

/// How long SQLite may take where the file says nothing.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
/// How long a dump or its restoring may take where the file says nothing.
const DEFAULT_DUMP_LIMIT: Duration = Duration::from_secs(3600);
/// The server as it is reached within its container.
const URL_IN_CONTAINER: &str = "postgresql://postgres@/postgres";

/// A volume, and how it is saved.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Where it is.
    pub path: PathBuf,
    /// The name of the volume at a Docker daemon, which says where it is.
    pub docker_volume: Option<String>,
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
    /// The container in which the server and its programs run; without one, they are reached from here.
    pub container: Option<String>,
    /// The databases.
    pub databases: Vec<String>,
    /// Whether roles and tablespaces are saved, too.
    pub globals: bool,
    /// The folder of `pg_dump` and its like; without one, they are looked for.
    pub programs: Option<PathBuf>,
    /// How long one dump may take.
    pub time_limit: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeTable {
    consistency: Consistency,
    path: Option<PathBuf>,
    files: Option<Vec<PathBuf>>,
    wait: Option<Spanned<String>>,
    services: Option<Vec<String>>,
    docker_volume: Option<String>,
    url: Option<String>,
    container: Option<String>,
    databases: Option<Vec<String>>,
    globals: Option<bool>,
    programs: Option<PathBuf>,
    time_limit: Option<Spanned<String>>,
}

impl VolumeTable {
    /// The volume of this table, whose project has these services.
    pub fn read(
        self,
        reader: &Reader<'_>,
        (at, name): (usize, &str),
        state: &Path,
        services: &BTreeSet<String>,
    ) -> Result<Volume, Failure> {
        self.require_fitting_keys(reader, at, name)?;
        let docker_volume = self.docker_volume.clone();
        if docker_volume.is_some() && self.path.is_some() {
            let problem = format!("volume {name:?} has \"path\" and \"docker_volume\": it is in one place");
            return Err(reader.failure(at, &problem));
        }
        let path = state.join(self.path.clone().unwrap_or(Path::new("volumes").join(name)));
        let kind = match self.consistency {
            Consistency::Sqlite => self.sqlite(reader, at, name)?,
            Consistency::Postgres => VolumeKind::Postgres(self.postgres(reader, at, name)?),
            Consistency::Generic => {
                let named = self.services.unwrap_or_default();
                if let Some(unknown) = named.iter().find(|service| !services.contains(*service)) {
                    let problem =
                        format!("volume {name:?} names the service {unknown:?}, which has no table");
                    return Err(reader.failure(at, &problem));
                }
                VolumeKind::Generic { services: named }
            }
        };
        Ok(Volume { path, docker_volume, kind })
    }

    fn require_fitting_keys(&self, reader: &Reader<'_>, at: usize, name: &str) -> Result<(), Failure> {
        let (sqlite, postgres, generic) = (Consistency::Sqlite, Consistency::Postgres, Consistency::Generic);
        for (is_set, key, of) in [
            (self.files.is_some(), "files", &[sqlite][..]),
            (self.wait.is_some(), "wait", &[sqlite]),
            (self.services.is_some(), "services", &[generic]),
            (self.docker_volume.is_some(), "docker_volume", &[generic, sqlite]),
            (self.url.is_some(), "url", &[postgres]),
            (self.container.is_some(), "container", &[postgres]),
            (self.databases.is_some(), "databases", &[postgres]),
            (self.globals.is_some(), "globals", &[postgres]),
            (self.programs.is_some(), "programs", &[postgres]),
            (self.time_limit.is_some(), "time_limit", &[postgres]),
        ] {
            if is_set && !of.contains(&self.consistency) {
                let words: Vec<String> = of.iter().map(|of| format!("{:?}", of.word())).collect();
                let problem = format!(
                    "volume {name:?} has {key:?}, which goes with consistency = {}",
                    words.join(" or ")
                );
                return Err(reader.failure(at, &problem));
            }
        }
        Ok(())
    }

    fn sqlite(self, reader: &Reader<'_>, at: usize, name: &str) -> Result<VolumeKind, Failure> {
        let files = self.files.unwrap_or_default();
        if let Some(file) = files.iter().find(|file| !is_below(file)) {
            let problem = format!("{} is no path in volume {name:?}", file.display());
            return Err(reader.failure(at, &problem));
        }
        Ok(VolumeKind::Sqlite { files, wait: reader.limit(self.wait.as_ref(), DEFAULT_LIMIT)? })
    }

    fn postgres(self, reader: &Reader<'_>, at: usize, name: &str) -> Result<Postgres, Failure> {
        if self.url.as_deref().is_some_and(has_password) {
            let problem = format!(
                "\"url\" of volume {name:?} has a password, which every user of this host could see; \
                 ~/.pgpass is the place for it"
            );
            return Err(reader.failure(at, &problem));
        }
        if self.container.is_some() && self.programs.is_some() {
            let problem = format!(
                "volume {name:?} has \"programs\" and \"container\": the programs in the container are used"
            );
            return Err(reader.failure(at, &problem));
        }
        let missing = |key| reader.failure(at, &format!("volume {name:?} has no {key:?}"));
        let url = match (self.url, &self.container) {
            (Some(url), _) => url,
            (None, Some(_)) => URL_IN_CONTAINER.to_owned(),
            (None, None) => return Err(missing("url")),
        };
        let databases = self.databases.filter(|all| !all.is_empty());
        let databases = databases.ok_or_else(|| missing("databases"))?;
        if let Some(odd) = databases.iter().find(|name| name.parse::<store::name::Profile>().is_err()) {
            return Err(reader.failure(at, &format!("{odd:?} is no name of a database that can be saved")));
        }
        Ok(Postgres {
            url,
            container: self.container,
            databases,
            globals: self.globals.unwrap_or(true),
            programs: self.programs.map(|path| reader.beside(&path)),
            time_limit: reader.limit(self.time_limit.as_ref(), DEFAULT_DUMP_LIMIT)?,
        })
    }
}

/// Whether a connection string has a password in it.
pub fn has_password(url: &str) -> bool {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    // A string of words may have spaces beside `=`.
    let words: String = url.chars().filter(|c| !c.is_whitespace()).collect();
    user.contains(':') || words.contains("password=")
}

/// Whether a path leads to something below where it begins.
fn is_below(path: &Path) -> bool {
    use std::path::Component;
    path.components().count() > 0 && path.components().all(|part| matches!(part, Component::Normal(_)))
}
