//! Every verb that touches the bucket, with every one of its calls failing in every way, and
//! the program killed in the middle of each: the invariants of the format hold afterwards, and
//! whoever comes next succeeds.
//!
//! What holds is told by the program's own `verify` and by [`tests::checker`], which knows the
//! format's page and none of the program's decoders. `PSTORE_KILL_ROUNDS` is how often each
//! verb is killed.

#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use store::{
    Error, Result,
    bucket::{Access, Bucket, Fault, FaultBucket, Key, LocalBucket, MemoryBucket, Rule, Write},
    catalog::{
        lock::{self, Terms},
        pointer::Move,
    },
    content::ingest::{Cutter, Files},
    id::RecordId,
    ops::{
        commit::{self, Base},
        gc::{Collector, Options},
        open::Opened,
        reap,
        retention::{self, Keep, Limits, Policy},
        snapshot::Examined,
        tag,
    },
    progress::Silent,
    tree::walk::Skipped,
};
use tests::{
    binary::Host,
    checker::{self, State},
    mount::{ALICE, MountDesk},
    tree::noise,
    world::{World, actor, request},
};

const TERMS: Terms = Terms { ttl: lock::DEFAULT_TTL, with_process: false };
const NOW: Options = Options::after(Duration::ZERO);
/// Longer than any lock is held.
const LATER: Duration = Duration::from_secs(3600);
/// Runs at once: most of them wait for their next attempt.
const AT_ONCE: usize = 24;

