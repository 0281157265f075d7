//! `overlay` keeps what has changed since the snapshot: in memory, written ahead to a journal, its
//! bytes in sparse files.
//!
//! Every change is a [`change::Change`]: it is appended to the journal and then applied to
//! the [`inode_table::InodeTable`], by the same code that applies it again after a crash. So what a
//! resumed session shows is what the one before had shown.

pub mod change;
pub mod checkpoint;
pub mod collect;
pub mod inode_table;
pub mod journal;
pub mod node;
pub mod rebase;
pub mod recovery;
pub mod session;
pub mod spans;
pub mod upper;
