//! `overlay` keeps what has changed since the snapshot: in memory, written ahead to a journal, its
//! bytes in sparse files.
//!
//! Every change is a [`change::Change`]: it is appended to the journal and then applied to
//! the [`inode_table::InodeTable`], by the same code that applies it again after a crash. So what a
//! resumed session shows is what the one before had shown. What was not changed is not in the table: [`nodes::Nodes`]
//! finds it in the snapshot below.

pub mod base_tree;
pub mod change;
pub mod checkpoint;
pub mod chronicle;
pub mod collect;
pub mod inode_table;
pub mod journal;
pub mod journal_room;
pub mod node;
pub mod nodes;
pub mod numbers;
pub mod places;
pub mod rebase;
pub mod recovery;
pub mod session;
pub mod spans;
pub mod tree_changes;
pub mod upper;
