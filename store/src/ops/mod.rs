//! Holds the verbs, by room: `write`, `read`, `gc`, `verify`, `archive`; and those that change the catalog
//! alone.

pub mod archive;
pub mod gc;
pub mod point_of_no_return;
pub mod pointer_move;
pub mod read;
pub mod reap;
pub mod removal;
pub mod retention;
pub mod tag;
pub mod verify;
pub mod work_in_progress;
pub mod write;
