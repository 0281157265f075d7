//! `unexamined` checks the databases of a snapshot that nobody has checked, before it is mounted.
//!
//! A mount fetches bytes when a program reads them, and trusts the verdict of the capture. Databases without a
//! verdict are fetched first, and examined as a load does.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use store::{
    Error, Result,
    content::{TenantStore, workers::blocking},
    format::{
        health::{Finding, Health},
        record::{Mode, Record},
    },
    ops::{
        read::{extract, open::Opened},
        write::snapshot::{Examined, Examiner},
    },
    scratch::{self, Scratch},
};

use super::LoadRequest;
use crate::{
    examiner::{Policy, ProfileExaminer},
    listed_files::ListedFiles,
    sqlite::{Depth, header::HEADER_BYTES},
};

/// A mount that would fetch more than this to be sure of its databases starts with an empty profile instead.
const MOST_FETCHED: u64 = 1 << 30;

/// Whether there may be databases in the snapshot that nobody has looked at.
pub fn is_unexamined(record: &Record) -> bool {
    !record.health.as_ref().is_some_and(|health| health.is_verdict() && health.unchecked.is_empty())
}

/// Looks at the databases that nobody has looked at, and notes the findings in the snapshot's record, as it
/// is held here. Fails with [`Error::IntegrityFailed`] if one is damaged. Lists those that could not be
/// checked.
pub async fn examined(
    store: &TenantStore,
    opened: &mut Opened,
    request: &LoadRequest,
) -> Result<Vec<String>> {
    if !is_unexamined(&opened.record) {
        return Ok(Vec::new());
    }
    let before = opened.record.health.clone().filter(Health::is_verdict);
    let unchecked: Option<BTreeSet<PathBuf>> = before
        .as_ref()
        .map(|health| health.unchecked.iter().map(|found| PathBuf::from(&found.path)).collect());
    let numbers: BTreeMap<PathBuf, usize> = extract::files(opened).map(|(at, path)| (path, at)).collect();
    let concerned = unchecked.as_ref().map(|unchecked| concerned(&numbers, unchecked));
    let examiner = examiner(request);
    let chosen = chosen(store, opened, &numbers, concerned.as_ref(), &examiner).await?;
    let bytes = extract::stored_bytes(opened, &chosen);
    if bytes > MOST_FETCHED {
        return Err(Error::IntegrityFailed {
            what: "the databases that nobody has examined".to_owned(),
            problem: format!("{} MiB would have to be fetched to examine them", bytes >> 20),
        });
    }
    let folder = Scratch::make(&std::env::temp_dir(), scratch::Kind::Look)?;
    extract::extract(store, opened, &chosen, folder.path()).await?;
    let Examined { health, .. } = blocking(move || examiner.examine(folder.path(), None, None)).await?;
    let found = health.unwrap_or_default();
    if let Some(damaged) = found.damaged.first() {
        return Err(Error::IntegrityFailed {
            what: format!("the database {}", damaged.path),
            problem: damaged.problem.clone(),
        });
    }
    let told = |finding: &Finding| format!("{} was not checked: {}", finding.path, finding.problem);
    let warnings = found.unchecked.iter().map(told).collect();
    opened.record.health = Some(match before {
        Some(before) => Health { unchecked: found.unchecked, ..before },
        None => {
            let ended = opened.record.health.take().map(|health| (health.ended, health.stop_ms));
            let (ended, stop_ms) = ended.unwrap_or((found.ended.clone(), 0));
            Health { ended, stop_ms, ..found }
        }
    });
    Ok(warnings)
}

fn examiner(request: &LoadRequest) -> ProfileExaminer {
    let policy = Policy {
        depth: Some(request.policy.depth.unwrap_or(Depth::Full)),
        isolation: request.policy.isolation.clone(),
        threads: request.threads,
        max_shrink_percent: None,
        allow_damaged: true,
        allow_logged_out: true,
    };
    ProfileExaminer { policy, mode: Mode::Cold, stopped: None, expected: Default::default() }
}

/// The files that make up these databases, of which some are directories.
fn concerned(files: &BTreeMap<PathBuf, usize>, databases: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let is_part = |path: &&PathBuf| {
        databases.contains(*path) || path.parent().is_some_and(|parent| databases.contains(parent))
    };
    files.keys().filter(is_part).cloned().collect()
}

/// The numbers of the entries that an examination reads. Which file is a database is told by how it
/// begins.
async fn chosen(
    store: &TenantStore,
    opened: &Opened,
    numbers: &BTreeMap<PathBuf, usize>,
    concerned: Option<&BTreeSet<PathBuf>>,
    examiner: &ProfileExaminer,
) -> Result<Vec<usize>> {
    let wanted: Vec<usize> = match concerned {
        Some(concerned) => concerned.iter().filter_map(|path| numbers.get(path)).copied().collect(),
        None => numbers.values().copied().collect(),
    };
    let heads: HashMap<usize, Vec<u8>> = extract::heads(store, opened, &wanted, HEADER_BYTES).await?;
    let paths: BTreeSet<PathBuf> = numbers.keys().cloned().collect();
    let head = |path: &Path, most: usize| {
        let head = numbers.get(path).and_then(|at| heads.get(at))?;
        Some(head[..head.len().min(most)].to_vec())
    };
    let read = examiner.reads(&ListedFiles { files: &paths, head: &head }, concerned)?;
    Ok(read.iter().filter_map(|path| numbers.get(path)).copied().collect())
}
