//! These tests run every verb that touches the bucket, with every one of its calls failing in every way, and kill
//! the program in the middle of each: the invariants of the format hold afterwards, and whoever comes next
//! succeeds.
//!
//! What holds is told by the program's own `verify` and by [`tests::checker`], which knows the
//! format's page and none of the program's decoders. `PSTORE_KILL_ROUNDS` is how often each
//! verb is killed.

mod act;
mod killed;
mod scenario;

use std::{fs, path::Path, sync::Arc};

use futures::{StreamExt, stream};
use store::{
    Error,
    bucket::{Fault, FaultBucket, Rule},
    ops::gc::Collector,
};
use tests::{
    checker::{self, State},
    tree::noise,
};

use act::Act;
use scenario::{LATER, NOW, Template};

/// Runs at once: most of them wait for their next attempt.
const AT_ONCE: usize = 24;

fn fill(source: &Path, generation: u64) {
    fs::create_dir_all(source).unwrap();
    fs::write(source.join("shared"), noise(150_000, 7)).unwrap();
    fs::write(source.join("own"), noise(100_000, 100 + generation)).unwrap();
    fs::write(source.join("generation"), generation.to_string()).unwrap();
}

/// How many calls an act makes when nothing goes wrong.
async fn calls(template: &Template, act: Act) -> u64 {
    let memory = template.bucket().await;
    act.prepare(&template.scenario(memory.clone()).await, &memory).await;
    let counting = Arc::new(FaultBucket::new(memory));
    let scenario = template.scenario(counting.clone()).await;
    let opening = counting.calls();
    act.act(&scenario).await.unwrap();
    counting.calls() - opening
}

/// Lets the k-th call of an act fail, and looks at what is left.
async fn run_with_fault(template: &Template, act: Act, fault: Fault, k: u64) {
    let at = format!("{act:?} with {fault:?} at call {k}");
    let memory = template.bucket().await;
    let calm = template.scenario(memory.clone()).await;
    act.prepare(&calm, &memory).await;
    let before = checker::look(&*memory).await;
    let faulty = Arc::new(FaultBucket::new(memory.clone()));
    let scenario = template.scenario(faulty.clone()).await;
    // Counted from here: opening the store is over.
    faulty.inject(Rule::new(fault).nth(k));
    let result = act.act(&scenario).await;
    assert_eq!(faulty.strikes(), 1, "{at}: it was not struck");
    assert_ne!(result.as_ref().map_err(Error::kind).err(), Some(store::ErrorKind::Internal), "{at}");

    let after = checker::look(&*memory).await;
    whole(&after, &before, act, &at);
    calm.fixture.assert_clean().await;
    // Whoever died may have left a lock and a lease; they expire.
    memory.advance(LATER);
    let next = calm.fixture.snapshot(calm.next).await;
    assert!(next.is_ok(), "{at}: the next snapshot: {next:?}");
    Collector::new(calm.fixture.store.clone(), NOW).run_through().await.unwrap();
    whole(&checker::look(&*memory).await, &after, Act::Snapshot, &at);
    calm.fixture.assert_clean().await;
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
        let count = calls(&template, act).await;
        assert!(count >= 2, "{act:?} makes only {count} calls");
        strikes.extend((1..=count).map(|k| (act, k)));
    }
    let runs = stream::iter(strikes).map(|(act, k)| {
        let template = Arc::clone(&template);
        // Its future borrows too much to be moved to another thread, so a thread is moved to it.
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(run_with_fault(&template, act, fault, k)))
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
