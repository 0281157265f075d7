//! These tests make packages of the program, install them where nothing else is, and use them; and run the tests of the Python client.

#![allow(clippy::unwrap_used)]

mod client;
mod compose;
mod deb;
mod image;
mod made;
mod release;
mod units;
mod wheel;
