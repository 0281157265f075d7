//! `mutation` makes other bytes of known ones, by changes that know where numbers, values and checksums are.

pub(crate) mod json;
pub mod reseal;

/// Numbers at which readers err: where something ends, overflows or becomes negative.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    65_535,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 48,
    (1 << 53) - 1,
    1 << 62,
    u64::MAX,
];
/// Longer inputs only take longer.
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    dice: Dice,
}

impl<'a> Mutator<'a> {
    pub fn new(corpus: &'a [Vec<u8>], seed: u64) -> Self {
        Self { corpus, dice: Dice(seed) }
    }

    /// A known input, changed.
    pub fn input(&mut self) -> Vec<u8> {
        let known = self.known();
        self.changed(known)
    }

    pub fn changed(&mut self, input: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.dice.below(4) {
            let is_json = bytes.first() == Some(&b'{');
            match is_json && self.dice.below(4) > 0 {
                true => json::change(&mut bytes, &mut self.dice),
                false => self.change(&mut bytes),
            }
        }
        bytes.truncate(MOST_BYTES);
        bytes
    }

    /// Whether checksums should be made right.
    pub fn seals(&mut self) -> bool {
        self.dice.below(5) > 0
    }

    fn known(&mut self) -> &'a [u8] {
        &self.corpus[self.dice.below(self.corpus.len())]
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let dice = &mut self.dice;
        let (at, until) = (dice.below(bytes.len() + 1), dice.below(bytes.len() + 1));
        let (from, to) = (at.min(until), at.max(until));
        match dice.below(9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(from..to.min(from + 64))),
            2 => {
                let part = bytes[from..to.min(from + 4096)].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let noise: Vec<u8> = (0..dice.below(16)).map(|_| dice.draw() as u8).collect();
                bytes.splice(at..at, noise);
            }
            4 => {
                let other = self.known();
                let cut = self.dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[cut..]);
            }
            5 => {
                // The longest spelling of a varint that is allowed, and one that is not.
                let long = [&[0xff; 9][..], &[dice.below(3) as u8]].concat();
                bytes.splice(from..to.min(from + 1), long);
            }
            6 => overwrite(bytes, at, &[dice.draw() as u8]),
            7 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
            _ => {
                let number = match dice.below(3) {
                    0 => (bytes.len() as u64).wrapping_add(dice.below(5) as u64).wrapping_sub(2),
                    _ => NUMBERS[dice.below(NUMBERS.len())],
                };
                let width = [1, 2, 4, 8][dice.below(4)];
                overwrite(bytes, at, &number.to_le_bytes()[..width]);
            }
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (byte, new) in bytes[at..].iter_mut().zip(with) {
        *byte = *new;
    }
}

/// The same throws for the same seed.
#[derive(Debug)]
pub struct Dice(pub(crate) u64);

impl Dice {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }

    pub fn number(&mut self) -> u64 {
        NUMBERS[self.below(NUMBERS.len())]
    }
}
