//! These tests use what a probe found out in later opens, and only on the server it was found on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use store::{
    bucket::{
        Bucket, DelayBucket, Deleted, IfMatch, Key, MemoryBucket, Recorder, S3Bucket, S3Config, ServerFacts,
        Verb, Write,
    },
    catalog::store::Store,
    name::Tenant,
};
use tests::server::SeaweedFs;

fn facts(place: &str, name: &str) -> ServerFacts {
    ServerFacts { place: Some(place.into()), name: Some(name.into()), if_match: Some(IfMatch::Unquoted) }
}

fn acme() -> Tenant {
    "acme".parse().unwrap()
}

/// Opens the tenant for writing; how many writes that took.
async fn writes(memory: &Arc<MemoryBucket>) -> usize {
    let recorder = Arc::new(Recorder::new(memory.clone() as Arc<dyn Bucket>));
    Store::new(recorder.clone(), None).writable_tenant(&acme()).await.unwrap();
    recorder.count(Verb::Create) + recorder.count(Verb::Replace)
}

#[tokio::test]
async fn a_later_open_trusts_what_the_probe_found_without_another_request() {
    let memory = Arc::new(MemoryBucket::new());
    memory.become_server(facts("s3://b", "one"));
    assert!(writes(&memory).await > 24);

    memory.become_server(facts("s3://b", "one"));
    let recorder = Arc::new(Recorder::new(memory.clone() as Arc<dyn Bucket>));
    Store::new(recorder.clone(), None).writable_tenant(&acme()).await.unwrap();
    assert_eq!(recorder.calls().len(), 1, "{:?}", recorder.calls());
    let trusted = memory.trusted().unwrap();
    assert!(trusted.if_match == IfMatch::Unquoted && trusted.conditional_delete, "{trusted:?}");

    memory.become_server(facts("s3://b", "one"));
    Store::new(memory.clone(), None).tenant(&acme()).await.unwrap();
    assert!(memory.trusted().is_some());
}

#[tokio::test]
async fn another_server_is_probed_once_before_it_is_written_to() {
    let memory = Arc::new(MemoryBucket::new());
    memory.become_server(facts("s3://b", "one"));
    writes(&memory).await;
    for other in [facts("s3://b", "two"), facts("s3://b at http://elsewhere", "one")] {
        memory.become_server(other.clone());
        let store = Store::new(memory.clone(), None);
        let reader = store.tenant(&acme()).await.unwrap();
        assert!(!store.is_judged(&reader.config) && memory.trusted().is_none());

        assert!(writes(&memory).await > 24, "{other:?} was not probed");
        assert!(memory.trusted().unwrap().is_on(&other));
        assert_eq!(writes(&memory).await, 0, "{other:?} was probed again");
    }
    // Those that were judged before still are.
    memory.become_server(facts("s3://b", "one"));
    assert_eq!(writes(&memory).await, 0);
    assert_eq!(memory.keys(), ["content/acme/tenant.json", "pstore.json"]);
}

#[tokio::test]
async fn a_new_tenant_of_an_old_store_does_not_inherit_what_was_found_on_another_server() {
    let memory = Arc::new(MemoryBucket::new());
    memory.become_server(facts("s3://b", "one"));
    Store::new(memory.clone(), None).init(Default::default()).await.unwrap();
    memory.become_server(facts("s3://b", "two"));
    assert!(writes(&memory).await > 24);
    assert!(memory.trusted().unwrap().is_on(&facts("s3://b", "two")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_handle_to_a_real_server_knows_how_to_ask_it() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let first = Arc::new(S3Bucket::open(config.clone()).await);
    Store::new(first, None).writable_tenant(&acme()).await.unwrap();

    let later = Arc::new(S3Bucket::open(S3Config { conditional_delete: false, ..config }).await);
    assert_eq!(later.server().if_match, None);
    let recorder = Arc::new(Recorder::new(later.clone() as Arc<dyn Bucket>));
    Store::new(recorder.clone(), None).writable_tenant(&acme()).await.unwrap();
    assert_eq!(recorder.calls().len(), 1, "{:?}", recorder.calls());
    assert_eq!(later.server().if_match, Some(IfMatch::Quoted));
    let key = Key::new("content/acme/scratch").unwrap();
    let version = later.put(&key, b"1".to_vec().into(), Write::Create).await.unwrap();
    assert_eq!(later.delete_if(&key, &version).await.unwrap(), Deleted::Yes);
}

/// Far away every answer that has to be waited for is felt.
#[tokio::test(start_paused = true)]
async fn a_store_at_a_new_address_is_tried_within_twelve_round_trips() {
    // As servers have it: all that a probe writes fits on one page of a listing.
    let memory = Arc::new(MemoryBucket::with_page_size(1000));
    let delayed = Arc::new(DelayBucket::new(memory.clone()));
    delayed.set(Duration::from_secs(1));
    let told = Arc::new(AtomicU32::new(0));
    let open = || async {
        let began = tokio::time::Instant::now();
        let heard = Arc::clone(&told);
        let store = Store::new(delayed.clone(), None).telling(move || {
            heard.fetch_add(1, Ordering::Relaxed);
        });
        store.writable_tenant(&acme()).await.unwrap();
        (began.elapsed().as_secs(), told.swap(0, Ordering::Relaxed))
    };
    memory.become_server(facts("s3://b", "one"));
    let (making, said) = open().await;
    assert!(making <= 14 && said == 1, "{making} round trips to make a store, told {said} times");
    memory.become_server(facts("s3://b at http://elsewhere", "one"));
    let (trying, said) = open().await;
    assert!(trying <= 12 && said == 1, "{trying} round trips, told {said} times");
    assert_eq!(memory.trusted().unwrap().rounds, 24);
    assert_eq!(open().await, (1, 0));
}
