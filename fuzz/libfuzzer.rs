//! `libfuzzer` runs one target under libFuzzer, which goes on from inputs that reach new code; see `scripts/fuzz`.
//!
//! `PSTORE_FUZZ_TARGET` names the target, `PSTORE_FUZZ_CORPUS` is a directory for its first inputs; libFuzzer's own
//! arguments set all else. Without a target, it prints their names.

#![no_main]
#![allow(clippy::unwrap_used)]

use std::{env, fs, path::PathBuf, process, sync::LazyLock};

use fuzz_targets::{Limit, TARGETS, Target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// What a reader and the engine may take together; the engine keeps what it has found in memory.
const MEMORY: u64 = 1 << 30;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = env::var("PSTORE_FUZZ_TARGET").unwrap_or_default();
    if let Some((_, target)) = TARGETS.iter().find(|(known, _)| *known == name) {
        return target();
    }
    TARGETS.iter().for_each(|(known, _)| println!("{known}"));
    process::exit(if name.is_empty() { 0 } else { 2 });
});

fn begin() {
    LazyLock::force(&TARGET);
    if let Some(corpus) = env::var_os("PSTORE_FUZZ_CORPUS").map(PathBuf::from) {
        fs::create_dir_all(&corpus).unwrap();
        for (number, input) in TARGET.corpus.iter().enumerate() {
            fs::write(corpus.join(format!("known-{number}")), input).unwrap();
        }
    }
    // Until the process ends.
    std::mem::forget(Limit::set(MEMORY));
}

fuzz_target!(init: begin(), |input: &[u8]| (TARGET.read)(input));

// Its own changes know which comparisons failed, ours where numbers, values and checksums are.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let changed = if seed.is_multiple_of(2) {
        let size = fuzzer_mutate(data, size, max_size);
        data[..size].to_vec()
    } else {
        TARGET.changed(&data[..size], seed.into())
    };
    let mut input = if seed.is_multiple_of(5) { changed } else { (TARGET.reseal)(changed) };
    input.truncate(max_size);
    data[..input.len()].copy_from_slice(&input);
    input.len()
});
