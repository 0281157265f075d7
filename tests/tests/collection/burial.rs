//! These tests delete a profile or a tenant, in a directory and on a real server: one object is left of it, whoever
//! is killed where.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use store::{
    ErrorKind, Result,
    bucket::{
        Access, Bucket, Depth, Fault, FaultBucket, Key, LocalBucket, MemoryBucket, Prefix, Rule, S3Bucket,
        Write,
    },
    catalog::{lock::Terms, records, rules::Rules, store::Store, tombstone},
    content::TenantStore,
    format::{layout, tombstone::Progress},
    name::{ProfileName, Tenant},
    ops::{
        gc::{Collector, Options},
        read::{profiles, resolve},
        removal::{self, Anew, Left, Order},
    },
};
use tests::{
    checker,
    server::SeaweedFs,
    store_fixture::{StoreFixture, actor, copy},
    tree::noise,
};

fn name() -> ProfileName {
    "acme/alice".parse().unwrap()
}

fn tenant() -> Tenant {
    "acme".parse().unwrap()
}

fn order() -> Order {
    let (user, reason) = ("operator".to_owned(), "left the company".to_owned());
    Order { actor: actor("me"), user, reason, ignored: Vec::new(), rules: Rules::ALL }
}

async fn keys(bucket: &dyn Bucket, below: &str) -> Vec<String> {
    let prefix = Prefix::new(below).unwrap();
    let (entries, _) = records::list_all(bucket, &prefix, Depth::All).await.unwrap();
    entries.into_iter().map(|entry| entry.key.to_string()).collect()
}

/// Everything that lies below the tenant's two prefixes.
async fn of_tenant(bucket: &dyn Bucket, tenant: &str) -> Vec<String> {
    let content = keys(bucket, &format!("content/{tenant}/")).await;
    [content, keys(bucket, &format!("snapshots/{tenant}/")).await].concat()
}

/// Two snapshots of acme/alice, one of acme/bob that shares with them, one of another tenant, and
/// an archive with its manifest that another program has stored.
async fn fill(bucket: &Arc<dyn Bucket>) -> StoreFixture {
    let folder = tempfile::tempdir().unwrap();
    let fixture = StoreFixture::open(Arc::clone(bucket), None).await;
    for generation in 0..2 {
        fs::write(folder.path().join("file"), noise(60_000, generation)).unwrap();
        fixture.snapshot(folder.path()).await.unwrap();
    }
    fixture.of("acme/bob").snapshot(folder.path()).await.unwrap();
    let other =
        Store::new(Arc::clone(bucket), None).writable_tenant(&"other".parse().unwrap()).await.unwrap();
    let elsewhere = StoreFixture {
        store: other,
        lineage: tests::store_fixture::lineage("other/alice"),
        ..fixture.clone()
    };
    elsewhere.snapshot(folder.path()).await.unwrap();
    for suffix in ["tar.zst", "manifest.json"] {
        let key = Key::new(format!("snapshots/acme/alice/131/profile-0123456789ab.{suffix}")).unwrap();
        bucket.put(&key, b"another program's".to_vec().into(), Write::Create).await.unwrap();
    }
    fixture
}

async fn delete(store: &TenantStore, name: &ProfileName) -> Result<Left> {
    let survey = removal::survey(store, std::slice::from_ref(name)).await?;
    removal::profile(store, name, &order(), &survey).await.map(|(_, left)| left)
}

/// Collects until nothing but these keys is left below a prefix. A server tells times in seconds, so
/// what was written in this one is not old yet.
async fn collect(store: &TenantStore, bucket: &dyn Bucket, below: &[&str], left: &[&str]) {
    let started = Instant::now();
    loop {
        let options = Options::after(Duration::ZERO);
        Collector::new(store.clone(), options).burying_at_once().run_through().await.unwrap();
        let mut found = Vec::new();
        for prefix in below {
            found.extend(keys(bucket, prefix).await);
        }
        if found == left {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "these never go: {found:?}");
    }
}

const PROFILE: [&str; 1] = ["snapshots/acme/alice/"];
const TOMBSTONE: [&str; 1] = ["snapshots/acme/alice/deleted.json"];

