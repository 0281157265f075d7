//! Encodes a tree as a canonical archive, a tar stream that programs which know nothing of pstore read and
//! write too, and decodes one.
//!
//! POSIX ustar, with pax records for attributes that ustar cannot express. Bytes to values and back: pure
//! and bounded, like the format; the bytes may come from anybody.

mod extended;
pub mod hashing_reader;
pub mod header;
pub(crate) mod holes;
pub mod members;
mod numbers;
pub mod pax;
pub mod problem;
pub mod reader;
pub mod sparse;

use std::io::{self, Read};

/// Everything in a tar stream begins at a multiple of this.
pub const BLOCK_LEN: usize = 512;
/// One piece of a tar stream.
pub type Block = [u8; BLOCK_LEN];

/// How many zeros follow `len` bytes until the next block begins.
pub const fn padding(len: u64) -> usize {
    (len.wrapping_neg() % BLOCK_LEN as u64) as usize
}

/// Reads until `buffer` is full or the stream ends.
fn read_full(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut total = 0;
    while total < buffer.len() {
        match stream.read(&mut buffer[total..]) {
            Ok(0) => break,
            Ok(got) => total += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    #[test]
    fn padding_ends_at_a_block() {
        assert_eq!([0, 1, 511, 512, 513].map(super::padding), [0, 511, 1, 0, 511]);
    }
}
