//! `captures` makes snapshots of profile directories, for every verb that captures one.
//!
//! It ends the browser first ([`StoppedProfile`]). Then it stores the directory, as [`CaptureOptions`] say, and
//! describes the result as [`CapturedFields`].

mod advice;
mod fields;
mod job;
mod observed;
mod options;
mod stopped;

pub use advice::{over_quota, rollback_to, warnings};
pub use fields::{CapturedFields, HeldBackFor, PointerChange, SkippedFields, StoreChange};
pub use job::{CaptureJob, Judgement, about_rescued, expected};
pub use options::{CaptureMode, CaptureOptions, CheckDepth, CheckOptions};
pub use stopped::{StoppedProfile, in_use};
