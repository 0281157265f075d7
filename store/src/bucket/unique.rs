//! `put_unique` writes an object whose name belongs to this write alone.
//!
//! A pack carries a fresh random name, so an object that is found under that name was put
//! there by an earlier delivery of this very write. That is what makes it safe to send
//! again after an ambiguous answer, which no other conditional write may do.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use bytes::Bytes;

use super::{Body, Bucket, BucketError, Key, Result, Write};

/// How much of an object is read back at a time to be compared.
const COMPARE_BYTES: u64 = 1 << 20;

/// Creates `key`, sending the same bytes under the same condition again while the answer is
/// ambiguous and the bucket's patience lasts.
///
/// Only for keys that nobody else can choose: an object that is there already was put there
/// by an earlier delivery of this write, if it is equal, even one that a proxy made for us.
pub async fn put_unique(bucket: &dyn Bucket, key: &Key, body: Body) -> Result<()> {
    let mut attempts = bucket.retry_policy().start();
    loop {
        match put_unique_once(bucket, key, body.clone()).await {
            Err(error) if error.is_retryable() && attempts.again(&error).await => {}
            answer => return answer,
        }
    }
}

/// As [`put_unique`], sent once; a caller that counts attempts sends it again.
pub async fn put_unique_once(bucket: &dyn Bucket, key: &Key, body: Body) -> Result<()> {
    match bucket.put(key, body.clone(), Write::Create).await {
        Ok(_) => Ok(()),
        Err(BucketError::AlreadyExists { .. }) if equals(bucket, key, &body).await? => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether the object holds exactly this, read back piece by piece, and not a byte more.
async fn equals(bucket: &dyn Bucket, key: &Key, body: &Body) -> Result<bool> {
    let len = body.len();
    let mut start = 0;
    while start < len {
        let end = len.min(start + COMPARE_BYTES);
        match bucket.get_range(key, start..end).await {
            Ok(stored) if stored == piece(body, start, end).await? => start = end,
            Ok(_) | Err(BucketError::Truncated { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    match bucket.get_range(key, len..len + 1).await {
        Ok(_) => Ok(false),
        Err(BucketError::Truncated { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

async fn piece(body: &Body, start: u64, end: u64) -> Result<Bytes> {
    match body {
        Body::Bytes(bytes) => Ok(bytes.slice(start as usize..end as usize)),
        Body::File { path, .. } => {
            let from = path.clone();
            let read = tokio::task::spawn_blocking(move || read_piece(&from, start, end));
            let piece = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            piece.map_err(|source| BucketError::Io { path: path.display().to_string(), source })
        }
    }
}

fn read_piece(path: &Path, start: u64, end: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; (end - start) as usize];
    File::open(path)?.read_exact_at(&mut bytes, start)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::Instant;

    use super::*;
    use crate::bucket::{
        DelayBucket, Fault, FaultBucket, MemoryBucket, Recorder, RetryBucket, RetryPolicy, Rule, Verb,
    };

    const SMALL: usize = 10;
    const LARGE: usize = 2 * COMPARE_BYTES as usize + 1;

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_is_made_good() {
        let key = Key::new("pack").unwrap();
        for len in [0, SMALL, LARGE] {
            for faults in [vec![Fault::Before], vec![Fault::After], vec![Fault::Before, Fault::After]] {
                let bucket = FaultBucket::new(Arc::new(MemoryBucket::new()));
                for (nth, fault) in (1..).zip(faults) {
                    bucket.inject(Rule::new(fault).on(Verb::Create).nth(nth));
                }
                put_unique(&bucket, &key, vec![7; len].into()).await.unwrap();
                assert_eq!(bucket.get(&key, u64::MAX).await.unwrap().bytes, vec![7; len]);
            }
        }
    }

    /// However long one delivery takes: a pack on a slow uplink takes minutes.
    #[tokio::test(start_paused = true)]
    async fn it_is_sent_again_for_as_long_as_reads_are() {
        for (seconds, each, calls) in [(0, 0, 1..=1), (60, 0, 13..=600), (60, 20, 4..=4), (60, 300, 3..=3)] {
            let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
            faults.inject(Rule::new(Fault::Before).always());
            let late = Arc::new(DelayBucket::new(faults.clone()));
            late.set(Duration::from_secs(each));
            let deadline = Duration::from_secs(seconds);
            let policy = RetryPolicy { deadline, ..RetryPolicy::default() };
            let bucket = RetryBucket::new(late, policy);
            let started = Instant::now();
            let answer = put_unique(&bucket, &Key::new("pack").unwrap(), vec![7].into()).await;
            assert!(answer.unwrap_err().is_ambiguous());
            assert!(calls.contains(&faults.calls()), "{seconds} s, each {each} s: {} calls", faults.calls());
            let (spent, each) = (started.elapsed(), Duration::from_secs(each));
            assert!(spent >= deadline.saturating_sub(policy.longest_pause), "{spent:?}");
            assert!(spent <= deadline + each * 3 + policy.longest_pause, "{spent:?}");
        }
    }

    /// Somebody else's object of the same name is found out even after a lost answer.
    #[tokio::test(start_paused = true)]
    async fn other_content_is_not_taken_for_ours() {
        let key = Key::new("pack").unwrap();
        for (len, found) in [(SMALL, SMALL - 1), (SMALL, SMALL + 1), (LARGE, LARGE - 1), (0, 1)] {
            let bucket = FaultBucket::new(Arc::new(MemoryBucket::new()));
            put_unique(&bucket, &key, vec![7; found].into()).await.unwrap();
            bucket.inject(Rule::new(Fault::Before).on(Verb::Create));
            let answer = put_unique(&bucket, &key, vec![7; len].into()).await;
            assert!(matches!(answer, Err(BucketError::AlreadyExists { .. })), "{answer:?}");
        }
    }

    /// One byte differs, anywhere, in memory or in a file.
    #[tokio::test(start_paused = true)]
    async fn an_object_of_the_same_length_is_not_taken_for_ours() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::new("pack").unwrap();
        for at in [0, COMPARE_BYTES as usize, LARGE - 1] {
            let mut foreign = vec![7; LARGE];
            foreign[at] = 8;
            let memory = MemoryBucket::new();
            memory.put(&key, foreign.into(), Write::Create).await.unwrap();
            let path = folder.path().join("ours");
            std::fs::write(&path, vec![7; LARGE]).unwrap();
            for body in [vec![7; LARGE].into(), Body::File { path, len: LARGE as u64 }] {
                let answer = put_unique(&memory, &key, body).await;
                assert!(matches!(answer, Err(BucketError::AlreadyExists { .. })), "{answer:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_file_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        std::fs::write(&path, vec![7; LARGE]).unwrap();
        let (memory, key) = (MemoryBucket::new(), Key::new("pack").unwrap());
        for _ in 0..2 {
            put_unique(&memory, &key, Body::File { path: path.clone(), len: LARGE as u64 }).await.unwrap();
        }
    }

    /// No piece is larger than is bearable.
    #[tokio::test]
    async fn it_is_read_back_in_pieces() {
        let recorder = Recorder::new(Arc::new(MemoryBucket::new()));
        let key = Key::new("pack").unwrap();
        for _ in 0..2 {
            put_unique(&recorder, &key, vec![7; LARGE].into()).await.unwrap();
        }
        assert_eq!(recorder.downloaded_bytes(), LARGE as u64);
        assert!(recorder.calls().iter().all(|call| call.verb == Verb::Create || call.bytes <= COMPARE_BYTES));
    }

    #[tokio::test]
    async fn what_is_there_with_another_content_is_not_ours() {
        let bucket = MemoryBucket::new();
        let key = Key::new("pack").unwrap();
        put_unique(&bucket, &key, b"1".to_vec().into()).await.unwrap();
        put_unique(&bucket, &key, b"1".to_vec().into()).await.unwrap();
        let answer = put_unique(&bucket, &key, b"2".to_vec().into()).await;
        assert!(matches!(answer, Err(BucketError::AlreadyExists { .. })), "{answer:?}");
    }
}
