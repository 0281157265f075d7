//! `postgres` dumps databases of a Postgres server.
//!
//! A dump is in the custom format and not compressed: so unchanged rows become chunks that are stored already. What is
//! in a dump is read from the dump itself: the rows of each table, and a digest of them that does not depend on their
//! order. A database that was restored is dumped once more, and has to have the same.

use std::{collections::BTreeMap, fs, path::Path};

use engine::failure::Failure;
use sha2::{Digest, Sha256};
use store::error::IoContext;

use super::{
    file::Project,
    metadata::{PostgresDump, TableContent},
    postgres_client::Client,
    volume::Postgres,
};

/// Roles and tablespaces.
pub(super) const GLOBALS: &str = "globals.sql";

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
        let [encoding, lc_collate, lc_ctype, owner] = properties(&client, database).await?;
        dumps.push(PostgresDump {
            database: database.clone(),
            tables: content(&client, &to.join(&path)).await?,
            path,
            server_version: server_version.clone(),
            dumped_with: dumped_with.clone(),
            owner,
            encoding,
            lc_collate,
            lc_ctype,
        });
    }
    Ok(dumps)
}

/// With what a database was created: its encoding, the locales by which it sorts and tells kinds of characters, and its owner.
async fn properties(client: &Client, database: &str) -> Result<[Option<String>; 4], Failure> {
    let sql = format!(
        "SELECT pg_encoding_to_char(encoding), datcollate, datctype, pg_get_userbyid(datdba) \
         FROM pg_database WHERE datname = '{database}'"
    );
    let told = client.ask(None, &sql).await?;
    // The owner comes last: its name may have a bar.
    let mut parts = told.splitn(4, '|');
    Ok(std::array::from_fn(|_| parts.next().filter(|part| !part.is_empty()).map(ToOwned::to_owned)))
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
pub(super) async fn content_of_database(
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

/// Where the dump of a database is in the volume.
pub(super) fn path_of(database: &str) -> String {
    format!("{database}.pgdump")
}

#[cfg(test)]
mod tests {
    use super::*;

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
