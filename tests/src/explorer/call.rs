//! `Op` is a call of a process to the bucket, and `Reply` its answer.

use bytes::Bytes;
use store::bucket::{Deleted, Depth, Key, Object, Page, Prefix, Version, Write};

#[derive(Clone, Debug)]
pub enum Op {
    Get(Key),
    Put { key: Key, bytes: Bytes, write: Write },
    List { prefix: Prefix, depth: Depth, cursor: Option<String> },
    Delete(Key),
    DeleteIf { key: Key, version: Version },
}

#[derive(Debug)]
pub enum Reply {
    Object(Object),
    Version(Version),
    Page(Page),
    Deleted(Deleted),
    Done,
}
