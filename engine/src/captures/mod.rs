//! `captures` makes snapshots of profile directories, for every verb that captures one.
//!
//! It ends the browser first, or leaves it running on a mount ([`ProfileToCapture`]). Then it stores the directory, as [`CaptureOptions`] say, and
//! describes the result as [`CapturedFields`].

mod advice;
mod fields;
mod job;
mod observed;
mod options;
mod to_capture;

pub use advice::{over_quota, rollback_to, warnings};
pub use fields::{CapturedFields, HeldBackFor, PointerChange, SkippedFields, StoreChange};
pub use job::{CaptureJob, Judgement, about_rescued, expected};
pub use options::{CaptureMode, CaptureOptions, CheckDepth, CheckOptions, HOT_MODE_PAGE, refused_hot};
pub use to_capture::{ProfileToCapture, in_use};
