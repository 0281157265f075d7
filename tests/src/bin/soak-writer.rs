//! `soak-writer` writes in a mount, as a process of its own, and logs its writes outside.
//!
//! `soak-writer MOUNTPOINT LOG SEED GENERATION SLOTS`: see `tests::soak::writer`. It ends when its
//! standard input does, between two writes, or at the first error: then its daemon is gone.

use std::{env, path::Path};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [mountpoint, log, seed, generation, slots] = &arguments[..] else {
        panic!("see the head of this file")
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let mut writer = tests::soak::writer::Writer::new(
        Path::new(mountpoint),
        Path::new(log),
        number(seed),
        number(generation),
        number(slots) as usize,
    );
    if let Err(error) = writer.run() {
        eprintln!("{error}");
    }
}
