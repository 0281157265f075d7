//! Cuts a file's bytes into chunks at places that depend on the content nearby.
//!
//! FastCDC in the 2020 variant, normalization level 1, gear table without a seed: the
//! spec's vectors pin the cuts.

use fastcdc::v2020::{Normalization, cut, select_masks};

use crate::format::config::Chunking;

/// Knows where to cut, by the parameters of a tenant.
#[derive(Clone, Debug)]
pub struct Chunker {
    min: usize,
    average: usize,
    max: usize,
    mask_short: u64,
    mask_long: u64,
}

impl Chunker {
    /// `chunking` has passed its own check.
    pub fn new(chunking: &Chunking) -> Self {
        let average = chunking.average_bytes as usize;
        let (mask_short, mask_long) = select_masks(average, Normalization::Level1);
        Self {
            min: chunking.min_bytes as usize,
            average,
            max: chunking.max_bytes as usize,
            mask_short,
            mask_long,
        }
    }

    /// The longest chunk.
    pub fn max(&self) -> usize {
        self.max
    }

    /// The length of the first chunk of `bytes`, which holds at least [`Self::max`] bytes
    /// or all that is left of the file.
    pub fn cut(&self, bytes: &[u8]) -> usize {
        if bytes.len() <= self.min {
            return bytes.len();
        }
        let (_, len) = cut(
            bytes,
            self.min,
            self.average,
            self.max,
            self.mask_short,
            self.mask_long,
            self.mask_short << 1,
            self.mask_long << 1,
        );
        len
    }

    /// Hands on each complete chunk at the front of `bytes`, and returns their length; the rest
    /// is too short to be cut before more is known. With `last`, there is no rest.
    pub fn cut_all<E>(
        &self,
        bytes: &[u8],
        last: bool,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut start = 0;
        while bytes.len() - start >= self.max || last && start < bytes.len() {
            let len = self.cut(&bytes[start..]);
            each(&bytes[start..start + len])?;
            start += len;
        }
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.finalize_xof().fill(&mut bytes);
        bytes
    }

    fn drain(chunker: &Chunker, buffer: &mut Vec<u8>, last: bool, mut each: impl FnMut(&[u8])) {
        let cut = chunker.cut_all(buffer, last, |chunk| {
            each(chunk);
            Ok::<_, std::convert::Infallible>(())
        });
        buffer.drain(..cut.unwrap());
    }

    fn cut_all(chunker: &Chunker, bytes: &[u8], step: usize) -> Vec<usize> {
        let (mut buffer, mut lens) = (Vec::new(), Vec::new());
        for part in bytes.chunks(step) {
            buffer.extend_from_slice(part);
            drain(chunker, &mut buffer, false, |chunk| lens.push(chunk.len()));
        }
        drain(chunker, &mut buffer, true, |chunk| lens.push(chunk.len()));
        lens
    }

    #[test]
    fn cuts_do_not_depend_on_how_the_bytes_arrive() {
        let chunker = Chunker::new(&Chunking::default());
        let bytes = noise(3_000_000, 1);
        let whole = cut_all(&chunker, &bytes, bytes.len());
        assert_eq!(whole, cut_all(&chunker, &bytes, 4096));
        assert_eq!(whole, cut_all(&chunker, &bytes, 999_983));
        assert_eq!(whole.iter().sum::<usize>(), bytes.len());
        assert!(whole.len() > 20);
    }

    #[test]
    fn an_insertion_changes_few_chunks() {
        let chunker = Chunker::new(&Chunking::default());
        let before = noise(4_000_000, 2);
        let mut after = before.clone();
        after.splice(1_000_000..1_000_000, *b"some bytes that were not there");
        let pieces = |bytes: &[u8]| {
            let mut pieces = std::collections::HashSet::new();
            let mut buffer = bytes.to_vec();
            drain(&chunker, &mut buffer, true, |chunk| {
                pieces.insert(blake3::hash(chunk));
            });
            pieces
        };
        let (before, after) = (pieces(&before), pieces(&after));
        assert!(after.difference(&before).count() <= 3);
    }
}
