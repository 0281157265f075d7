//! The verbs, one file each: a request, its outcome, and how [`crate::Engine`] gets from one to the other.

pub mod commit;
pub mod delete;
pub mod expect;
pub mod export;
pub mod force_unlock;
pub mod import;
pub mod lock;
pub mod mount;
pub mod mounts;
pub mod reap;
pub mod restore;
pub mod retention;
pub mod rollback;
pub mod sessions;
pub mod snapshot;
pub mod stats;
pub mod tag;
pub mod unmount;
