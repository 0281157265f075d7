//! `Act` is what every verb does to a store, and what must be there for it.

use std::{path::Path, sync::Arc, time::Duration};

use store::{
    Result,
    bucket::MemoryBucket,
    catalog::{
        lock::{self, Terms},
        pointer::Move,
    },
    content::ingest::{Cutter, Files},
    ops::{
        gc::Collector,
        read::open::Opened,
        reap,
        retention::{self, Keep, Limits, Policy},
        tag,
        write::commit::whole::{self as commit, Base},
    },
    progress::Silent,
    tree::walk::Skipped,
};
use tests::{
    store_fixture::{StoreFixture, actor, commit_request},
    tree::noise,
};

use crate::faults::scenario::{FaultScenario, LATER, NOW};

const TERMS: Terms = Terms { ttl: lock::DEFAULT_TTL, with_process: false };

/// What is done to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Snapshot,
    Commit,
    Restore,
    Delete,
    Tag,
    Rollback,
    Lock,
    Unlock,
    Reap,
    Retention,
    Collect,
}

impl Act {
    pub(crate) const ALL: [Self; 11] = [
        Self::Snapshot,
        Self::Commit,
        Self::Restore,
        Self::Delete,
        Self::Tag,
        Self::Rollback,
        Self::Lock,
        Self::Unlock,
        Self::Reap,
        Self::Retention,
        Self::Collect,
    ];

    /// Whether snapshots go by it.
    pub(crate) fn removes(self) -> bool {
        matches!(self, Self::Delete | Self::Retention)
    }

    /// What must be there for it, beside three snapshots.
    pub(crate) async fn prepare(self, scenario: &FaultScenario<'_>, memory: &MemoryBucket) {
        match self {
            Self::Collect => {
                let handle = scenario.fixture.handle("before");
                handle.delete(scenario.records[0], "").await.unwrap();
            }
            Self::Unlock | Self::Reap => {
                scenario.fixture.handle("dead").acquire(TERMS, Duration::ZERO).await.unwrap();
                if self == Self::Reap {
                    memory.advance(LATER);
                }
            }
            _ => {}
        }
    }

    pub(crate) async fn act(self, scenario: &FaultScenario<'_>) -> Result<()> {
        let (fixture, handle) = (&scenario.fixture, scenario.fixture.handle("me"));
        match self {
            Self::Snapshot => drop(fixture.snapshot(scenario.next).await?),
            Self::Commit => commit(fixture).await?,
            Self::Restore => {
                let folder = tempfile::tempdir().unwrap();
                fixture.restore(&folder.path().join("out")).await?;
            }
            Self::Delete => drop(handle.delete(scenario.records[0], "test").await?),
            Self::Tag => {
                tag::tag(&handle, scenario.records[1], "kept").await?;
                tag::untag(&handle, scenario.records[1], "kept").await?;
            }
            Self::Rollback => {
                let wanted = Move {
                    target: scenario.records[0],
                    reason: "test".into(),
                    force: false,
                    only_from: None,
                };
                handle.point(&wanted).await?;
            }
            Self::Lock => {
                let hold = handle.acquire(TERMS, Duration::ZERO).await?;
                hold.renew().await?;
                hold.release().await?;
            }
            Self::Unlock => drop(handle.force_unlock("test").await?),
            Self::Reap => drop(reap::reap(&fixture.store, Some(&actor("me")), Duration::ZERO).await?),
            Self::Retention => {
                let survey = retention::survey(&fixture.store).await?;
                let policy = Policy { keep: Some(Keep::One), ..Policy::default() };
                let plan = retention::plan(survey, |_| policy.clone(), Limits::default());
                retention::apply(&fixture.store, &actor("me"), &plan).await?;
            }
            Self::Collect => drop(Collector::new(fixture.store.clone(), NOW).run_through().await?),
        }
        Ok(())
    }
}

/// The content of the one file that a commit has changed.
struct Changed;

impl Files for Changed {
    fn len(&self) -> usize {
        1
    }

    fn read(&self, _: usize, cutter: &mut Cutter<'_>) -> Result<()> {
        cutter
            .read_from(&mut &noise(100_000, 77)[..], 100_000)
            .map(drop)
            .map_err(|fault| fault.at("cannot read", "memory"))
    }
}

/// What a mount does when it stores a change: by its lock, on top of what it started from.
async fn commit(fixture: &StoreFixture) -> Result<()> {
    let hold = fixture.handle("mount").acquire(TERMS, Duration::ZERO).await?;
    let Opened { record, metadata, entries, .. } =
        Opened::load(&fixture.store, fixture.current().await?).await?;
    let changed = entries.iter().position(|entry| entry.path.to_string() == "own").unwrap();
    let tree = commit::Tree { entries, changed: vec![changed], skipped: Skipped::default(), bytes: 100_000 };
    let wanted = commit_request(&fixture.lineage, Path::new("/mnt"));
    let base = Some(Base { record, metadata: Arc::new(metadata) });
    let intend = async |_| Ok(());
    commit::commit(
        &fixture.store,
        wanted,
        (tree, Arc::new(Changed)),
        base,
        Some(&hold),
        intend,
        Arc::new(Silent),
    )
    .await?;
    hold.release().await
}
