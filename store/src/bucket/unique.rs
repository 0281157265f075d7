//! Writing an object whose name belongs to this write alone.
//!
//! A pack carries a fresh random name, so whatever is found under that name was put
//! there by an earlier delivery of this very write. That is what makes it safe to send
//! again after an ambiguous answer, which no other conditional write may do.

use super::{Body, Bucket, BucketError, Key, Result, RetryPolicy, Write};

const ATTEMPTS: u32 = 5;

/// Up to this size the whole object is compared, above it only its length.
const COMPARE_MAX_BYTES: u64 = 1 << 20;

/// Creates `key`, sending again while the answer is ambiguous.
///
/// Only for keys that nobody else can choose: an object that is there already was put there
/// by an earlier delivery of this write, if it is equal, even one that a proxy made for us.
pub async fn put_unique(bucket: &dyn Bucket, key: &Key, body: Body) -> Result<()> {
    let policy = RetryPolicy::default();
    let mut attempt = 0;
    loop {
        let error = match bucket.put(key, body.clone(), Write::Create).await {
            Ok(_) => return Ok(()),
            Err(BucketError::AlreadyExists { .. }) => {
                return must_equal(bucket, key, &body).await;
            }
            Err(error) if error.is_retryable() => error,
            Err(error) => return Err(error),
        };
        attempt += 1;
        if attempt == ATTEMPTS {
            return Err(error);
        }
        let pause = policy.pause(attempt);
        tracing::debug!(%error, attempt, ?pause, "sending a uniquely named object again");
        tokio::time::sleep(pause).await;
    }
}

async fn must_equal(bucket: &dyn Bucket, key: &Key, body: &Body) -> Result<()> {
    let equal = match body {
        Body::Bytes(bytes) if body.len() <= COMPARE_MAX_BYTES => bucket.get(key).await?.bytes == bytes,
        _ => has_length(bucket, key, body.len()).await?,
    };
    if equal { Ok(()) } else { Err(BucketError::AlreadyExists { key: key.to_string() }) }
}

/// Asks for the last byte and for the one after it: a bucket offers no cheaper question
/// that every store answers.
async fn has_length(bucket: &dyn Bucket, key: &Key, len: u64) -> Result<bool> {
    if len > 0 {
        match bucket.get_range(key, len - 1..len).await {
            Ok(_) => {}
            Err(BucketError::Truncated { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    match bucket.get_range(key, len..len + 1).await {
        Ok(_) => Ok(false),
        Err(BucketError::Truncated { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        super::{Fault, FaultBucket, MemoryBucket, Rule, Verb},
        *,
    };

    const SMALL: usize = 10;
    const LARGE: usize = COMPARE_MAX_BYTES as usize + 1;

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
                assert_eq!(bucket.get(&key).await.unwrap().bytes, vec![7; len]);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn five_lost_answers_are_enough() {
        let bucket = FaultBucket::new(Arc::new(MemoryBucket::new()));
        bucket.inject(Rule::new(Fault::Before).always());
        let answer = put_unique(&bucket, &Key::new("pack").unwrap(), vec![7].into()).await;
        assert!(answer.unwrap_err().is_ambiguous());
        assert_eq!(bucket.calls(), 5);
    }

    /// Somebody else's object of the same name is found out even after a lost answer.
    #[tokio::test(start_paused = true)]
    async fn other_content_is_not_taken_for_ours() {
        let key = Key::new("pack").unwrap();
        for len in [SMALL, LARGE] {
            let bucket = FaultBucket::new(Arc::new(MemoryBucket::new()));
            put_unique(&bucket, &key, vec![7; len - 1].into()).await.unwrap();
            bucket.inject(Rule::new(Fault::Before).on(Verb::Create));
            let answer = put_unique(&bucket, &key, vec![7; len].into()).await;
            assert!(matches!(answer, Err(BucketError::AlreadyExists { .. })), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn a_length_is_told_by_the_last_byte_and_the_one_after() {
        let bucket = MemoryBucket::new();
        for len in [0_u64, 1, 5] {
            let key = Key::new(format!("k{len}")).unwrap();
            put_unique(&bucket, &key, vec![1; len as usize].into()).await.unwrap();
            assert!(has_length(&bucket, &key, len).await.unwrap());
            assert!(!has_length(&bucket, &key, len + 1).await.unwrap());
            assert!(len == 0 || !has_length(&bucket, &key, len - 1).await.unwrap());
        }
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
