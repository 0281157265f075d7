//! `Step` is one operation on a file system.

/// Numbers choose among the files that are there when the step is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Make { folder: usize, name: u8, folder_too: bool },
    Link { file: usize, folder: usize, name: u8 },
    Symlink { folder: usize, name: u8 },
    Write { file: usize, offset: u32, len: u32, seed: u64 },
    Truncate { file: usize, size: u32 },
    Zero { file: usize, offset: u32, len: u32, punch: bool },
    Rename { what: usize, folder: usize, name: u8, exchange: bool },
    Remove { what: usize },
    Mark { what: usize, value: u8 },
    Sync { file: usize },
    Kill,
    Commit,
    Compact,
    Checkpoint,
}

/// Every step is this long, so that a change of one leaves those after it the same.
const WIDTH: usize = 7;
/// More steps only take longer.
const MOST_STEPS: usize = 40;
const PAGE: u32 = 4096;

impl Step {
    /// How many names there are in a folder at most.
    pub const NAMES: u8 = 6;

    /// The steps that these bytes are: any bytes are some. What is missing at the end is zeros.
    pub fn decode(bytes: &[u8]) -> Vec<Self> {
        let padded = |part: &[u8]| std::array::from_fn(|at| part.get(at).copied().unwrap_or(0));
        bytes.chunks(WIDTH).take(MOST_STEPS).map(|part| Self::one(padded(part))).collect()
    }

    fn one([kind, what, a, b, c, d, e]: [u8; WIDTH]) -> Self {
        let (folder, name, flag) = (usize::from(a), b % Self::NAMES, c % 2 == 1);
        let (offset, len) = (near_page(a % 48, b), near_page(c % 24, d).max(1));
        let what = usize::from(what);
        match kind % 16 {
            0 => Self::Make { folder, name, folder_too: flag },
            1 => Self::Link { file: what, folder, name },
            2 => Self::Symlink { folder, name },
            3 => Self::Truncate { file: what, size: offset },
            4 => Self::Zero { file: what, offset, len, punch: e % 2 == 1 },
            5 => Self::Rename { what, folder, name, exchange: flag },
            6 => Self::Remove { what },
            7 => Self::Mark { what, value: a % 3 },
            8 => Self::Sync { file: what },
            9 => Self::Kill,
            10 => Self::Commit,
            11 => Self::Compact,
            12 => Self::Checkpoint,
            // Most of what is done to a profile.
            _ => Self::Write { file: what, offset, len, seed: u64::from(e % 50) },
        }
    }
}

/// The start of a page, or a few bytes to either side of it: faults appear at edges.
fn near_page(page: u8, aside: u8) -> u32 {
    (u32::from(page) * PAGE).saturating_add_signed(i32::from(aside.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_steps() {
        assert_eq!(Step::decode(&[]), []);
        assert_eq!(Step::decode(&[9]), [Step::Kill]);
        let every: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        assert_eq!(Step::decode(&every).len(), MOST_STEPS);
    }

    #[test]
    fn writes_begin_and_end_at_the_edges_of_pages_and_beside_them() {
        let step = Step::decode(&[13, 3, 32, 0, 1, 255, 51]);
        assert_eq!(step, [Step::Write { file: 3, offset: 131_072, len: 4095, seed: 1 }]);
        let step = Step::decode(&[15, 0, 48, 128, 24, 128, 0]);
        assert_eq!(step, [Step::Write { file: 0, offset: 0, len: 1, seed: 0 }]);
    }
}
