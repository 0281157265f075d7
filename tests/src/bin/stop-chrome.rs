//! `stop-chrome` stops the Chrome on a directory and prints the outcome, as a process of its own that a test
//! can start as another user.

use std::{env, path::PathBuf};

use capture::chrome::stop::{StopOptions, stop};

fn main() {
    let directory: PathBuf = env::args_os().nth(1).expect("a directory").into();
    match stop(&directory, &StopOptions::default()) {
        Ok(stopped) => println!("{}", stopped.ended.as_str()),
        Err(error) => println!("{error}"),
    }
}
