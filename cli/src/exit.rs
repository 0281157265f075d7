//! Exit codes. The table for people is docs/exit-codes.md; a test keeps the two equal.

use store::ErrorKind;

pub(crate) const INTERRUPTED: u8 = 130;

/// Codes are only ever added.
pub(crate) const fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Internal => 1,
        ErrorKind::InvalidInput => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Ambiguous => 4,
        ErrorKind::TargetExists => 5,
        ErrorKind::Io => 6,
        ErrorKind::Damaged => 10,
        ErrorKind::UnsupportedFormat => 11,
        ErrorKind::StoreRefused => 12,
        ErrorKind::Denied => 13,
        ErrorKind::Unavailable => 14,
        ErrorKind::PointerNotFlipped => 20,
        ErrorKind::PointerUnknown => 21,
        ErrorKind::WriteRevoked => 22,
        ErrorKind::SourceChanged => 23,
    }
}

/// The kind's name in JSON.
pub(crate) const fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Internal => "internal",
        ErrorKind::InvalidInput => "invalid_input",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Ambiguous => "ambiguous",
        ErrorKind::TargetExists => "target_exists",
        ErrorKind::Io => "io",
        ErrorKind::Damaged => "damaged",
        ErrorKind::UnsupportedFormat => "unsupported_format",
        ErrorKind::StoreRefused => "store_refused",
        ErrorKind::Denied => "denied",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::PointerNotFlipped => "pointer_not_flipped",
        ErrorKind::PointerUnknown => "pointer_unknown",
        ErrorKind::WriteRevoked => "write_revoked",
        ErrorKind::SourceChanged => "source_changed",
    }
}
