//! `local-writer` writes to a local store in a loop, as a process of its own that a test can kill.
//!
//! `local-writer count ROOT KEY LINES NAME`: adds lines to one object by replacing it.
//! `local-writer put ROOT NAME`: creates and replaces objects until it is killed.

use std::{env, path::Path};

use store::bucket::{Access, Bucket, BucketError, Key, LocalBucket, Write};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["count", root, key, lines, name] => count(root, key, lines.parse().expect("a number"), name).await,
        ["put", root, name] => put(root, name).await,
        _ => panic!("see the head of this file"),
    }
}

fn open(root: &str) -> LocalBucket {
    LocalBucket::open(Path::new(root), Access::ReadWrite).expect("the store opens")
}

async fn count(root: &str, key: &str, lines: usize, name: &str) {
    let (bucket, key) = (open(root), Key::new(key).expect("a key"));
    for line in 0..lines {
        loop {
            let object = bucket.get(&key, u64::MAX).await.expect("the object is there");
            let mut bytes = object.bytes.to_vec();
            bytes.extend(format!("{name}.{line}\n").bytes());
            match bucket.put(&key, bytes.into(), Write::Replace(object.version)).await {
                Ok(_) => break,
                Err(BucketError::VersionMismatch { .. } | BucketError::Contended { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Object `n` is `n` bytes long and filled with one letter, so that a torn one shows.
async fn put(root: &str, name: &str) {
    let bucket = open(root);
    for number in 1.. {
        let len = 1 + number * 7919 % 200_000;
        let key = Key::new(format!("{name}/{}/{number}-{len}", number % 5)).expect("a key");
        let version = bucket.put(&key, vec![b'a'; len].into(), Write::Create).await.expect("it is new");
        if number % 3 == 0 {
            bucket.put(&key, vec![b'b'; len].into(), Write::Replace(version)).await.expect("it is ours");
        }
        if number % 7 == 0 {
            bucket.delete(&key).await.expect("it can be deleted");
        }
    }
}