/// What is done to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
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
    const ALL: [Self; 11] = [
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
    fn removes(self) -> bool {
        matches!(self, Self::Delete | Self::Retention)
    }

    /// What must be there for it, beside three snapshots.
    async fn prepare(self, scene: &Scene<'_>, memory: &MemoryBucket) {
        match self {
            Self::Collect => {
                let controls = scene.world.controls("before");
                controls.delete(scene.records[0], "").await.unwrap();
            }
            Self::Unlock | Self::Reap => {
                scene.world.controls("dead").acquire(TERMS, Duration::ZERO).await.unwrap();
                if self == Self::Reap {
                    memory.advance(LATER);
                }
            }
            _ => {}
        }
    }

    async fn act(self, scene: &Scene<'_>) -> Result<()> {
        let (world, controls) = (&scene.world, scene.world.controls("me"));
        match self {
            Self::Snapshot => drop(world.snapshot(scene.next).await?),
            Self::Commit => commit(world).await?,
            Self::Restore => {
                let folder = tempfile::tempdir().unwrap();
                world.restore(&folder.path().join("out")).await?;
            }
            Self::Delete => drop(controls.delete(scene.records[0], "test").await?),
            Self::Tag => {
                tag::tag(&controls, scene.records[1], "kept").await?;
                tag::untag(&controls, scene.records[1], "kept").await?;
            }
            Self::Rollback => {
                let wanted = Move { target: scene.records[0], reason: "test".into(), force: false };
                controls.point(&wanted).await?;
            }
            Self::Lock => {
                let hold = controls.acquire(TERMS, Duration::ZERO).await?;
                hold.renew().await?;
                hold.release().await?;
            }
            Self::Unlock => drop(controls.force_unlock("test").await?),
            Self::Reap => drop(reap::reap(&world.store, &actor("me"), Duration::ZERO).await?),
            Self::Retention => {
                let snapshots = retention::survey(&world.store).await?;
                let policy = Policy { keep: Some(Keep::One), ..Policy::default() };
                let plan = retention::plan(snapshots, |_| policy.clone(), Limits::default(), u64::MAX >> 11);
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
    let hold = world.controls("mount").acquire(TERMS, Duration::ZERO).await?;
    let Opened { record, metadata, entries, .. } = Opened::load(&world.store, world.current().await?).await?;
    let changed = entries.iter().position(|entry| entry.path.to_string() == "own").unwrap();
    let tree = commit::Tree { entries, changed: vec![changed], skipped: Skipped::default(), bytes: 100_000 };
    let wanted = commit::Request {
        lineage: world.lineage.clone(),
        path: "/mnt".into(),
        about: request(&world.lineage, Path::new("/")).about,
        threads: 2,
        examined: Examined::default(),
        hold_back: None,
        first_reads: Vec::new(),
        quota_bytes: None,
        archive: None,
    };
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

fn fill(source: &Path, generation: u64) {
    fs::create_dir_all(source).unwrap();
    fs::write(source.join("shared"), noise(150_000, 7)).unwrap();
    fs::write(source.join("own"), noise(100_000, 100 + generation)).unwrap();
    fs::write(source.join("generation"), generation.to_string()).unwrap();
}

/// A store with three snapshots, of which the last is current, and the next one to be made.
struct Scene<'a> {
    world: World,
    records: &'a [RecordId],
    next: &'a Path,
}

/// What every scene starts with.
struct Template {
    objects: Vec<(Key, bytes::Bytes)>,
    records: Vec<RecordId>,
    folder: tempfile::TempDir,
}

impl Template {
    async fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryBucket::new());
        let world = World::open(memory.clone(), None).await;
        let mut records = Vec::new();
        for generation in 0..3 {
            fill(folder.path(), generation);
            records.push(world.snapshot(folder.path()).await.unwrap().record);
        }
        fill(folder.path(), 3);
        let mut objects = Vec::new();
        for key in memory.keys() {
            let key = Key::new(key).unwrap();
            let bytes = memory.get(&key).await.unwrap().bytes;
            objects.push((key, bytes));
        }
        Self { objects, records, folder }
    }

    async fn bucket(&self) -> Arc<MemoryBucket> {
        let memory = Arc::new(MemoryBucket::new());
        for (key, bytes) in &self.objects {
            memory.put(key, bytes.clone().into(), Write::Create).await.unwrap();
        }
        memory
    }

    async fn scene(&self, bucket: Arc<dyn Bucket>) -> Scene<'_> {
        let world = World::open(bucket, None).await;
        Scene { world, records: &self.records, next: self.folder.path() }
    }

    /// How many calls an act makes when nothing goes wrong.
    async fn calls(&self, act: Act) -> u64 {
        let memory = self.bucket().await;
        act.prepare(&self.scene(memory.clone()).await, &memory).await;
        let counting = Arc::new(FaultBucket::new(memory));
        let scene = self.scene(counting.clone()).await;
        let opening = counting.calls();
        act.act(&scene).await.unwrap();
        counting.calls() - opening
    }

    /// Lets the k-th call of an act fail, and looks at what is left.
    async fn strike(&self, act: Act, fault: Fault, k: u64) {
        let at = format!("{act:?} with {fault:?} at call {k}");
        let memory = self.bucket().await;
        let calm = self.scene(memory.clone()).await;
        act.prepare(&calm, &memory).await;
        let before = checker::look(&*memory).await;
        let faulty = Arc::new(FaultBucket::new(memory.clone()));
        let scene = self.scene(faulty.clone()).await;
        // Counted from here: opening the store is over.
        faulty.inject(Rule::new(fault).nth(k));
        let result = act.act(&scene).await;
        assert_eq!(faulty.strikes(), 1, "{at}: it was not struck");
        assert_ne!(result.as_ref().map_err(Error::kind).err(), Some(store::ErrorKind::Internal), "{at}");

        let after = checker::look(&*memory).await;
        whole(&after, &before, act, &at);
        calm.world.assert_clean().await;
        // Whoever died may have left a lock and a lease; they expire.
        memory.advance(LATER);
        let next = calm.world.snapshot(calm.next).await;
        assert!(next.is_ok(), "{at}: the next snapshot: {next:?}");
        Collector::new(calm.world.store.clone(), NOW).run_through().await.unwrap();
        whole(&checker::look(&*memory).await, &after, Act::Snapshot, &at);
        calm.world.assert_clean().await;
    }
}

/// All invariants hold, and what was stored is.
fn whole(after: &State, before: &State, act: Act, at: &str) {
    eprintln!("{at}");
    after.must_be_whole();
    after.must_follow(before);
    let live = after.records("live");
    let kept = before.records("live").iter().filter(|record| live.contains(record)).count();
    let least = if act.removes() { 1 } else { before.records("live").len() };
    assert!(kept >= least, "{at}: snapshots are gone");
}

