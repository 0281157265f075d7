//! Bytes that somebody else may have written, thrown at whatever reads them: no panic, and no
//! memory on the word of a length.
//!
//! Inputs are made of the format's vectors and of what real programs have written, by changes
//! that know where numbers are and make checksums right again, so that they get past the first
//! look. The tests throw these, and a seed and a number make the same input on every machine; the
//! program `fuzz`, of `scripts/fuzz`, goes on from those that reach new code.
//!
//! `PSTORE_FUZZ_ROUNDS` is how many inputs each target gets, `PSTORE_FUZZ_SEED` which ones,
//! `PSTORE_FUZZ_INPUT` a file to try instead.

pub(crate) mod json;
mod limit;
pub(crate) mod mutation;
mod reseal;
pub mod targets;

pub use limit::Limit;

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use mutation::Mutator;

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
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!self.corpus.is_empty(), "{} has nothing to begin with", self.name);
        self.corpus.iter().for_each(|input| self.attempt(input));
        if let Some(path) = env::var_os("PSTORE_FUZZ_INPUT") {
            return (self.read)(&fs::read(path).unwrap());
        }
        let _limit = Limit::set(MEMORY);
        let mut mutator = Mutator::new(&self.corpus, number("PSTORE_FUZZ_SEED", 1));
        for _ in 0..number("PSTORE_FUZZ_ROUNDS", 20_000).div_ceil(self.one_in) {
            let input = mutator.next();
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

/// The files of the format's vectors whose path contains this.
pub fn vectors(part: &str) -> Vec<Vec<u8>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors"), part)
}

/// The files below `root` whose path contains `part`, in the order of their names.
pub fn files(root: &Path, part: &str) -> Vec<Vec<u8>> {
    let (mut folders, mut found): (_, Vec<PathBuf>) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    let fitting = found.iter().filter(|path| path.to_str().unwrap().contains(part));
    fitting.map(|path| fs::read(path).unwrap()).collect()
}
