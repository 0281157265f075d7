//! The verbs.

pub mod archive;
pub mod commitment;
pub mod gc;
pub mod pointer_move;
pub mod read;
pub mod reap;
pub mod removal;
pub mod retention;
pub mod tag;
pub mod verify;
pub mod write;
