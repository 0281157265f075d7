//! Puts a store into a bucket of one's own: here a directory that counts the bytes it is asked for.
//!
//!     cargo run -p pstore-store --example a_custom_bucket -- /tmp/counted ./profile

use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Store,
    bucket::{
        Access, Body, Bucket, Deleted, Depth, Key, LocalBucket, Object, Page, Prefix, Result, Version, Write,
    },
};

/// Counts what is read from another bucket. A bucket for another kind of server has the same six requests
/// to answer; the first lines of `store::bucket` say what each must promise.
#[derive(Debug)]
struct Counted {
    inner: LocalBucket,
    read: AtomicU64,
}

#[async_trait]
impl Bucket for Counted {
    fn describe(&self) -> String {
        format!("{}, counted", self.inner.describe())
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let object = self.inner.get(key, max_bytes).await?;
        self.read.fetch_add(object.bytes.len() as u64, Ordering::Relaxed);
        Ok(object)
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.inner.get_range(key, range).await?;
        self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        self.inner.put(key, body, write).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.inner.list(prefix, depth, cursor).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.inner.delete(key).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.inner.delete_if(key, version).await
    }
}

#[tokio::main]
async fn main() -> store::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(root), Some(directory)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: a_custom_bucket ROOT DIRECTORY");
        std::process::exit(2);
    };
    let inner = LocalBucket::open(Path::new(&root), Access::Create)?;
    let bucket = Arc::new(Counted { inner, read: AtomicU64::new(0) });
    let store = Store::new(Arc::clone(&bucket) as Arc<dyn Bucket>, None);
    store.init(Default::default()).await?;
    let alice = store.profile("acme/alice", 131).await?;
    let stored = alice.snapshot(directory).await?;
    println!("{} files stored, {} bytes read", stored.counts.files, bucket.read.load(Ordering::Relaxed));
    Ok(())
}
