//! What was found, by object and reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Error, ErrorKind, Result};

/// How many damaged files are named; the rest are counted.
const NAMED_FILES: usize = 20;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub object: String,
    pub reason: String,
    /// Short names of the snapshots that need the object.
    pub snapshots: Vec<String>,
    /// Files that cannot be restored because of it, at most a few.
    pub files: Vec<String>,
    pub more_files: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Findings(BTreeMap<(String, String), Finding>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Finding {
    snapshots: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes damage; any other error ends the check.
    pub(super) fn damaged(&mut self, error: Error, snapshot: &str, file: Option<&str>) -> Result<()> {
        if !is_damage(&error) {
            return Err(error);
        }
        match &error {
            Error::Damaged { object, reason } => self.find(object, reason, snapshot, file),
            Error::Missing { object, by } => {
                self.find(object, format!("it is missing, though {by}"), snapshot, file);
            }
            error => self.find("the store", error, snapshot, file),
        }
        Ok(())
    }

    pub(super) fn find(
        &mut self,
        object: impl ToString,
        reason: impl ToString,
        snapshot: &str,
        file: Option<&str>,
    ) {
        let finding = self.0.entry((object.to_string(), reason.to_string())).or_default();
        if !snapshot.is_empty() {
            finding.snapshots.insert(snapshot.to_owned());
        }
        finding.files.extend(file.map(ToOwned::to_owned));
    }

    pub(super) fn add(&mut self, other: Self) {
        for (what, finding) in other.0 {
            let known = self.0.entry(what).or_default();
            known.snapshots.extend(finding.snapshots);
            known.files.extend(finding.files);
        }
    }

    /// What is not among `later` ones.
    pub(super) fn without(mut self, later: &Self) -> Self {
        self.0.retain(|what, _| !later.0.contains_key(what));
        self
    }

    pub(super) fn told(self) -> Vec<Damage> {
        self.0.into_iter().map(damage).collect()
    }
}

/// A newer format is a finding too: the rest can still be checked.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat)
}

/// Whether content is lost. What only a newer pstore can read is not.
pub(super) fn is_loss(error: &Error) -> bool {
    error.kind() == ErrorKind::Damaged
}

fn damage(((object, reason), finding): ((String, String), Finding)) -> Damage {
    let more_files = finding.files.len().saturating_sub(NAMED_FILES) as u64;
    let files = finding.files.into_iter().take(NAMED_FILES).collect();
    Damage { object, reason, snapshots: finding.snapshots.into_iter().collect(), files, more_files }
}
