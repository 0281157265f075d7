//! `Limit` caps the memory of a fuzz process, so an allocation that trusts a forged length fails.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Whoever takes more than this ends the process, as long as this is there.
#[derive(Debug)]
pub struct Limit(Rlimit);

impl Limit {
    /// This many bytes more than the process has now.
    pub fn set(more: u64) -> Self {
        let before = getrlimit(Resource::As);
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap();
        let now = pages * rustix::param::page_size() as u64;
        setrlimit(Resource::As, Rlimit { current: Some(now + more), ..before }).unwrap();
        Self(before)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        setrlimit(Resource::As, self.0).unwrap();
    }
}
