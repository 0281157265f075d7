//! These tests give random bytes to every reader of foreign bytes.
//!
//! See [`fuzz_targets`] for how inputs are made, and how to run it for hours.

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            fuzz_targets::$name().fuzz();
        })*
    };
}

fuzz_targets::for_targets!(tests);
