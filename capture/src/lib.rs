//! Making a browser profile hold still, and telling whether it is whole.
//!
//! [`chrome`] knows the browser: which processes use a directory, how to end them without
//! losing anything, what the profile says about itself. [`sqlite`] and [`leveldb`] know its
//! databases: they are found by what they are, not by their names, and checked without
//! changing a byte of them. [`examination`] checks all of a profile's, or those that changed.

pub mod chrome;
pub mod cookies;
pub mod examination;
pub mod inventory;
pub mod leveldb;
pub mod source;
pub mod sqlite;
pub mod state;
