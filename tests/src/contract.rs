//! `contract` runs one set of scenarios that every bucket must pass.
//!
//! Each scenario works below a prefix of its own, so one store serves them all.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use store::bucket::{Body, Bucket, BucketError, Deleted, Depth, Key, Prefix, Version, Write};

use crate::unique_name;

const RACERS: usize = 8;

/// Runs every scenario; a failure panics after naming its scenario on stderr.
pub async fn hold(bucket: Arc<dyn Bucket>) {
    macro_rules! run {
        ($($scenario:ident),* $(,)?) => {$(
            eprintln!("{}: {}", bucket.describe(), stringify!($scenario));
            $scenario(Place::new(&bucket)).await;
        )*};
    }
    run![
        what_was_created_is_read_back,
        a_create_never_overwrites,
        a_replace_needs_the_version_that_is_there,
        what_is_missing_is_not_found,
        a_range_is_exact_or_truncated,
        what_is_larger_than_its_reader_takes_is_refused,
        a_delete_is_final_and_may_be_repeated,
        a_conditional_delete_spares_other_versions,
        a_listing_shows_everything_below_its_prefix,
        children_are_objects_and_folders,
        a_file_is_stored_as_its_bytes,
        a_pack_sized_object_survives,
        one_of_many_creates_wins,
        one_of_many_replaces_wins,
        no_increment_of_a_shared_counter_is_lost,
    ];
}

/// A bucket and a prefix in it that nobody else uses.
struct Place {
    bucket: Arc<dyn Bucket>,
    prefix: Prefix,
}

impl Place {
    fn new(bucket: &Arc<dyn Bucket>) -> Self {
        let prefix = Prefix::new(format!("contract/{}/", unique_name())).unwrap();
        Self { bucket: Arc::clone(bucket), prefix }
    }

    fn key(&self, rest: &str) -> Key {
        self.prefix.key(rest).unwrap()
    }

    async fn create(&self, rest: &str, bytes: impl Into<Bytes>) -> Version {
        self.bucket.put(&self.key(rest), bytes.into().into(), Write::Create).await.unwrap()
    }

    async fn bytes(&self, rest: &str) -> Bytes {
        self.bucket.get(&self.key(rest), u64::MAX).await.unwrap().bytes
    }

