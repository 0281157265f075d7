//! These tests run as users who share a host and mean each other no good: whatever one of them does with a profile,
//! another reads no byte of it and keeps no command from doing its work. All of them are real users to the kernel,
//! and look while a command is held up in the middle of its work.

mod blocked;
mod captures;
mod mounts;
mod runs;
mod user;