async fn every_call_may_fail(fault: Fault) {
    let template = Arc::new(Template::make().await);
    let mut strikes = Vec::new();
    for act in Act::ALL {
        let calls = template.calls(act).await;
        assert!(calls >= 2, "{act:?} makes only {calls} calls");
        strikes.extend((1..=calls).map(|k| (act, k)));
    }
    let runs = stream::iter(strikes).map(|(act, k)| {
        let template = Arc::clone(&template);
        // Its future borrows too much to be moved to another thread, so a thread is moved to it.
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(template.strike(act, fault, k)))
    });
    let ended: Vec<_> = runs.buffer_unordered(AT_ONCE).collect().await;
    println!("{} runs", ended.len());
    ended.into_iter().for_each(|run| run.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_any_verb_may_be_the_last() {
    every_call_may_fail(Fault::KilledBefore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_any_verb_may_be_the_last_and_count() {
    every_call_may_fail(Fault::KilledAfter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_any_verb_may_be_lost() {
    every_call_may_fail(Fault::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_answer_to_any_verb_may_be_lost() {
    every_call_may_fail(Fault::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_write_of_any_verb_may_be_refused_because_of_itself() {
    every_call_may_fail(Fault::Refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_answer_to_any_verb_may_be_cut_short() {
    every_call_may_fail(Fault::Truncated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_answer_to_any_verb_may_have_a_bit_changed() {
    every_call_may_fail(Fault::Flipped).await;
}

/// Kills a command at some moment of the time it usually takes.
fn kill_during(host: &Host, arguments: &[&str], usual: Duration, seed: u64) {
    let running = host.start(arguments);
    thread::sleep(usual.mul_f64(f64::from(noise(1, seed)[0]) / 220.0));
    running.kill();
}

/// Looks at a store in a directory. Whoever was killed has left nothing that is in the way.
async fn look_at(store: &Path) -> State {
    checker::look(&LocalBucket::open(store, Access::ReadWrite).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_may_be_killed_during_any_verb() {
    let rounds = env::var("PSTORE_KILL_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let desk = MountDesk::local();
    let (host, source, store) = (&desk.host, desk.path("source"), desk.path("store"));
    let (directory, out) = (source.to_str().unwrap().to_owned(), desk.path("out").display().to_string());
    let place = desk.mountpoint.to_str().unwrap();
    let rules = desk.path("one/.config/pstore");
    fs::create_dir_all(&rules).unwrap();
    fs::write(rules.join("pstore.toml"), "[tenants.acme]\nretention.max_count = 4\n").unwrap();
    fill(&source, 0);
    host.snapshot(&source, ALICE);
    let began = Instant::now();
    fill(&source, 1);
    let first = host.snapshot(&source, ALICE);
    let usual = began.elapsed();
    let sha = first["sha256_prefix"].as_str().unwrap();
    host.succeed(["tag", ALICE, "kept", "--sha", sha]);
    let mut before = look_at(&store).await;
    for round in 0..rounds {
        let snapshot = ["snapshot", &directory, ALICE, "--chrome-major", "131", "--wait", "5"];
        let spare = host.succeed(snapshot)["sha256_prefix"].as_str().unwrap().to_owned();
        fill(&source, 1000 + 2 * round);
        host.succeed(snapshot);
        let mounted = desk.mount_as(host, &["--wait", "5"]);
        fs::write(desk.mountpoint.join("in the mount"), noise(200_000, round)).unwrap();
        kill_during(host, &["commit", place], usual, 17 * round);
        desk.kill(&mounted);
        desk.mount();
        assert_eq!(fs::read(desk.mountpoint.join("in the mount")).unwrap(), noise(200_000, round));
        desk.unmount(&["--commit"]);
        fill(&source, 1001 + 2 * round);
        let verbs: [&[&str]; 10] = [
            &snapshot,
            &["restore", ALICE, &out, "--force"],
            &["tag", ALICE, "another", "--sha", sha],
            &["untag", ALICE, "another", "--sha", sha],
            &["rollback", ALICE, "--sha", sha, "--confirm", "--force"],
            &["lock", "acquire", ALICE, "--chrome-major", "131", "--ttl", "5"],
            &["force-unlock", ALICE, "--reason", "test", "--confirm"],
            &["delete", ALICE, "--sha", &spare],
            &["retention", "apply"],
            &["gc", "acme", "--grace", "0"],
        ];
        for (at, verb) in verbs.iter().enumerate() {
            kill_during(host, verb, usual, 31 * round + at as u64);
            let after = look_at(&store).await;
            eprintln!("round {round}: {verb:?}");
            after.must_be_whole();
            after.must_follow(&before);
            before = after;
        }
        host.run(["force-unlock", ALICE, "--reason", "test", "--confirm"]);
        host.succeed(["reap", "acme", "--grace", "0"]);
        host.verify(ALICE, &["--read-data", "--no-cache"]);
        host.succeed(["show", ALICE, "--sha", sha]);
    }
    fill(&source, 9);
    host.succeed(["snapshot", &directory, ALICE, "--chrome-major", "131", "--wait", "5"]);
    look_at(&store).await.must_be_whole();
}
