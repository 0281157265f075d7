//! Every reader of bytes that somebody else may have written gets some that nobody has written.
//!
//! See [`tests::fuzz`] for how inputs are made, and how to run it for hours.

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            tests::fuzz::targets::$name().fuzz();
        })*
    };
}

tests::for_fuzz_targets!(tests);
