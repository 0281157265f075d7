//! `postgres` dumps databases of a Postgres server, and restores dumps into one.
//!
//! A dump is in the custom format and not compressed: so unchanged rows become chunks that are stored already. What is
//! in a dump is read from the dump itself: the rows of each table, and a digest of them that does not depend on their
//! order. A database that was restored is dumped once more, and has to have the same.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use engine::failure::Failure;
use sha2::{Digest, Sha256};
use store::{ErrorKind, error::IoContext};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use super::{
    file::Postgres,
    metadata::{PostgresDump, TableContent},
    program,
};

/// Roles and tablespaces.
const GLOBALS: &str = "globals.sql";
const DEBIAN: &str = "/usr/lib/postgresql";

/// The programs of one server, and how they reach it.
#[derive(Debug)]
struct Client<'a> {
    url: &'a str,
    programs: Option<PathBuf>,
    limit: Duration,
}

impl<'a> Client<'a> {
    fn new(server: &'a Postgres, url: &'a str) -> Self {
        Self { url, programs: server.programs.clone().or_else(newest), limit: server.time_limit }
    }

    fn command(&self, program: &str) -> Command {
        let path = self.programs.as_ref().map_or_else(|| program.into(), |folder| folder.join(program));
        let mut command = program::command(&path);
        // Where passwords and certificates are.
        command.envs(std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")));
        command
    }

    /// Runs a program that must succeed; what it has printed.
    async fn run(&self, program: &str, words: &[&str]) -> Result<String, Failure> {
        let mut command = self.command(program);
        command.args(words);
        program::output(&mut command, self.limit).await.map_err(|problem| {
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

    async fn ask(&self, database: Option<&str>, sql: &str) -> Result<String, Failure> {
        let url = database.map_or_else(|| self.url.to_owned(), |name| with_database(self.url, name));
        let words = ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", sql];
        Ok(self.run("psql", &words).await?.trim_end().to_owned())
    }

    async fn dump(&self, database: &str, to: &Path) -> Result<(), Failure> {
        let (url, file) = (with_database(self.url, database), to.display().to_string());
        let words = ["--format=custom", "--compress=0", "--no-password", "--file", &file, "--dbname", &url];
        self.run("pg_dump", &words).await.map(drop)
    }

    /// What is in a dump.
    async fn content(&self, dump: &Path) -> Result<BTreeMap<String, TableContent>, Failure> {
        let failed = |problem: String| {
            Failure::new(
                ErrorKind::CommandFailed,
                format!("pg_restore cannot read {}: {problem}", dump.display()),
            )
        };
        let mut command = self.command("pg_restore");
        command.args(["--data-only", "--file=-"]).arg(dump).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let Some(stdout) = child.stdout.take() else { return Err(failed("it says nothing".to_owned())) };
        let reading = async {
            let (mut reader, mut line, mut tables) =
                (BufReader::with_capacity(1 << 20, stdout), Vec::new(), Tables::default());
            while reader.read_until(b'\n', &mut line).await? > 0 {
                tables.line(&line);
                line.clear();
            }
            Ok::<_, std::io::Error>((tables.ended(), child.wait().await?))
        };
        let (tables, status) = tokio::time::timeout(self.limit, reading)
            .await
            .map_err(|_| failed(format!("it took longer than {} s", self.limit.as_secs_f64())))?
            .map_err(|error| failed(error.to_string()))?;
        status.success().then_some(tables).ok_or_else(|| failed(status.to_string()))
    }
}

/// Debian has the programs of each version in a folder of its own; `pg_dump` on the path may be older than the server.
fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| {
        let number: u64 = entry.file_name().to_str()?.split('.').next()?.parse().ok()?;
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

/// Adds the rows of a dump up, line by line.
#[derive(Default)]
struct Tables {
    found: BTreeMap<String, (u64, u128)>,
    within: Option<String>,
}

impl Tables {
    fn line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match self.within.take() {
            None => self.within = std::str::from_utf8(line).ok().and_then(begun),
            Some(_) if line == b"\\." => {}
            Some(table) => {
                let mut half = [0; 16];
                half.copy_from_slice(&Sha256::digest(line)[..16]);
                let (rows, sum) = self.found.entry(table.clone()).or_default();
                *rows += 1;
                *sum = sum.wrapping_add(u128::from_be_bytes(half));
                self.within = Some(table);
            }
        }
        if let Some(table) = &self.within {
            self.found.entry(table.clone()).or_default();
        }
    }

    fn ended(self) -> BTreeMap<String, TableContent> {
        let content = |(rows, sum)| TableContent { rows, digest: format!("{sum:032x}") };
        self.found.into_iter().map(|(table, found)| (table, content(found))).collect()
    }
}

/// The table whose rows begin after this line.
fn begun(line: &str) -> Option<String> {
    let table = line.strip_prefix("COPY ")?.strip_suffix(" FROM stdin;")?;
    Some(table.rsplit_once(" (").map_or(table, |(table, _)| table).to_owned())
}

/// Dumps the databases of a volume to a folder.
pub async fn dump(server: &Postgres, to: &Path) -> Result<Vec<PostgresDump>, Failure> {
    let client = Client::new(server, &server.url);
    fs::create_dir_all(to).at("cannot make", to)?;
    let server_version = client.ask(None, "SHOW server_version").await?;
    let dumped_with = client.run("pg_dump", &["--version"]).await?.trim_end().to_owned();
    if server.globals {
        let file = to.join(GLOBALS).display().to_string();
        let words = ["--globals-only", "--no-password", "--file", &file, "--dbname", &server.url];
        client.run("pg_dumpall", &words).await?;
    }
    let mut dumps = Vec::new();
    for database in &server.databases {
        let path = format!("{database}.pgdump");
        client.dump(database, &to.join(&path)).await?;
        dumps.push(PostgresDump {
            database: database.clone(),
            tables: client.content(&to.join(&path)).await?,
            path,
            server_version: server_version.clone(),
            dumped_with: dumped_with.clone(),
        });
    }
    Ok(dumps)
}

/// Restores dumps in `folder` into a server that has none of these databases, or has them empty. Each is dumped once
/// more and compared. If one fails, those that were made go again.
pub async fn restore(
    server: &Postgres,
    url: &str,
    folder: &Path,
    dumps: &[PostgresDump],
) -> Result<(), Failure> {
    let client = Client::new(server, url);
    let mut absent = Vec::new();
    for PostgresDump { database, .. } in dumps {
        let sql = format!("SELECT count(*) FROM pg_database WHERE datname = '{database}'");
        if client.ask(None, &sql).await? == "0" {
            absent.push(database.as_str());
        } else if client.ask(Some(database), TABLES).await? != "0" {
            let message = format!("the database {database} of the server is there, and not empty");
            return Err(Failure::new(ErrorKind::TargetExists, message)
                .hint(format!("`dropdb {database}` or `ALTER DATABASE {database} RENAME TO …` makes room")));
        }
    }
    let globals = folder.join(GLOBALS);
    if globals.exists() {
        // Roles that are there already are no failure; one that is missing makes the restore of its tables fail.
        let file = globals.display().to_string();
        client.run("psql", &["-Xq", "-v", "ON_ERROR_STOP=0", "-d", url, "-f", &file]).await?;
    }
    let mut made = Vec::new();
    for dump in dumps {
        let restored = async {
            if absent.contains(&dump.database.as_str()) {
                client
                    .ask(None, &format!("CREATE DATABASE \"{}\" TEMPLATE template0", dump.database))
                    .await?;
                made.push(dump.database.as_str());
            }
            restore_one(&client, dump, &folder.join(&dump.path)).await
        };
        if let Err(failure) = restored.await {
            for database in made {
                let _ = client.ask(None, &format!("DROP DATABASE IF EXISTS \"{database}\"")).await;
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// How many tables and the like users have made.
const TABLES: &str = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'";

async fn restore_one(client: &Client<'_>, dump: &PostgresDump, file: &Path) -> Result<(), Failure> {
    let (url, path) = (with_database(client.url, &dump.database), file.display().to_string());
    let words = ["--exit-on-error", "--single-transaction", "--no-password", "--dbname", &url, &path];
    client.run("pg_restore", &words).await?;
    let again = tempfile::Builder::new().prefix("pstore-again-").tempfile();
    let again = again.map_err(|error| Failure::new(ErrorKind::Io, format!("cannot make a file: {error}")))?;
    client.dump(&dump.database, again.path()).await?;
    let found = client.content(again.path()).await?;
    let differs = |(table, saved): &(&String, &TableContent)| found.get(*table) != Some(*saved);
    let Some((table, saved)) = dump.tables.iter().find(differs) else {
        return match found.keys().find(|table| !dump.tables.contains_key(*table)) {
            None => Ok(()),
            Some(table) => Err(differing(dump, &format!("table {table} was not saved"))),
        };
    };
    let rows = found.get(table).map_or(0, |content| content.rows);
    Err(differing(dump, &format!("table {table} has {rows} rows, and had {} when it was saved", saved.rows)))
}

fn differing(dump: &PostgresDump, problem: &str) -> Failure {
    let message =
        format!("the database {} that was restored is not the one that was saved: {problem}", dump.database);
    Failure::new(ErrorKind::IntegrityFailed, message).hint("see whether somebody wrote to it meanwhile")
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

    #[test]
    fn rows_are_counted_and_their_order_does_not_matter() {
        let count = |text: &str| {
            let mut tables = Tables::default();
            text.lines().for_each(|line| tables.line(format!("{line}\n").as_bytes()));
            tables.ended()
        };
        let one = count(
            "--\nCOPY public.a (x, y) FROM stdin;\n1\tx\n2\ty\n\\.\n\nCOPY public.b (n) FROM stdin;\n\\.\n",
        );
        assert_eq!(one["public.a"].rows, 2);
        assert_eq!(one["public.b"].rows, 0);
        let other = count("COPY public.a (x, y) FROM stdin;\n2\ty\n1\tx\n\\.\n");
        assert_eq!(other["public.a"], one["public.a"]);
        assert_ne!(count("COPY public.a (x, y) FROM stdin;\n2\ty\n2\ty\n\\.\n")["public.a"], one["public.a"]);
    }
}
