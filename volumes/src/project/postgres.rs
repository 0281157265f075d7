//! `postgres` dumps databases of a Postgres server, and restores dumps into one.
//!
//! A dump is in the custom format and not compressed: so unchanged rows become chunks that are stored already. What is
//! in a dump is read from the dump itself: the rows of each table, and a digest of them that does not depend on their
//! order. A database that was restored is dumped once more, and has to have the same.

use std::{collections::BTreeMap, fs, path::Path};

use engine::failure::Failure;
use sha2::{Digest, Sha256};
use store::{ErrorKind, error::IoContext};

use super::{
    file::Project,
    metadata::{PostgresDump, TableContent},
    postgres_client::Client,
    volume::Postgres,
};

/// Roles and tablespaces.
const GLOBALS: &str = "globals.sql";

/// Adds the rows of a dump up, line by line.
#[derive(Default)]
struct Tables {
    found: BTreeMap<String, (u64, u128)>,
    within: Option<String>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Tables {
    /// The next piece of the dump's text.
    fn piece(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = piece.split_at(end + 1);
            match self.begun.is_empty() {
                true => self.line(line),
                false => {
                    let mut whole = std::mem::take(&mut self.begun);
                    whole.extend_from_slice(line);
                    self.line(&whole);
                }
            }
            piece = rest;
        }
        self.begun.extend_from_slice(piece);
    }

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

