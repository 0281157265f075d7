//! Reads and writes the numbers and texts in the fields of a tar header.

use crate::format::{FormatError, Result};

/// Octal digits up to a NUL; 0 for a value that does not fit.
pub(super) fn put_number(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let value = if value < 1 << (3 * digits) { value } else { 0 };
    field[..digits].copy_from_slice(format!("{value:0digits$o}").as_bytes());
}

/// The bytes of a field up to a NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// As [`number`], but none below zero.
pub(super) fn unsigned_number(field: &[u8], what: &str) -> Result<u64> {
    u64::try_from(number(field, what)?)
        .map_err(|_| FormatError::malformed(format!("a tar header with a negative {what}")))
}

/// Octal digits between spaces and NULs, or GNU's big-endian bytes behind a set bit.
pub(super) fn number(field: &[u8], what: &str) -> Result<i64> {
    let bad = || FormatError::malformed(format!("a tar header whose {what} is no number"));
    if field[0] & 0x80 != 0 {
        let negative = field[0] & 0x40 != 0;
        let first = if negative { field[0] } else { field[0] & 0x7f };
        let mut wide = if negative { -1i128 } else { 0 };
        for byte in std::iter::once(&first).chain(&field[1..]) {
            wide = wide << 8 | i128::from(*byte);
        }
        return i64::try_from(wide).map_err(|_| bad());
    }
    let digits = text(field).trim_ascii();
    digits.iter().try_fold(0i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8).map(|value| value + i64::from(digit - b'0')).ok_or_else(bad),
        _ => Err(bad()),
    })
}
