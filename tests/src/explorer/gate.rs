//! `gate` is a bucket whose calls wait until they are let through.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use store::bucket::{
    Body, Bucket, BucketError, Deleted, Depth, Key, Object, Page, Prefix, Result, RetryPolicy, Version, Write,
};

use super::{
    call::{Op, Reply},
    machine::{Machine, Submitted},
};

/// One process's way to the bucket.
#[derive(Debug)]
pub struct Gate {
    pub process: usize,
    pub machine: Arc<Machine>,
}

impl Gate {
    async fn pass(&self, op: Op) -> Result<Reply> {
        let answer = match self.machine.submit(self.process, op) {
            Submitted::Answered(answer) => return answer,
            Submitted::Waits(answer) => answer,
        };
        match answer.await {
            Ok(answer) => answer,
            // The process is dead: nothing ever happens to it again.
            Err(_) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Bucket for Gate {
    fn describe(&self) -> String {
        "explored".to_owned()
    }

    /// No process gives up because another one paused.
    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy::default()
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        match self.pass(Op::Get(key.clone())).await? {
            Reply::Object(object) => object.within(key, max_bytes),
            other => unreachable!("{other:?}"),
        }
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.get(key, u64::MAX).await?.bytes;
        let (start, end, actual) = (range.start, range.end, bytes.len() as u64);
        if end > actual {
            return Err(BucketError::Truncated { key: key.to_string(), actual, start, end });
        }
        Ok(bytes.slice(start as usize..end as usize))
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let Body::Bytes(bytes) = body else { unreachable!("nothing that is explored sends files") };
        match self.pass(Op::Put { key: key.clone(), bytes, write }).await? {
            Reply::Version(version) => Ok(version),
            other => unreachable!("{other:?}"),
        }
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        match self.pass(Op::List { prefix: prefix.clone(), depth, cursor }).await? {
            Reply::Page(page) => Ok(page),
            other => unreachable!("{other:?}"),
        }
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.pass(Op::Delete(key.clone())).await.map(drop)
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        match self.pass(Op::DeleteIf { key: key.clone(), version: version.clone() }).await? {
            Reply::Deleted(deleted) => Ok(deleted),
            other => unreachable!("{other:?}"),
        }
    }
}