    /// Keys and folders over all pages, without the prefix.
    async fn names(&self, below: &str, depth: Depth) -> BTreeSet<String> {
        let prefix = self.prefix.join(below).unwrap();
        let mut names = BTreeSet::new();
        let mut cursor = None;
        loop {
            let page = self.bucket.list(&prefix, depth, cursor).await.unwrap();
            let keys = page.entries.iter().map(|entry| entry.key.as_str());
            for name in keys.chain(page.folders.iter().map(Prefix::as_str)) {
                let rest = name.strip_prefix(self.prefix.as_str()).expect("below the prefix");
                assert!(names.insert(rest.to_owned()), "{name} is listed twice");
            }
            cursor = page.next;
            if cursor.is_none() {
                return names;
            }
        }
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

async fn what_was_created_is_read_back(place: Place) {
    for (name, bytes) in
        [("empty", Bytes::new()), ("one", Bytes::from_static(b"1")), ("nul", vec![0; 4096].into())]
    {
        let version = place.create(name, bytes.clone()).await;
        let object = place.bucket.get(&place.key(name), u64::MAX).await.unwrap();
        assert_eq!(object.bytes, bytes);
        assert_eq!(object.version, version);
        assert!(object.stamp.age() < Duration::from_secs(60), "{:?}", object.stamp);
        let ahead = object.stamp.modified.duration_since(object.stamp.now).unwrap_or_default();
        assert!(ahead <= Duration::from_secs(1), "{:?}", object.stamp);
    }
}

async fn a_create_never_overwrites(place: Place) {
    let version = place.create("a", "first").await;
    for bytes in ["first", "second"] {
        let answer = place.bucket.put(&place.key("a"), bytes.as_bytes().to_vec().into(), Write::Create).await;
        assert!(matches!(answer, Err(BucketError::AlreadyExists { .. })), "{answer:?}");
    }
    let object = place.bucket.get(&place.key("a"), u64::MAX).await.unwrap();
    assert_eq!((&object.bytes[..], object.version), (&b"first"[..], version));
}

async fn a_replace_needs_the_version_that_is_there(place: Place) {
    let key = place.key("a");
    let replace = |bytes: &'static str, version: &Version| {
        let (bucket, key, write) = (place.bucket.clone(), key.clone(), Write::Replace(version.clone()));
        async move { bucket.put(&key, bytes.as_bytes().to_vec().into(), write).await }
    };
    let first = place.create("a", "first").await;
    let second = replace("second", &first).await.unwrap();
    assert_ne!(first, second);
    let answer = replace("third", &first).await;
    assert!(matches!(answer, Err(BucketError::VersionMismatch { .. })), "{answer:?}");
    assert_eq!(&place.bytes("a").await[..], b"second");
    let third = replace("third", &second).await.unwrap();
    assert_eq!(place.bucket.get(&key, u64::MAX).await.unwrap().version, third);

    place.bucket.delete(&key).await.unwrap();
    let answer = replace("fourth", &third).await;
    assert!(matches!(answer, Err(BucketError::VersionMismatch { .. })), "{answer:?}");
    let answer = place.bucket.get(&key, u64::MAX).await;
    assert!(matches!(answer, Err(BucketError::NotFound { .. })), "{answer:?}");
}

async fn what_is_missing_is_not_found(place: Place) {
    let answer = place.bucket.get(&place.key("no/such"), u64::MAX).await.map(drop);
    assert!(matches!(answer, Err(BucketError::NotFound { .. })), "{answer:?}");
    let answer = place.bucket.get_range(&place.key("no/such"), 0..1).await.map(drop);
    assert!(matches!(answer, Err(BucketError::NotFound { .. })), "{answer:?}");
    assert!(place.names("no/", Depth::All).await.is_empty());
    assert!(place.names("no/", Depth::Children).await.is_empty());
}

async fn a_range_is_exact_or_truncated(place: Place) {
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    place.create("a", bytes.clone()).await;
    let key = place.key("a");
    for range in [0..1, 0..1000, 1..999, 999..1000, 500..600] {
        let got = place.bucket.get_range(&key, range.clone()).await.unwrap();
        assert_eq!(got, bytes[range.start as usize..range.end as usize]);
    }
    assert!(place.bucket.get_range(&key, 7..7).await.unwrap().is_empty());
    for range in [0..1001, 999..1001, 1000..1001, 5000..5001] {
        let answer = place.bucket.get_range(&key, range).await;
        assert!(matches!(answer, Err(BucketError::Truncated { .. })), "{answer:?}");
    }
    place.create("empty", Bytes::new()).await;
    let answer = place.bucket.get_range(&place.key("empty"), 0..1).await;
    assert!(matches!(answer, Err(BucketError::Truncated { .. })), "{answer:?}");
}

/// A caller that knows better can still replace it: the refusal names the version.
async fn what_is_larger_than_its_reader_takes_is_refused(place: Place) {
    let key = place.key("a");
    place.create("a", vec![7; 3000]).await;
    assert_eq!(place.bucket.get(&key, 3000).await.unwrap().bytes.len(), 3000);
    for limit in [0, 2999] {
        match place.bucket.get(&key, limit).await {
            Err(BucketError::TooLarge { key: named, bytes: 3000, max_bytes, version }) => {
                assert_eq!((named.as_str(), max_bytes), (key.as_str(), limit));
                assert_eq!(Version::new(version), place.bucket.get(&key, 3000).await.unwrap().version);
            }
            answer => panic!("{answer:?}"),
        }
    }
    let Err(BucketError::TooLarge { version, .. }) = place.bucket.get(&key, 1).await else { panic!() };
    let write = Write::Replace(Version::new(version));
    place.bucket.put(&key, b"small".to_vec().into(), write).await.unwrap();
    assert_eq!(&place.bytes("a").await[..], b"small");
}

async fn a_delete_is_final_and_may_be_repeated(place: Place) {
    place.create("a/b", "1").await;
    for _ in 0..2 {
        place.bucket.delete(&place.key("a/b")).await.unwrap();
        assert!(place.names("", Depth::All).await.is_empty());
        // Some servers show the folder a while longer, but never the object.
        assert!(!place.names("a/", Depth::Children).await.contains("a/b"));
    }
    place.bucket.delete(&place.key("never/was")).await.unwrap();
    place.create("a/b", "2").await;
    assert_eq!(&place.bytes("a/b").await[..], b"2");
}

async fn a_conditional_delete_spares_other_versions(place: Place) {
    let key = place.key("a");
    let first = place.create("a", "first").await;
    let write = Write::Replace(first.clone());
    let second = place.bucket.put(&key, b"second".to_vec().into(), write).await.unwrap();
    match place.bucket.delete_if(&key, &first).await {
        Err(BucketError::VersionMismatch { .. }) => {
            assert_eq!(place.bucket.delete_if(&key, &second).await.unwrap(), Deleted::Yes);
            assert!(place.names("", Depth::All).await.is_empty());
        }
        Ok(Deleted::Unsupported) => assert_eq!(&place.bytes("a").await[..], b"second"),
        answer => panic!("{answer:?}"),
    }
}

async fn a_listing_shows_everything_below_its_prefix(place: Place) {
    let mut expected = BTreeSet::new();
    for number in 0..25 {
        let name = format!("in/{}/{number:02}", number % 3);
        place.create(&name, vec![0; number]).await;
        expected.insert(name);
    }
    place.create("in.2", "beside").await;
    place.create("inn/a", "beside").await;
    assert_eq!(place.names("in/", Depth::All).await, expected);

    let prefix = place.prefix.join("in/1/").unwrap();
    let mut cursor = None;
    loop {
        let page = place.bucket.list(&prefix, Depth::All, cursor).await.unwrap();
        for entry in page.entries {
            assert_eq!(entry.size, entry.key.name().parse::<u64>().unwrap());
            let age = entry.modified.elapsed().unwrap_or_default();
            assert!(age < Duration::from_secs(3600), "{age:?}");
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
}

async fn children_are_objects_and_folders(place: Place) {
    for name in ["a", "b/1", "b/2/3", "b.c", "d/e/f/g", "z"] {
        place.create(name, "x").await;
    }
    assert_eq!(place.names("", Depth::Children).await, set(&["a", "b/", "b.c", "d/", "z"]));
    assert_eq!(place.names("b/", Depth::Children).await, set(&["b/1", "b/2/"]));
    assert_eq!(place.names("d/", Depth::Children).await, set(&["d/e/"]));

    for number in 0..20 {
        place.create(&format!("many/{number:02}/x"), "x").await;
    }
    assert_eq!(place.names("many/", Depth::Children).await.len(), 20);
}

async fn a_file_is_stored_as_its_bytes(place: Place) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("source");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    std::fs::write(&path, &bytes).unwrap();
    let body = Body::File { path, len: bytes.len() as u64 };
    place.bucket.put(&place.key("a"), body.clone(), Write::Create).await.unwrap();
    assert_eq!(place.bytes("a").await, bytes);
    let answer = place.bucket.put(&place.key("a"), body, Write::Create).await;
    assert!(matches!(answer, Err(BucketError::AlreadyExists { .. })), "{answer:?}");
}

async fn a_pack_sized_object_survives(place: Place) {
    let bytes: Bytes = (0..16_u32 << 18).flat_map(u32::to_le_bytes).collect::<Vec<_>>().into();
    let key = place.key("pack");
    place.bucket.put(&key, bytes.clone().into(), Write::Create).await.unwrap();
    assert_eq!(
        place.bucket.get_range(&key, 7_000_001..7_300_000).await.unwrap(),
        bytes[7_000_001..7_300_000]
    );
    assert!(place.bytes("pack").await == bytes);
}

/// The winner of a race by the store's answers, or by its content where an answer was
/// ambiguous; the loser's answers must be refusals.
async fn winner(place: &Place, racers: Vec<tokio::task::JoinHandle<Result<Version, BucketError>>>) {
    let content = |racer: usize| format!("racer {racer}");
    let mut won = Vec::new();
    let mut open = Vec::new();
    for (racer, task) in racers.into_iter().enumerate() {
        match task.await.unwrap() {
            Ok(_) => won.push(racer),
            Err(error) if error.is_ambiguous() => open.push(racer),
            Err(
                BucketError::AlreadyExists { .. }
                | BucketError::VersionMismatch { .. }
                | BucketError::Contended { .. },
            ) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let found = place.bytes("a").await;
    won.extend(open.into_iter().filter(|racer| found == content(*racer)));
    assert_eq!(won.len(), 1, "winners: {won:?}");
    assert_eq!(found, content(won[0]));
}

fn race(place: &Place, write: &Write) -> Vec<tokio::task::JoinHandle<Result<Version, BucketError>>> {
    (0..RACERS)
        .map(|racer| {
            let (bucket, key, write) = (Arc::clone(&place.bucket), place.key("a"), write.clone());
            tokio::spawn(async move {
                bucket.put(&key, format!("racer {racer}").into_bytes().into(), write).await
            })
        })
        .collect()
}

async fn one_of_many_creates_wins(place: Place) {
    winner(&place, race(&place, &Write::Create)).await;
}

async fn one_of_many_replaces_wins(place: Place) {
    let version = place.create("a", "start").await;
    winner(&place, race(&place, &Write::Replace(version))).await;
}

/// A line is added by read, then replace. A lost update would lose a line, and a write
/// applied twice would repeat one.
async fn no_increment_of_a_shared_counter_is_lost(place: Place) {
    let place = Arc::new(place);
    place.create("a", "").await;
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let place = Arc::clone(&place);
            tokio::spawn(async move {
                for round in 0..3 {
                    add_line(&place, &format!("{task}.{round}")).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let text = String::from_utf8(place.bytes("a").await.to_vec()).unwrap();
    let lines: BTreeSet<_> = text.lines().collect();
    assert_eq!((lines.len(), text.lines().count()), (12, 12), "{text}");
}

async fn add_line(place: &Place, line: &str) {
    loop {
        let object = place.bucket.get(&place.key("a"), u64::MAX).await.unwrap();
        let text = String::from_utf8(object.bytes.to_vec()).unwrap();
        if text.lines().any(|have| have == line) {
            return;
        }
        let body = format!("{text}{line}\n").into_bytes().into();
        match place.bucket.put(&place.key("a"), body, Write::Replace(object.version)).await {
            Ok(_) => return,
            Err(BucketError::VersionMismatch { .. }) => {}
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
}
