//! `ArchiveInspector` examines a profile that comes in an archive. The import writes only the files that it asks
//! for to disk.

use std::path::Path;

use store::{
    Result,
    format::record::Record,
    ops::{
        archive::import::{Inspected, Inspector},
        write::snapshot::Examiner,
    },
};

use crate::{
    chrome::profile::{Facts, LOCAL_STATE},
    examined_files::is_of_a_database,
    examiner::ProfileExaminer,
    expect::is_wanted,
    sqlite::header::HEADER_BYTES,
};

/// The files at the top of a profile that hold facts about it.
const TOLD_AT_THE_TOP: [&str; 2] = ["Last Version", LOCAL_STATE];
const PREFERENCES: &str = "Preferences";

/// Looks at the files that an examination of a directory would look at. One kind of database it cannot
/// know before it has passed: one with a journal beside it that does not begin as a database.
#[derive(Clone, Debug)]
pub struct ArchiveInspector(pub ProfileExaminer);

impl Inspector for ArchiveInspector {
    fn head_bytes(&self) -> usize {
        HEADER_BYTES
    }

    fn wants(&self, path: &Path, head: &[u8]) -> bool {
        let Some(name) = path.file_name() else { return false };
        let depth = path.components().count();
        if depth == 1 && TOLD_AT_THE_TOP.iter().any(|told| *told == name) || depth == 2 && name == PREFERENCES
        {
            return true;
        }
        if self.0.expected.expected().is_some_and(|expected| is_wanted(path, expected)) {
            return true;
        }
        if self.0.policy.depth.is_none() {
            return false;
        }
        is_of_a_database(path, || Some(head.to_vec()))
    }

    fn judge(&self, root: &Path, base: Option<&Record>) -> Result<Inspected> {
        let examined = self.0.examine(root, None, base)?;
        let facts = Facts::read(root);
        Ok(Inspected { examined, chrome_last_version: facts.last_version, exit_type: facts.exit_type })
    }
}
