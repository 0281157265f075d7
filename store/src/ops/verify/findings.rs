//! Collects the findings, by object and reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Error, ErrorKind, Result, name::Lineage};

/// How many damaged files are named; the rest are counted.
const NAMED_FILES: usize = 20;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged object.
    pub object: String,
    /// The fault in it.
    pub reason: String,
    /// Short names of the snapshots that need the object.
    pub snapshots: Vec<String>,
    /// Files that cannot be restored because of it, at most a few.
    pub files: Vec<String>,
    /// How many files are hit beside those that are named.
    pub more_files: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Findings {
    all: BTreeMap<(String, String), Finding>,
    /// The lineage of the findings that come next.
    lineage: Option<Lineage>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Finding {
    snapshots: BTreeSet<String>,
    files: BTreeSet<String>,
    lineages: BTreeSet<Lineage>,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Attributes the findings from now on to this lineage, or to none.
    pub(super) fn are_of(&mut self, lineage: Option<&Lineage>) {
        self.lineage = lineage.cloned();
    }

    /// How many are of a lineage.
    pub(super) fn of(&self, lineage: &Lineage) -> u64 {
        self.all.values().filter(|finding| finding.lineages.contains(lineage)).count() as u64
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
        let finding = self.all.entry((object.to_string(), reason.to_string())).or_default();
        finding.lineages.extend(self.lineage.clone());
        if !snapshot.is_empty() {
            finding.snapshots.insert(snapshot.to_owned());
        }
        finding.files.extend(file.map(ToOwned::to_owned));
    }

    pub(super) fn add(&mut self, other: Self) {
        for (what, finding) in other.all {
            let known = self.all.entry(what).or_default();
            known.lineages.extend(finding.lineages);
            known.snapshots.extend(finding.snapshots);
            known.files.extend(finding.files);
        }
    }

    /// The findings that are not among `later` ones.
    pub(super) fn without(mut self, later: &Self) -> Self {
        self.all.retain(|what, _| !later.all.contains_key(what));
        self
    }

    pub(super) fn told(self) -> Vec<Damage> {
        self.all.into_iter().map(damage).collect()
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
