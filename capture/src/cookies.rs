//! `cookies` counts the cookies in a profile's databases by their encryption, which decides where they can be read. It
//! reads copies that an examination has made, and keeps no name and no value.
//!
//! `v10` is encrypted with a key that every Chrome on Linux has, `v11` with one from the
//! desktop's keyring: on another host those are lost.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::db_state::path_as_text;

/// Chrome counts microseconds since 1601.
pub(crate) const MS_FROM_1601_TO_1970: i64 = 11_644_473_600_000;

/// A name that no site can have. A browser that is asked to write its cookies has some of this site for a moment, which
/// are nobody's.
pub(crate) const NOBODY: &str = "pstore.invalid";

/// Whether a file is a part of a database of cookies.
pub(crate) fn is_of_cookies(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| matches!(&*name, "Cookies" | "Cookies-journal" | "Cookies-wal"))
}

/// All cookie databases that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Census {
    pub databases: Vec<Cookies>,
}

/// The cookies in one database. No cookie's name or value is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cookies {
    /// Below the directory examined.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    #[serde(flatten)]
    pub count: Count,
}

/// `rows` is at least the sum of the others; the rest are cookies without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub rows: u64,
    /// Not encrypted.
    pub plain: u64,
    pub v10: u64,
    pub v11: u64,
    /// Encrypted in a way that is not known here.
    pub other: u64,
}

impl Census {
    pub fn total(&self) -> Count {
        self.databases.iter().fold(Count::default(), |sum, Cookies { count, .. }| Count {
            rows: sum.rows.saturating_add(count.rows),
            plain: sum.plain.saturating_add(count.plain),
            v10: sum.v10.saturating_add(count.v10),
            v11: sum.v11.saturating_add(count.v11),
            other: sum.other.saturating_add(count.other),
        })
    }
}

/// Counts the cookies in a database; `None` if it is no cookie database, which its schema
/// tells, or cannot be read, which its check tells.
pub(crate) fn count(connection: &Connection) -> Option<Count> {
    let columns: i64 = connection
        .query_row(
            "SELECT count(*) FROM pragma_table_info('cookies')
             WHERE name IN ('host_key', 'value', 'encrypted_value')",
            [],
            |row| row.get(0),
        )
        .ok()?;
    if columns != 3 {
        return None;
    }
    let count = connection.query_row(
        "WITH kinds AS (
           SELECT length(value) > 0 AS plain, length(encrypted_value) > 0 AS encrypted,
                  CAST(substr(encrypted_value, 1, 3) AS BLOB) AS prefix
           FROM cookies WHERE host_key IS NOT ?1)
         SELECT count(*), total(plain AND NOT encrypted), total(encrypted AND prefix = x'763130'),
                total(encrypted AND prefix = x'763131'),
                total(encrypted AND prefix NOT IN (x'763130', x'763131'))
         FROM kinds",
        [NOBODY],
        |row| {
            let number = |at| row.get::<_, f64>(at).map(|value| value as u64);
            Ok(Count {
                rows: row.get::<_, i64>(0)?.unsigned_abs(),
                plain: number(1)?,
                v10: number(2)?,
                v11: number(3)?,
                other: number(4)?,
            })
        },
    );
    count.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_counted_by_their_encryption() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(count(&connection), None);
        connection
            .execute_batch(
                "CREATE TABLE cookies (host_key TEXT, value TEXT, encrypted_value BLOB);
                 INSERT INTO cookies VALUES
                   ('a', 'open', x''), ('b', '', x'763130aa'), ('c', '', x'763130bb'),
                   ('d', '', x'763131aa'), ('e', '', x'01'), ('f', '', x''), (NULL, NULL, NULL),
                   ('pstore.invalid', '', x'763130aa');",
            )
            .unwrap();
        let counted = count(&connection).unwrap();
        assert_eq!(counted, Count { rows: 7, plain: 1, v10: 2, v11: 1, other: 1 });
        let cookies = Cookies { path: "x".into(), count: counted };
        let census = Census { databases: vec![cookies.clone(), cookies] };
        assert_eq!(census.total().rows, 14);
        connection.execute_batch("DELETE FROM cookies").unwrap();
        assert_eq!(count(&connection), Some(Count::default()));
    }
}
