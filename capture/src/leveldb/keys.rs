//! `keys` lists the keys of a LevelDB, with when each was written. It keeps no value.
//!
//! A key may appear several times: the last write counts.

use std::{io, ops::ControlFlow, path::Path};

use super::{
    check::made_of,
    decode::Input,
    log::{self, End},
    table::{self, TableError},
};
use crate::{
    db_state::{DbState, Deadline},
    profile_dir::ProfileDir,
};

/// A batch that is longer is not read: LevelDB's writers put together a megabyte at most, and one
/// value of a site's is at most ten.
const MAX_BATCH_BYTES: usize = 32 << 20;
/// A sequence number and a count.
const BATCH_HEADER_BYTES: usize = 12;
/// After every key of a table: its sequence number and kind.
const TAG_BYTES: usize = 8;
const DELETION: u8 = 0;
const VALUE: u8 = 1;

/// One write of a key, or its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWrite<'a> {
    pub key: &'a [u8],
    /// A later write has a larger one.
    pub sequence: u64,
    /// Else it was removed then.
    pub is_value: bool,
}

/// Tells every key of the database at `path`. An error says why not all of them could be told.
pub fn keys(
    dir: &ProfileDir,
    path: &Path,
    deadline: Deadline,
    mut tell: impl FnMut(KeyWrite<'_>),
) -> Result<(), String> {
    let failed = |error: io::Error| format!("it cannot be read: {error}");
    let (files, version) = match made_of(dir, path, deadline).map_err(failed)? {
        Ok(made_of) => made_of,
        Err(DbState::Ok) => return Ok(()),
        Err(DbState::Damaged(problems)) => return Err(problems.join("; ")),
        Err(DbState::Unchecked(reason)) => return Err(reason),
    };
    for (_, name) in files.logs.iter().filter(|(number, _)| version.needs_log(**number)) {
        let Some(file) = dir.file(&path.join(name)).map_err(failed)? else { continue };
        of_log(io::Read::take(&file, file.metadata().map_err(failed)?.len()), deadline, &mut tell)
            .map_err(failed)?
            .map_err(|why| format!("{}: {why}", name.display()))?;
    }
    for (number, _) in version.tables() {
        let Some((_, name)) = files.tables.get(&number) else {
            return Err(format!("{number:06}.ldb, which the MANIFEST names, is missing"));
        };
        let Some(file) = dir.file(&path.join(name)).map_err(failed)? else { continue };
        let bytes = file.metadata().map_err(failed)?.len();
        let mut late = false;
        let told = table::keys(&file, bytes, |key| {
            late = deadline.passed();
            let Some(told) = of_table(key).filter(|_| !late) else { return ControlFlow::Break(()) };
            tell(told);
            ControlFlow::Continue(())
        });
        match told.map_err(failed)? {
            _ if late => return Err("the time to read it ran out".to_owned()),
            Ok(()) => {}
            Err(TableError::Damaged(what) | TableError::Unknown(what)) => {
                return Err(format!("{}: {what}", name.display()));
            }
            Err(TableError::OutOfTime) => return Err("the time to read it ran out".to_owned()),
        }
    }
    Ok(())
}

/// A key of a table and the tag behind it.
fn of_table(key: &[u8]) -> Option<KeyWrite<'_>> {
    let (key, tag) = key.split_at_checked(key.len().checked_sub(TAG_BYTES)?)?;
    let tag = u64::from_le_bytes(tag.try_into().ok()?);
    Some(KeyWrite { key, sequence: tag >> 8, is_value: tag as u8 == VALUE })
}

fn of_log(
    file: impl io::Read,
    deadline: Deadline,
    tell: &mut impl FnMut(KeyWrite<'_>),
) -> io::Result<Result<(), String>> {
    let mut wrong = None;
    let end = log::read(file, MAX_BATCH_BYTES, deadline, |record| {
        if wrong.is_some() {
            return;
        }
        if record.bytes > MAX_BATCH_BYTES as u64 {
            wrong = Some("a batch is too large to be read");
        } else if of_batch(record.prefix, deadline, tell).is_none() {
            wrong = Some("a record is no batch of changes");
        }
    })?;
    Ok(match (end, wrong) {
        (_, Some(wrong)) => Err(wrong.to_owned()),
        (End::OutOfTime, None) => Err("the time to read it ran out".to_owned()),
        (End::Damaged { offset, what }, None) => Err(format!("{what} at {offset}")),
        (End::Whole | End::Torn { .. }, None) => Ok(()),
    })
}

/// `None` if it is no batch, or there is no time for it.
fn of_batch(batch: &[u8], deadline: Deadline, tell: &mut impl FnMut(KeyWrite<'_>)) -> Option<()> {
    let (header, changes) = batch.split_at_checked(BATCH_HEADER_BYTES)?;
    let mut sequence = u64::from_le_bytes(header[..8].try_into().ok()?);
    let mut input = Input::new(changes);
    while !input.is_empty() && !deadline.passed() {
        let kind = *input.take(1)?.first()?;
        let key = input.string()?;
        match kind {
            VALUE => drop(input.string()?),
            DELETION => {}
            _ => return None,
        }
        tell(KeyWrite { key, sequence, is_value: kind == VALUE });
        sequence = sequence.wrapping_add(1);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use super::{super::writer, *};

    /// The keys that hold, by their last writes.
    fn held(directory: &Path) -> Result<Vec<String>, String> {
        let mut last: BTreeMap<Vec<u8>, (u64, bool)> = BTreeMap::new();
        keys(&ProfileDir::open(directory).unwrap(), Path::new(""), Deadline::NEVER, |told| {
            let before = last.entry(told.key.to_vec()).or_default();
            *before = (*before).max((told.sequence, told.is_value));
        })?;
        let held = last.into_iter().filter(|(_, (_, is_value))| *is_value);
        Ok(held.map(|(key, _)| String::from_utf8_lossy(&key).into_owned()).collect())
    }

    #[test]
    fn keys_of_logs_and_tables_hold_as_they_were_written_last() {
        for compressed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            writer::keyed(
                dir.path(),
                compressed,
                &[("old", 1, true), ("gone", 2, true), ("kept", 3, true)],
                &[("new", 10, true), ("gone", 11, false), ("old", 12, true)],
            );
            assert_eq!(held(dir.path()).unwrap(), ["kept", "new", "old"]);
        }
    }

    #[test]
    fn what_cannot_be_read_whole_is_said() {
        let dir = tempfile::tempdir().unwrap();
        writer::keyed(dir.path(), false, &[("a", 1, true)], &[("b", 2, true)]);
        let log = dir.path().join("000006.log");
        let whole = fs::read(&log).unwrap();
        fs::write(&log, writer::log(&[b"twelve bytes and no kind".to_vec()])).unwrap();
        assert!(held(dir.path()).unwrap_err().contains("no batch"));
        fs::write(&log, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(held(dir.path()).unwrap(), ["a"], "what a writer that died has left is dropped");
        fs::remove_file(dir.path().join("000004.ldb")).unwrap();
        assert!(held(dir.path()).unwrap_err().contains("000004.ldb"));
        fs::remove_file(dir.path().join("CURRENT")).unwrap();
        assert!(held(dir.path()).unwrap_err().contains("CURRENT is missing"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_batch_or_are_refused(
            batch in proptest::collection::vec(0_u8..4, 0..200)
        ) {
            let mut told = 0;
            let _ = of_batch(&batch, Deadline::NEVER, &mut |_| told += 1);
            assert!(told <= batch.len());
        }
    }
}