/// A profile, then its tenant, in this bucket.
async fn is_gone_but_for_a_tombstone(bucket: Arc<dyn Bucket>) {
    let fixture = fill(&bucket).await;
    let before = of_tenant(&*bucket, "other").await;
    assert!(delete(&fixture.store, &name()).await.unwrap().snapshots.is_empty());
    let left = keys(&*bucket, "snapshots/acme/alice/").await;
    assert!(!left.iter().any(|key| key.contains("profile-")), "archives go at once: {left:?}");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(fixture.snapshot(folder.path()).await.unwrap_err().kind(), ErrorKind::Deleted);
    collect(&fixture.store, &*bucket, &PROFILE, &TOMBSTONE).await;
    let found = tombstone::find(&*fixture.store.bucket, &name()).await.unwrap().unwrap().tombstone.deletion;
    assert_eq!((found.state, found.snapshots, found.archives), (Progress::Done, 2, 1));
    assert_eq!(found.by.name(), "operator@test");
    fixture.of("acme/bob").assert_clean().await;

    let whole = Store::new(Arc::clone(&bucket), None);
    let all = records::profiles(&fixture.store).await.unwrap();
    let survey = removal::survey(&fixture.store, &all).await.unwrap();
    let deletion = order().deletion(&fixture.store, &survey).await;
    let deleted = whole.change_deletion(&tenant(), |_| Some(Some(deletion.clone()))).await.unwrap();
    for name in &all {
        removal::contents(&deleted, name, &order(), &survey).await.unwrap();
    }
    assert_eq!(whole.tenant(&tenant()).await.unwrap_err().kind(), ErrorKind::Deleted);
    assert_eq!(whole.writable_tenant(&tenant()).await.unwrap_err().kind(), ErrorKind::Deleted);
    // Whoever was open all the time begins no profile in it.
    let late = fixture.of("acme/carol").snapshot(folder.path()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Deleted);
    let prefixes = ["content/acme/", "snapshots/acme/"];
    let deleted = whole.tenant_or_tombstone(&tenant()).await.unwrap();
    collect(&deleted, &*bucket, &prefixes, &["content/acme/tenant.json"]).await;
    let found = whole.tenant_or_tombstone(&tenant()).await.unwrap().config.deletion.clone().unwrap();
    assert_eq!((found.state, found.snapshots), (Progress::Done, 1));
    assert_eq!(of_tenant(&*bucket, "other").await, before, "another tenant has all it had");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_tombstone_is_left_in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    is_gone_but_for_a_tombstone(Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_tombstone_is_left_on_a_server() {
    let server = SeaweedFs::shared().await;
    is_gone_but_for_a_tombstone(Arc::new(S3Bucket::open(server.config()).await)).await;
}

/// Deletes the profile in a copy of the store, in which a call goes wrong; whether there was such a
/// call. The same command ends it then.
async fn fail_at(template: &MemoryBucket, fault: Fault, call: u64) -> bool {
    let memory = copy(template).await;
    let faulty = Arc::new(FaultBucket::new(memory.clone()));
    let store = Store::new(faulty.clone(), None).tenant(&tenant()).await.unwrap();
    faulty.inject(Rule::new(fault).nth(call));
    let struck = delete(&store, &name()).await;
    if faulty.strikes() == 0 {
        assert!(struck.is_ok(), "{struck:?}");
        return false;
    }
    // No pointer names what is gone, whatever was done by then.
    checker::look(&*memory).await.must_be_whole();
    let store = Store::new(memory.clone(), None).tenant(&tenant()).await.unwrap();
    let again = delete(&store, &name()).await;
    assert!(again.is_ok_and(|left| left.snapshots.is_empty()), "{fault:?} at call {call}");
    assert_eq!(resolve::lineage(&store, &name(), None).await.unwrap_err().kind(), ErrorKind::Deleted);
    collect(&store, &*memory, &PROFILE, &TOMBSTONE).await;
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_cut_short_anywhere_is_ended_by_the_same_command() {
    const MOST_CALLS: u64 = 150;
    let template = Arc::new(MemoryBucket::with_page_size(1000));
    fill(&(template.clone() as Arc<dyn Bucket>)).await;
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        let runs = (1..=MOST_CALLS).map(|call| {
            let template = Arc::clone(&template);
            // Most of them wait for their next attempt, so many run at once.
            let runtime = tokio::runtime::Handle::current();
            tokio::task::spawn_blocking(move || runtime.block_on(fail_at(&template, fault, call)))
        });
        let struck: Vec<bool> = stream::iter(runs).buffered(24).map(Result::unwrap).collect().await;
        let calls = struck.iter().filter(|struck| **struck).count();
        assert!(calls > 40 && !struck[struck.len() - 1], "{fault:?}: {calls} calls");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_waits_a_day_before_it_removes_what_is_left() {
    let memory = Arc::new(MemoryBucket::new());
    let fixture = fill(&(memory.clone() as Arc<dyn Bucket>)).await;
    delete(&fixture.store, &name()).await.unwrap();
    let options = Options::after(Duration::ZERO);
    let collector = Collector::new(fixture.store.clone(), options);
    collector.run_through().await.unwrap();
    let left = keys(&*memory, "snapshots/acme/alice/").await;
    assert!(left.iter().any(|key| key.ends_with("latest.json")), "{left:?}");
    let anew = removal::begin_profile_anew(&fixture.store, &name()).await.unwrap();
    assert_eq!(anew, Anew::ObjectsLeft(left.len() - 1));
    memory.advance(Duration::from_secs(90_000));
    let planned = collector.plan().await.unwrap().leftovers;
    assert_eq!(collector.run().await.unwrap().leftovers, planned, "a plan says what goes");
    assert_eq!(keys(&*memory, "snapshots/acme/alice/").await, ["snapshots/acme/alice/deleted.json"]);
    // And then it may begin anew.
    assert_eq!(removal::begin_profile_anew(&fixture.store, &name()).await.unwrap(), Anew::Begun);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "new").unwrap();
    fixture.snapshot(folder.path()).await.unwrap();
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_program_makes_current_after_a_deletion_is_left_alone() {
    let memory = Arc::new(MemoryBucket::new());
    let fixture = fill(&(memory.clone() as Arc<dyn Bucket>)).await;
    delete(&fixture.store, &name()).await.unwrap();
    let lineage = &fixture.lineage;
    let key = layout::latest(lineage);
    let found = memory.get(&key, u64::MAX).await.unwrap();
    let foreign = serde_json::json!({
        "version": 1,
        "active_sha256_prefix": "0123456789ab",
        "active_archive_key": layout::archive(lineage, "0123456789ab"),
        "active_manifest_key": layout::manifest(lineage, "0123456789ab"),
        "flipped_at_ms": 1,
        "flipped_from_sha256_prefix": "",
    });
    memory.put(&key, foreign.to_string().into_bytes().into(), Write::Replace(found.version)).await.unwrap();
    memory.advance(Duration::from_secs(90_000));
    let options = Options::after(Duration::ZERO);
    Collector::new(fixture.store.clone(), options).burying_at_once().run_through().await.unwrap();
    assert!(keys(&*memory, "snapshots/acme/alice/").await.contains(&key.to_string()));
    let told = profiles::profiles(&fixture.store).await.unwrap();
    let alice = told.iter().find(|profile| profile.name == name()).unwrap();
    assert!(alice.deletion.is_some() && alice.majors.len() == 1, "it is both: {alice:?}");
    // Who says so deletes that, too.
    delete(&fixture.store, &name()).await.unwrap();
    collect(&fixture.store, &*memory, &PROFILE, &TOMBSTONE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_held_keeps_a_profile() {
    let memory = Arc::new(MemoryBucket::new());
    let fixture = fill(&(memory.clone() as Arc<dyn Bucket>)).await;
    let hold = fixture.handle("holder").acquire(Terms::default(), Duration::ZERO).await.unwrap();
    let before = keys(&*memory, "").await;
    assert_eq!(delete(&fixture.store, &name()).await.unwrap_err().kind(), ErrorKind::LockHeld);
    assert_eq!(keys(&*memory, "").await, before);
    hold.release().await.unwrap();
    delete(&fixture.store, &name()).await.unwrap();
    let again = fixture.handle("holder").acquire(Terms::default(), Duration::ZERO).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Deleted);
}