    fn ended(mut self) -> BTreeMap<String, TableContent> {
        let rest = std::mem::take(&mut self.begun);
        if !rest.is_empty() {
            self.line(&rest);
        }
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
#[crate::boxed]
pub async fn dump(project: &Project, server: &Postgres, to: &Path) -> Result<Vec<PostgresDump>, Failure> {
    let client = Client::of(project, server).await?;
    fs::create_dir_all(to).at("cannot make", to)?;
    let server_version = client.ask(None, "SHOW server_version").await?;
    let dumped_with = client.run("pg_dump", &["--version"]).await?.trim_end().to_owned();
    if server.globals {
        let words = ["--globals-only", "--no-password", "--dbname", &client.url(None)];
        client.write("pg_dumpall", &words, &to.join(GLOBALS)).await?;
    }
    let mut dumps = Vec::new();
    for database in &server.databases {
        let path = path_of(database);
        dump_one(&client, database, &to.join(&path)).await?;
        dumps.push(PostgresDump {
            database: database.clone(),
            tables: content(&client, &to.join(&path)).await?,
            path,
            server_version: server_version.clone(),
            dumped_with: dumped_with.clone(),
        });
    }
    Ok(dumps)
}

async fn dump_one(client: &Client, database: &str, to: &Path) -> Result<(), Failure> {
    let words = ["--format=custom", "--compress=0", "--no-password", "--dbname", &client.url(Some(database))];
    client.write("pg_dump", &words, to).await
}

/// What is in a dump.
async fn content(client: &Client, dump: &Path) -> Result<BTreeMap<String, TableContent>, Failure> {
    printed(client, ("pg_restore", &["--data-only", "--file=-"]), Some(dump)).await
}

/// What is in a database. Its rows pass by, and are written nowhere: they may be more than this host has room for.
async fn content_of_database(
    client: &Client,
    database: &str,
) -> Result<BTreeMap<String, TableContent>, Failure> {
    let words = ["--data-only", "--no-password", "--dbname", &client.url(Some(database))];
    printed(client, ("pg_dump", &words), None).await
}

/// What is in the rows that a program prints.
async fn printed(
    client: &Client,
    (program, words): (&str, &[&str]),
    input: Option<&Path>,
) -> Result<BTreeMap<String, TableContent>, Failure> {
    let mut tables = Tables::default();
    let mut sink = |piece: &[u8]| {
        tables.piece(piece);
        Ok(())
    };
    client.stream(program, words, input, &mut sink).await?;
    Ok(tables.ended())
}

/// Restores dumps in `folder` into a server that has none of these databases, or has them empty. Each is dumped once
/// more and compared. If one fails, those that were made go again.
#[crate::boxed]
pub async fn restore(
    project: &Project,
    (server, target): (&Postgres, &str),
    folder: &Path,
    dumps: &[PostgresDump],
) -> Result<(), Failure> {
    require_ours(folder, dumps)?;
    let client = Client::at(project, server, target).await?;
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
        let words = ["-Xq", "-v", "ON_ERROR_STOP=0", "-d", &client.url(None), "-f", "-"];
        client.stream("psql", &words, Some(&globals), &mut |_| Ok(())).await?;
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
            // A program in a container outlives the command that has given it up, and would commit.
            if let Err(problem) = client.end_sessions().await {
                tracing::warn!(error = problem.message, "what was given up may still be restored");
            }
            for database in made {
                let _ = client.ask(None, &format!("DROP DATABASE IF EXISTS \"{database}\"")).await;
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// Refuses dumps that pstore does not write. Their names become part of SQL and of paths, and `psql` carries out what stands
/// behind a backslash on this host: a writer of a store must not command those who restore from it.
fn require_ours(folder: &Path, dumps: &[PostgresDump]) -> Result<(), Failure> {
    let is_ours = |dump: &&PostgresDump| {
        dump.database.parse::<store::name::Profile>().is_ok() && dump.path == path_of(&dump.database)
    };
    if let Some(odd) = dumps.iter().find(|dump| !is_ours(dump)) {
        let message =
            format!("{:?} is no dump of the database {:?} that pstore writes", odd.path, odd.database);
        return Err(Failure::new(ErrorKind::Damaged, message));
    }
    let globals = folder.join(GLOBALS);
    if !globals.exists() {
        return Ok(());
    }
    let text = fs::read(&globals).at("cannot read", &globals)?;
    let mut commands = text.split(|byte| *byte == b'\n').filter(|line| line.contains(&b'\\'));
    let is_known = |line: &[u8]| {
        (line.starts_with(b"\\restrict ") || line.starts_with(b"\\unrestrict "))
            && !line[1..].contains(&b'\\')
    };
    match commands.find(|line| !is_known(line)) {
        None => Ok(()),
        Some(line) => {
            let line = line.escape_ascii();
            let message =
                format!("the roles of the state have a command for psql, which is not carried out: {line}");
            Err(Failure::new(ErrorKind::Damaged, message)
                .hint("restore the files with --to, look at globals.sql, and give it to psql yourself"))
        }
    }
}

/// Where the dump of a database is in the volume.
fn path_of(database: &str) -> String {
    format!("{database}.pgdump")
}

/// How many tables and the like users have made.
const TABLES: &str = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'";

async fn restore_one(client: &Client, dump: &PostgresDump, file: &Path) -> Result<(), Failure> {
    let url = client.url(Some(&dump.database));
    let words = ["--exit-on-error", "--single-transaction", "--no-password", "--dbname", &url];
    client.stream("pg_restore", &words, Some(file), &mut |_| Ok(())).await?;
    let found = content_of_database(client, &dump.database).await?;
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

    fn dump(database: &str, path: &str) -> PostgresDump {
        let (database, path) = (database.to_owned(), path.to_owned());
        let (server_version, dumped_with) = (String::new(), String::new());
        PostgresDump { database, path, server_version, dumped_with, tables: BTreeMap::new() }
    }

    #[test]
    fn a_foreign_dump_commands_nobody_who_restores_it() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |dumps: &[PostgresDump]| require_ours(folder.path(), dumps).is_err();
        assert!(!refused(&[dump("orders", "orders.pgdump")]));
        for (database, path) in [
            ("orders", "/etc/passwd"),
            ("orders", "../orders.pgdump"),
            ("orders' host=elsewhere", "orders' host=elsewhere.pgdump"),
            ("x\"; DROP DATABASE orders; --", "x\"; DROP DATABASE orders; --.pgdump"),
        ] {
            assert!(refused(&[dump(database, path)]), "{database} {path}");
        }
        let globals = folder.path().join(GLOBALS);
        fs::write(&globals, "\\restrict abc\nCREATE ROLE agent;\n\\unrestrict abc\n").unwrap();
        assert!(!refused(&[]));
        for command in [
            "\\! touch /tmp/x",
            "CREATE ROLE agent; \\! touch /tmp/x",
            "\\restrictx",
            "\\restrict x \\! touch /tmp/x",
            "  \\i file",
        ] {
            fs::write(&globals, format!("CREATE ROLE agent;\n{command}\n")).unwrap();
            assert!(refused(&[]), "{command}");
        }
    }

    #[test]
    fn rows_are_counted_and_their_order_does_not_matter() {
        let count = |text: &str| {
            let mut tables = Tables::default();
            // However it comes.
            text.as_bytes().chunks(3).for_each(|piece| tables.piece(piece));
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
