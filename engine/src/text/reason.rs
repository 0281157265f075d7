//! `reason` checks the reasons that people give for a change, which are written into the log.

use store::format::event::MAX_REASON_BYTES;

use crate::failure::Failure;

/// A reason as it can be kept.
pub fn checked(reason: &str) -> Result<String, Failure> {
    let reason = reason.trim();
    if reason.len() > MAX_REASON_BYTES {
        return Err(Failure::usage(format!("--reason is longer than {MAX_REASON_BYTES} bytes")));
    }
    Ok(reason.to_owned())
}
