//! Reads and writes the primitives of the binary encodings: little-endian integers, canonical varints,
//! length-prefixed bytes.

use super::{FormatError, Result};

/// Reads forward over a slice; every read is bounded by the bytes there are.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| {
            FormatError::malformed(format!("{len} bytes expected, {} left", self.rest.len()))
        })?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Unsigned LEB128 in its shortest form: one number has one spelling.
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(FormatError::malformed("a varint above 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(FormatError::malformed("a varint that is not in its shortest form"));
                }
                return Ok(value);
            }
        }
        Err(FormatError::malformed("a varint above 64 bits"))
    }

    /// A varint no larger than `max`.
    pub fn bounded(&mut self, max: u64, what: &str) -> Result<u64> {
        let value = self.varint()?;
        if value > max {
            return Err(FormatError::malformed(format!("{what} is {value}, at most {max} is allowed")));
        }
        Ok(value)
    }

    /// A count of things that take at least `least` bytes each.
    pub fn count(&mut self, least: usize, what: &str) -> Result<usize> {
        let count = self.varint()?;
        let most = self.rest.len() / least.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => {
                Err(FormatError::malformed(format!("{count} {what} cannot be in {} bytes", self.rest.len())))
            }
        }
    }

    /// Length-prefixed bytes, at most `max`.
    pub fn bytes(&mut self, max: usize, what: &str) -> Result<&'a [u8]> {
        let len = self.bounded(max as u64, what)?;
        self.take(len as usize)
    }

    /// A signed number: zigzag, then varint.
    pub fn signed(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads `literal`, without which the bytes are not `what`.
    pub fn expect(&mut self, literal: &[u8], what: &str) -> Result<()> {
        if self.rest.len() < literal.len() || self.take(literal.len())? != literal {
            return Err(FormatError::malformed(format!("this is not {what}")));
        }
        Ok(())
    }

    /// Ends reading. Bytes that are left over are an error.
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(FormatError::malformed(format!("{} bytes too many", self.rest.len())))
    }
}

/// The counterpart of [`Reader`], appending to a vector.
pub trait Put {
    /// Appends a number as [`Reader::varint`] reads it.
    fn put_varint(&mut self, value: u64);
    /// Appends a length and that many bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// Appends a signed number.
    fn put_signed(&mut self, value: i64);
}

impl Put for Vec<u8> {
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn put_signed(&mut self, value: i64) {
        self.put_varint((value << 1) as u64 ^ (value >> 63) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_have_one_spelling() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint(), Ok(value));
            reader.finish().unwrap();
        }
        for bad in [
            &[0x80, 0x00][..],
            &[0x80],
            &[0xff; 10],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        ] {
            Reader::new(bad).varint().unwrap_err();
        }
    }

    #[test]
    fn signed_numbers_round_trip() {
        for value in [0, -1, 1, i64::MIN, i64::MAX, -1_700_000_000] {
            let mut bytes = Vec::new();
            bytes.put_signed(value);
            assert_eq!(Reader::new(&bytes).signed(), Ok(value));
        }
    }

    #[test]
    fn a_count_is_believed_only_if_it_fits() {
        let mut bytes = Vec::new();
        bytes.put_varint(u64::MAX);
        bytes.extend_from_slice(&[0; 64]);
        Reader::new(&bytes).count(1, "entries").unwrap_err();
    }
}
