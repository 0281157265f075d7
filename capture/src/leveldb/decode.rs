//! `decode` reads LevelDB's integers and strings from bytes.

/// The rest of the input. Every read either takes the bytes it needs or fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn varint64(&mut self) -> Option<u64> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            // As LevelDB does, bits beyond the 64th are lost.
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(value);
            }
        }
        None
    }

    pub(super) fn varint32(&mut self) -> Option<u32> {
        let mut ahead = *self;
        let value = ahead.varint64()?;
        let value = u32::try_from(value).ok()?;
        *self = ahead;
        Some(value)
    }

    /// A length and so many bytes.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.varint32()?;
        self.take(length as usize)
    }
}

/// Checksums are stored rotated and shifted, so that data with checksums inside can be
/// checksummed too.
pub(super) fn unmasked(stored: u32) -> u32 {
    stored.wrapping_sub(0xa282_ead8).rotate_right(17)
}

pub(super) fn fixed32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
pub(super) fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_or_refused() {
        assert_eq!(Input::new(&[0xac, 0x02]).varint64(), Some(300));
        assert_eq!(Input::new(&[0xff; 9]).varint64(), None);
        assert_eq!(Input::new(&[0xff; 20]).varint64(), None);
        assert_eq!(Input::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32(), None);
        assert_eq!(Input::new(&[3, 1, 2]).string(), None);
        assert_eq!(Input::new(&[2, 1, 2, 9]).string(), Some(&[1, 2][..]));
        assert_eq!(unmasked(masked(0x1234_5678)), 0x1234_5678);
    }
}
