//! `postgres_restore` restores dumps into a server that does not have their databases, or has them empty: all, or none.

use std::{fs, path::Path};

use engine::{Engine, failure::Failure};
use store::{ErrorKind, error::IoContext};

use super::{
    file::Project,
    metadata::{PostgresDump, TableContent},
    postgres::{GLOBALS, content_of_database, path_of},
    postgres_client::Client,
    volume::Postgres,
};

/// Databases that a restore has filled, until all of it is done.
#[derive(Debug)]
pub(super) struct Filled {
    client: Client,
    /// Those that it has made.
    made: Vec<String>,
    /// Those that were there, and empty.
    found: Vec<String>,
}

impl Filled {
    /// Drops what the restore has made, since something else of it has failed.
    pub async fn take_back(self, engine: &Engine) {
        // A program in a container outlives the command that has given it up, and would commit.
        if let Err(problem) = self.client.end_sessions().await {
            tracing::warn!(error = problem.message, "what was given up may still be restored");
        }
        for database in &self.made {
            let sql = format!("DROP DATABASE IF EXISTS \"{database}\"");
            if let Err(problem) = self.client.ask(None, &sql).await {
                engine.warn(&format!(
                    "the database {database} that was restored could not be dropped: {}; `dropdb {database}` does it",
                    problem.message
                ));
            }
        }
        for database in &self.found {
            engine.warn(&format!(
                "the database {database} was there before, and may keep what was restored into it; `dropdb {database}` makes room"
            ));
        }
    }
}

/// Refuses dumps that pstore does not write, and a server that has one of their databases with something in it.
#[crate::boxed]
pub(super) async fn require_room(
    project: &Project,
    (server, target): (&Postgres, &str),
    dumps: &[PostgresDump],
) -> Result<(), Failure> {
    require_our_names(dumps)?;
    absent(&Client::at(project, server, target).await?, dumps).await.map(drop)
}

/// Those of the databases that the server does not have. It has the others empty.
async fn absent<'a>(client: &Client, dumps: &'a [PostgresDump]) -> Result<Vec<&'a str>, Failure> {
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
    Ok(absent)
}

/// Restores dumps in `folder` into a server that has none of these databases, or has them empty. Each is dumped once
/// more and compared. If one fails, those that were made go again.
#[crate::boxed]
pub(super) async fn restore(
    engine: &Engine,
    project: &Project,
    (server, target): (&Postgres, &str),
    folder: &Path,
    dumps: &[PostgresDump],
) -> Result<Filled, Failure> {
    require_our_names(dumps)?;
    require_our_globals(folder)?;
    let client = Client::at(project, server, target).await?;
    let absent = absent(&client, dumps).await?;
    let globals = folder.join(GLOBALS);
    if globals.exists() {
        // Roles that are there already are no failure; one that is missing makes the restore of its tables fail.
        let words = ["-Xq", "-v", "ON_ERROR_STOP=0", "-d", &client.url(None), "-f", "-"];
        client.stream("psql", &words, Some(&globals), &mut |_| Ok(())).await?;
    }
    let mut filled = Filled { client, made: Vec::new(), found: Vec::new() };
    for dump in dumps {
        let is_absent = absent.contains(&dump.database.as_str());
        if let Err(failure) = fill(engine, &mut filled, (dump, is_absent), folder).await {
            filled.take_back(engine).await;
            return Err(failure);
        }
    }
    Ok(filled)
}

/// Makes one database if it is absent, and restores it.
async fn fill(
    engine: &Engine,
    filled: &mut Filled,
    (dump, is_absent): (&PostgresDump, bool),
    folder: &Path,
) -> Result<(), Failure> {
    if is_absent {
        let made = filled.client.ask(None, &creation(dump)?).await;
        let hint = format!(
            "`createdb {}` with a locale that the server has makes it empty; then restore again",
            dump.database
        );
        made.map_err(|failure| failure.hint(hint))?;
    }
    let names = if is_absent { &mut filled.made } else { &mut filled.found };
    names.push(dump.database.clone());
    // Not every server lets its user give databases away.
    if let Some(sql) = gift(dump).filter(|_| is_absent)
        && let Err(failure) = filled.client.ask(None, &sql).await
    {
        engine.warn(&format!(
            "the database {} belongs to the user who restores it, and not to the owner it had: {}",
            dump.database, failure.message
        ));
    }
    restore_one(&filled.client, dump, &folder.join(&dump.path)).await
}

