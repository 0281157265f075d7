//! `Target` reads bytes; the tests give it as many inputs as there is time for.
//!
//! `PSTORE_FUZZ_ROUNDS` is how many inputs each target gets, `PSTORE_FUZZ_SEED` which ones,
//! `PSTORE_FUZZ_INPUT` a file to try instead.

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
};

use parking_lot::Mutex;

use tests::mutation::Mutator;

use crate::Limit;

/// What one input may make a reader take: the largest chunk several times over, and room for
/// what allocators and compressors reserve.
const MEMORY: u64 = 256 << 20;

/// Something that reads bytes.
#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    /// What it should understand, to begin with.
    pub corpus: Vec<Vec<u8>>,
    /// Makes the checksums of a changed input right.
    pub reseal: fn(Vec<u8>) -> Vec<u8>,
    /// One of how many rounds this target gets: some are slow.
    pub one_in: u64,
    pub read: fn(&[u8]),
}

impl Target {
    /// Runs all rounds. Fails with the input that made the reader panic.
    pub fn fuzz(&self) {
        // One at a time: the limit is the process's.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock();
        assert!(!self.corpus.is_empty(), "{} has nothing to begin with", self.name);
        self.corpus.iter().for_each(|input| self.attempt(input));
        if let Some(path) = env::var_os("PSTORE_FUZZ_INPUT") {
            return (self.read)(&fs::read(path).unwrap());
        }
        let _limit = Limit::set(MEMORY);
        let mut mutator = Mutator::new(&self.corpus, number("PSTORE_FUZZ_SEED", 1));
        for _ in 0..number("PSTORE_FUZZ_ROUNDS", 20_000).div_ceil(self.one_in) {
            let input = mutator.input();
            self.attempt(&if mutator.seals() { (self.reseal)(input) } else { input });
        }
    }

    /// This input, changed as this seed says, with checksums that may be wrong.
    pub fn changed(&self, input: &[u8], seed: u64) -> Vec<u8> {
        Mutator::new(&self.corpus, seed).changed(input)
    }

    fn attempt(&self, input: &[u8]) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.read)(input))) {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz");
            let path = folder.join(format!("{}-{}", self.name, &blake3::hash(input).to_hex()[..12]));
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, input).unwrap();
            eprintln!("again with PSTORE_FUZZ_INPUT={}", path.display());
            resume_unwind(panic);
        }
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}
