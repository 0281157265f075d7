//! `Client` runs the programs of PostgreSQL for one server: on this host, or in the container in which the server runs.
//!
//! A dump comes from a program's output and goes to a program's input, so the program may be anywhere.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use engine::failure::Failure;
use store::{
    ErrorKind,
    error::IoContext,
    id::{Nonce, random},
};
use tokio::process::Command;

use super::{containers, file::Project, program, volume::Postgres};
use crate::docker::Docker;

/// Where Debian has the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// What stands before the name of a container where a server is named.
const CONTAINER: &str = "container:";

type Sink<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send);

/// The programs of one server, and how they reach it.
#[derive(Debug)]
pub(super) struct Client {
    url: String,
    place: Place,
    limit: Duration,
    /// What the server takes its programs for.
    session: String,
}

/// Where the programs run.
#[derive(Debug)]
enum Place {
    Host { programs: Option<PathBuf> },
    Container { docker: Docker, container: String },
}

impl Client {
    /// For the server of a volume.
    #[crate::boxed]
    pub async fn of(project: &Project, server: &Postgres) -> Result<Self, Failure> {
        match &server.container {
            Some(container) => Self::within(project, server, container).await,
            None => Ok(Self::from_here(server, &server.url)),
        }
    }

    /// For another server that has or gets the databases of a volume: a connection string, or `container:` and the
    /// name of a container.
    #[crate::boxed]
    pub async fn at(project: &Project, server: &Postgres, target: &str) -> Result<Self, Failure> {
        match target.strip_prefix(CONTAINER) {
            Some(container) => Self::within(project, server, container).await,
            None => Ok(Self::from_here(server, target)),
        }
    }

    fn from_here(server: &Postgres, url: &str) -> Self {
        let place = Place::Host { programs: server.programs.clone().or_else(newest) };
        Self { url: url.to_owned(), place, limit: server.time_limit, session: session() }
    }

    async fn within(project: &Project, server: &Postgres, container: &str) -> Result<Self, Failure> {
        let docker = containers::connect(project).await?;
        let place = Place::Container { docker, container: container.to_owned() };
        Ok(Self { url: server.url.clone(), place, limit: server.time_limit, session: session() })
    }

    /// The connection string of the server, or of one of its databases.
    pub fn url(&self, database: Option<&str>) -> String {
        database.map_or_else(|| self.url.clone(), |name| with_database(&self.url, name))
    }

    /// Runs a program that must succeed; the beginning of what it has printed.
    #[crate::boxed]
    pub async fn run(&self, program: &str, words: &[&str]) -> Result<String, Failure> {
        let mut printed = Vec::new();
        let mut keep = |piece: &[u8]| {
            printed.extend_from_slice(&piece[..piece.len().min(MOST_PRINTED - printed.len())]);
            Ok(())
        };
        self.stream(program, words, None, &mut keep).await?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// Asks the server, or one of its databases.
    #[crate::boxed]
    pub async fn ask(&self, database: Option<&str>, sql: &str) -> Result<String, Failure> {
        let url = self.url(database);
        let words = ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", sql];
        Ok(self.run("psql", &words).await?.trim_end().to_owned())
    }

    /// Ends what programs of this client that were given up do at the server yet: it would finish that for nobody. Returns when
    /// nothing of it is left.
    #[crate::boxed]
    pub async fn end_sessions(&self) -> Result<(), Failure> {
        let others = format!("application_name = '{}' AND pid <> pg_backend_pid()", self.session);
        let end = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {others}");
        let began = Instant::now();
        while self.ask(None, &end).await? != "0" {
            if began.elapsed() >= SESSIONS_END {
                let message = "the server goes on with what was given up".to_owned();
                return Err(Failure::new(ErrorKind::InUse, message));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Runs a program, and writes what it prints to a new file.
    #[crate::boxed]
    pub async fn write(&self, program: &str, words: &[&str], to: &Path) -> Result<(), Failure> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(to).at("cannot make", to)?);
        let mut sink = |piece: &[u8]| Ok(file.write_all(piece).at("cannot write", to)?);
        self.stream(program, words, None, &mut sink).await?;
        Ok(file.flush().at("cannot write", to)?)
    }

    /// Runs a program with a file as its input, and hands what it prints to `sink`.
    pub async fn stream(
        &self,
        program: &str,
        words: &[&str],
        input: Option<&Path>,
        sink: Sink<'_>,
    ) -> Result<(), Failure> {
        match &self.place {
            Place::Host { programs } => {
                let path = programs.as_ref().map_or_else(|| program.into(), |folder| folder.join(program));
                let mut command = command(&path);
                command.args(words).env(SESSION, &self.session);
                if let Some(input) = input {
                    command.stdin(File::open(input).at("cannot read", input)?);
                }
                program::stream(&mut command, self.limit, sink).await?.map_err(|problem| {
                    let failure = Failure::new(ErrorKind::CommandFailed, format!("{program} {problem}"));
                    match problem.contains("cannot be started") {
                        true => failure.hint(
                            "install the programs of PostgreSQL (postgresql-client), or name their folder with `programs`",
                        ),
                        false => failure.hint(
                            "check `url`, and whether the server runs; ~/.pgpass or PGPASSFILE is the place of a password",
                        ),
                    }
                })
            }
            Place::Container { docker, container } => {
                let words: Vec<&str> = [program].into_iter().chain(words.iter().copied()).collect();
                let session = format!("{SESSION}={}", self.session);
                let ended =
                    docker.exec(container, (&[session.as_str()], &words), input, sink, self.limit).await?;
                match ended.code {
                    0 => Ok(()),
                    code => {
                        let message = format!(
                            "{program} failed in the container {container} (exit code {code}): {}",
                            ended.said
                        );
                        Err(Failure::new(ErrorKind::CommandFailed, message).hint(match code {
                            126 | 127 => {
                                format!("the container needs {program}, as the image of PostgreSQL has it")
                            }
                            _ => {
                                format!("check `url`, and whether the server runs: `docker logs {container}`")
                            }
                        }))
                    }
                }
            }
        }
    }
}

/// The variable by which a server learns what a program calls itself.
const SESSION: &str = "PGAPPNAME";
/// How long a server may take to end what it was told to.
const SESSIONS_END: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn session() -> String {
    format!("pstore-{}", Nonce::from_bytes(random()))
}

/// How much of what a program prints is kept where that is an answer.
const MOST_PRINTED: usize = 64 << 10;

fn command(path: &Path) -> Command {
    let mut command = program::command(path);
    // Where passwords and certificates are.
    command.envs(std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")));
    command
}

/// Debian has the programs of each version in a folder of its own; `pg_dump` on the path may be older than the server.
fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.split('.').next()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("pg_dump").exists().then_some((number, programs))
    });
    numbered.max().map(|(_, programs)| programs)
}

/// The connection string with another database.
fn with_database(url: &str, database: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return format!("{url} dbname='{database}'") };
    let (place, parameters) = rest
        .split_once('?')
        .map_or((rest, String::new()), |(place, parameters)| (place, format!("?{parameters}")));
    let host = place.split('/').next().unwrap_or_default();
    format!("{scheme}://{host}/{database}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_gets_another_database() {
        for (url, expected) in [
            ("postgresql://postgres@/postgres?host=/run", "postgresql://postgres@/shop?host=/run"),
            ("postgres://db.example:5433", "postgres://db.example:5433/shop"),
            ("host=/run user=x", "host=/run user=x dbname='shop'"),
        ] {
            assert_eq!(with_database(url, "shop"), expected);
        }
    }
}