/// The statement that creates a database as it was. An older state does not say how that was, and gets the server's way.
fn creation(dump: &PostgresDump) -> Result<String, Failure> {
    let mut sql = format!("CREATE DATABASE \"{}\" TEMPLATE template0", dump.database);
    for (word, value) in
        [("ENCODING", &dump.encoding), ("LC_COLLATE", &dump.lc_collate), ("LC_CTYPE", &dump.lc_ctype)]
    {
        let Some(value) = value else { continue };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@- ".contains(&byte);
        if !value.bytes().all(is_plain) {
            let message = format!("{value:?} is no {word} of the database {}", dump.database);
            return Err(Failure::new(ErrorKind::Damaged, message));
        }
        sql.push_str(&format!(" {word} '{value}'"));
    }
    Ok(sql)
}

/// The statement that gives a database to the owner that it had.
fn gift(dump: &PostgresDump) -> Option<String> {
    let owner = dump.owner.as_ref()?.replace('"', "\"\"");
    Some(format!("ALTER DATABASE \"{}\" OWNER TO \"{owner}\"", dump.database))
}

/// Refuses dumps that pstore does not write. Their names become part of SQL and of paths: a writer of a store must not command
/// those who restore from it.
fn require_our_names(dumps: &[PostgresDump]) -> Result<(), Failure> {
    let is_ours = |dump: &&PostgresDump| {
        dump.database.parse::<store::name::Profile>().is_ok() && dump.path == path_of(&dump.database)
    };
    match dumps.iter().find(|dump| !is_ours(dump)) {
        None => Ok(()),
        Some(odd) => {
            let message =
                format!("{:?} is no dump of the database {:?} that pstore writes", odd.path, odd.database);
            Err(Failure::new(ErrorKind::Damaged, message))
        }
    }
}

/// Refuses roles with a command: `psql` carries out on this host what stands behind a backslash.
fn require_our_globals(folder: &Path) -> Result<(), Failure> {
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

    /// As an older pstore has written it.
    fn dump(database: &str, path: &str) -> PostgresDump {
        let text = serde_json::json!({
            "database": database, "path": path, "serverVersion": "", "dumpedWith": "", "tables": {}
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_database_is_created_and_given_away_as_it_was_and_nothing_else_is_said_to_the_server() {
        let older = dump("shop", "shop.pgdump");
        assert_eq!(creation(&older).unwrap(), "CREATE DATABASE \"shop\" TEMPLATE template0");
        let is = |text: &str| Some(text.to_owned());
        let whole = PostgresDump {
            owner: is("a \"clerk\"; x"),
            encoding: is("LATIN1"),
            lc_collate: is("de_DE.ISO8859-15@euro"),
            lc_ctype: is("C"),
            ..older
        };
        assert_eq!(
            creation(&whole).unwrap(),
            "CREATE DATABASE \"shop\" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'de_DE.ISO8859-15@euro' \
             LC_CTYPE 'C'"
        );
        assert_eq!(gift(&whole).unwrap(), "ALTER DATABASE \"shop\" OWNER TO \"a \"\"clerk\"\"; x\"");
        for odd in ["C'; DROP DATABASE orders; --", "C\\"] {
            for hostile in [
                PostgresDump { encoding: is(odd), ..whole.clone() },
                PostgresDump { lc_collate: is(odd), ..whole.clone() },
                PostgresDump { lc_ctype: is(odd), ..whole.clone() },
            ] {
                creation(&hostile).unwrap_err();
            }
        }
    }

    #[test]
    fn a_foreign_dump_commands_nobody_who_restores_it() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |dumps: &[PostgresDump]| require_our_names(dumps).is_err();
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
        let refused = || require_our_globals(folder.path()).is_err();
        assert!(!refused());
        for command in [
            "\\! touch /tmp/x",
            "CREATE ROLE agent; \\! touch /tmp/x",
            "\\restrictx",
            "\\restrict x \\! touch /tmp/x",
            "  \\i file",
        ] {
            fs::write(&globals, format!("CREATE ROLE agent;\n{command}\n")).unwrap();
            assert!(refused(), "{command}");
        }
    }
}
