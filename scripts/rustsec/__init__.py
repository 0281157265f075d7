"""What is known against the crates of Cargo.lock: a kept copy of the RustSec database, and how it is made."""
