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
use store::bucket::Fault;
use tests::tree::noise;

use act::Act;
use scenario::Template;

/// Runs at once: most of them wait for their next attempt.
const AT_ONCE: usize = 24;

fn fill(source: &Path, generation: u64) {
    fs::create_dir_all(source).unwrap();
    fs::write(source.join("shared"), noise(150_000, 7)).unwrap();
    fs::write(source.join("own"), noise(100_000, 100 + generation)).unwrap();
    fs::write(source.join("generation"), generation.to_string()).unwrap();
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
        tokio::task::spawn_blocking(move || runtime.block_on(template.run_with_fault(act, fault, k)))
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
