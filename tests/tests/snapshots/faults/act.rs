//! What every verb does to a store, and what must be there for it.

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
        write::commit::{self, Base},
    },
    progress::Silent,
    tree::walk::Skipped,
};
use tests::{
    tree::noise,
    world::{World, actor, commit_request},
};

use crate::faults::scene::{LATER, NOW, Scene};

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
    pub(crate) async fn prepare(self, scene: &Scene<'_>, memory: &MemoryBucket) {
        match self {
            Self::Collect => {
                let handle = scene.world.handle("before");
                handle.delete(scene.records[0], "").await.unwrap();
            }
            Self::Unlock | Self::Reap => {
                scene.world.handle("dead").acquire(TERMS, Duration::ZERO).await.unwrap();
                if self == Self::Reap {
                    memory.advance(LATER);
                }
            }
            _ => {}
        }
    }

    pub(crate) async fn act(self, scene: &Scene<'_>) -> Result<()> {
        let (world, handle) = (&scene.world, scene.world.handle("me"));
        match self {
            Self::Snapshot => drop(world.snapshot(scene.next).await?),
            Self::Commit => commit(world).await?,
            Self::Restore => {
                let folder = tempfile::tempdir().unwrap();
                world.restore(&folder.path().join("out")).await?;
            }
            Self::Delete => drop(handle.delete(scene.records[0], "test").await?),
            Self::Tag => {
                tag::tag(&handle, scene.records[1], "kept").await?;
                tag::untag(&handle, scene.records[1], "kept").await?;
            }
            Self::Rollback => {
                let wanted = Move { target: scene.records[0], reason: "test".into(), force: false };
                handle.point(&wanted).await?;
            }
            Self::Lock => {
                let hold = handle.acquire(TERMS, Duration::ZERO).await?;
                hold.renew().await?;
                hold.release().await?;
            }
            Self::Unlock => drop(handle.force_unlock("test").await?),
            Self::Reap => drop(reap::reap(&world.store, &actor("me"), Duration::ZERO).await?),
            Self::Retention => {
                let survey = retention::survey(&world.store).await?;
                let policy = Policy { keep: Some(Keep::One), ..Policy::default() };
                let plan = retention::plan(survey, |_| policy.clone(), Limits::default());
                retention::apply(&world.store, &actor("me"), &plan).await?;
            }
            Self::Collect => drop(Collector::new(world.store.clone(), NOW).run_through().await?),
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
        cutter.read_from(&mut &noise(100_000, 77)[..], 100_000).unwrap().map(drop)
    }
}

/// What a mount does when it stores a change: by its lock, on top of what it started from.
async fn commit(world: &World) -> Result<()> {
    let hold = world.handle("mount").acquire(TERMS, Duration::ZERO).await?;
    let Opened { record, metadata, entries, .. } = Opened::load(&world.store, world.current().await?).await?;
    let changed = entries.iter().position(|entry| entry.path.to_string() == "own").unwrap();
    let tree = commit::Tree { entries, changed: vec![changed], skipped: Skipped::default(), bytes: 100_000 };
    let wanted = commit_request(&world.lineage, Path::new("/mnt"));
    let base = Some(Base { record, metadata: Arc::new(metadata) });
    let intend = async |_| Ok(());
    commit::commit(
        &world.store,
        wanted,
        tree,
        Arc::new(Changed),
        base,
        Some(&hold),
        intend,
        Arc::new(Silent),
    )
    .await?;
    hold.release().await
}
