//! Captures, asked for with the words of the command line.

use engine::failure::Failure;
use store::{ErrorKind, ops::write::snapshot::Report};

use crate::args::CaptureArgs;

pub(super) use engine::captures::rollback_to as moving;

pub(super) fn check(args: &CaptureArgs) -> Result<(), Failure> {
    args.options().check()
}

/// The verdict on a snapshot that was stored and held back.
pub(super) fn held_back(report: &Report) -> Option<(ErrorKind, String)> {
    let held = report.held_back.as_ref()?;
    let message = format!(
        "snapshot {} is stored, but is not made the current one: {}",
        report.sha256_prefix, held.reason
    );
    Some((ErrorKind::HeldBack, message))
}
