//! `unexamined` checks the databases of a snapshot that nobody has checked, before it is mounted.
//!
//! A mount fetches bytes when a program reads them, and trusts the verdict of the capture. Databases without a
//! verdict are fetched first, and examined as a load does.

use std::{
    collections::BTreeSet,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use store::{
    Error, Result,
    content::{
        TenantStore,
        snapshot_tree::{
            SnapshotTree, TreeFile,
            stream::{LocatedEntry, TreeStream},
        },
        workers::blocking,
    },
    format::{
        health::{Finding, Health, TornLog},
        record::{Mode, Record},
        tree::{Kind, TreePath},
    },
    ops::{
        read::{extract, open::OpenedTree, snapshot_files::SnapshotFiles},
        write::snapshot::{Examined, Examiner},
    },
    scratch::{self, Scratch},
};

use super::LoadRequest;
use crate::{
    examiner::{Policy, ProfileExaminer},
    listed_files::ListedFiles,
    sqlite::{self, Depth, header::HEADER_BYTES},
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
    opened: &mut OpenedTree,
    request: &LoadRequest,
) -> Result<Vec<String>> {
    if !is_unexamined(&opened.record) {
        return Ok(Vec::new());
    }
    let before = opened.record.health.clone().filter(Health::is_verdict);
    let examiner = Arc::new(examiner(request));
    let mut unchecked = BTreeSet::new();
    let chosen = match &before {
        Some(health) => {
            unchecked.extend(health.unchecked.iter().map(|found| PathBuf::from(&found.path)));
            of_databases(store, opened, unchecked.clone(), &examiner).await?
        }
        None => of_all(store, opened, &examiner).await?,
    };
    let folder = Scratch::make(&std::env::temp_dir(), scratch::Kind::Look)?;
    extract::extract(store, &opened.record, &chosen, folder.path()).await?;
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
        Some(mut before) => {
            // Those of databases that were looked at now, and could be read.
            let read = |at: &Path| {
                unchecked.contains(at) && !found.unchecked.iter().any(|still| Path::new(&still.path) == at)
            };
            let is_as_before = |log: &TornLog| {
                !Path::new(&log.path).parent().is_some_and(read)
                    && found.torn_logs.iter().all(|new| new.path != log.path)
            };
            before.torn_logs.retain(is_as_before);
            before.torn_logs.extend(found.torn_logs);
            Health { unchecked: found.unchecked, ..before }
        }
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

/// The files that are looked at, and how much is fetched for them.
#[derive(Default)]
struct Chosen {
    files: Vec<LocatedEntry>,
    bytes: u64,
}

impl Chosen {
    fn add(&mut self, file: LocatedEntry) -> Result<()> {
        self.bytes += extract::stored_bytes(&file);
        self.files.push(file);
        if self.bytes > MOST_FETCHED {
            return Err(Error::IntegrityFailed {
                what: "the databases that nobody has examined".to_owned(),
                problem: format!("more than {} MiB would have to be fetched", MOST_FETCHED >> 20),
            });
        }
        Ok(())
    }
}

/// The files that an examination of these databases reads, of which some are directories. The tree is read by need.
async fn of_databases(
    store: &TenantStore,
    opened: &OpenedTree,
    databases: BTreeSet<PathBuf>,
    examiner: &Arc<ProfileExaminer>,
) -> Result<Vec<LocatedEntry>> {
    let mut concerned = Vec::new();
    for database in &databases {
        let Ok(path) = TreePath::new(database.as_os_str().as_bytes()) else { continue };
        match opened.tree.entry(&path).await?.map(|entry| entry.kind) {
            Some(Kind::File { .. }) => concerned.extend(located(&opened.tree, &path).await?),
            Some(Kind::Directory) => {
                for child in opened.tree.children(&path).await? {
                    concerned.extend(located(&opened.tree, &child.path).await?);
                }
            }
            _ => {}
        }
    }
    let heads = extract::heads(store, &opened.record, &concerned, HEADER_BYTES).await?;
    let paths: BTreeSet<PathBuf> = concerned.iter().map(|file| extract::path(&file.entry)).collect();
    let files = SnapshotFiles::new(Arc::clone(&opened.tree), heads);
    let examiner = Arc::clone(examiner);
    let read = blocking(move || examiner.reads(&files, Some(&paths))).await?;
    let mut chosen = Chosen::default();
    for path in read {
        let Ok(path) = TreePath::new(path.as_os_str().as_bytes()) else { continue };
        if let Some(file) = located(&opened.tree, &path).await? {
            chosen.add(file)?;
        }
    }
    Ok(chosen.files)
}

/// The files that an examination of everything reads. Which file is a database is told by how it begins, and by the
/// journal beside it; the tree goes by as a stream, and no more is held of it than those files.
async fn of_all(
    store: &TenantStore,
    opened: &OpenedTree,
    examiner: &Arc<ProfileExaminer>,
) -> Result<Vec<LocatedEntry>> {
    let is_file = |found: &LocatedEntry| matches!(found.entry.kind, Kind::File { .. });
    let mut journals = BTreeSet::new();
    let mut stream = TreeStream::new(Arc::clone(&opened.tree)).await?;
    while let Some(entries) = stream.next().await? {
        let paths = entries.iter().filter(|found| is_file(found)).map(|found| extract::path(&found.entry));
        journals.extend(paths.filter(|path| sqlite::owner(path).is_some()));
    }
    let journals = Arc::new(journals);
    let mut chosen = Chosen::default();
    let mut stream = TreeStream::new(Arc::clone(&opened.tree)).await?;
    while let Some(mut entries) = stream.next().await? {
        entries.retain(is_file);
        let heads = extract::heads(store, &opened.record, &entries, HEADER_BYTES).await?;
        let mut files: BTreeSet<PathBuf> = entries.iter().map(|found| extract::path(&found.entry)).collect();
        let (examiner, journals) = (Arc::clone(examiner), Arc::clone(&journals));
        let read = blocking(move || {
            files.extend(journals.iter().cloned());
            let head = |path: &Path, most: usize| {
                let head = heads.get(path)?;
                Some(head[..head.len().min(most)].to_vec())
            };
            examiner.reads(&ListedFiles { files: &files, head: &head }, None)
        });
        let read = read.await?;
        for found in entries {
            if read.contains(&extract::path(&found.entry)) {
                chosen.add(found)?;
            }
        }
    }
    Ok(chosen.files)
}

/// A file of a tree, with where its chunks lie; `None` if there is none.
async fn located(tree: &SnapshotTree, path: &TreePath) -> Result<Option<LocatedEntry>> {
    let found = tree.file(path).await?;
    Ok(found.map(|TreeFile { entry, pieces }| {
        let locations = pieces.iter().map(|piece| piece.location).collect();
        LocatedEntry { entry, locations }
    }))
}
