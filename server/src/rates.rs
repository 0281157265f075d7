//! `Rates` limits the requests of a token, and of an address without one.

use std::{collections::HashMap, time::Instant};

use parking_lot::Mutex;

/// So many callers are remembered; beyond it, those are forgotten who have asked for nothing lately.
const MAX_REMEMBERED: usize = 10_000;

/// Each caller may ask for so much in a second, and for as much again at once if it was quiet before.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: f64,
    left: Mutex<HashMap<String, Left>>,
}

/// The requests that a caller has left, as of a moment.
#[derive(Clone, Copy, Debug)]
struct Left {
    requests: f64,
    at: Instant,
}

impl Rates {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second: per_second.into(), left: Mutex::default() }
    }

    /// Whether this caller may ask now. If so, it has one request less.
    pub(crate) fn admit(&self, caller: &str) -> bool {
        self.admit_at(caller, Instant::now())
    }

    fn admit_at(&self, caller: &str, now: Instant) -> bool {
        let mut left = self.left.lock();
        if left.len() >= MAX_REMEMBERED && !left.contains_key(caller) {
            left.retain(|_, left| self.refilled(*left, now) < self.most());
        }
        let full = Left { requests: self.most(), at: now };
        let entry = left.entry(caller.to_owned()).or_insert(full);
        let requests = self.refilled(*entry, now);
        let is_admitted = requests >= 1.0;
        *entry = Left { requests: if is_admitted { requests - 1.0 } else { requests }, at: now };
        is_admitted
    }

    fn most(&self) -> f64 {
        self.per_second * 2.0
    }

    fn refilled(&self, left: Left, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(left.at).as_secs_f64();
        (left.requests + seconds * self.per_second).min(self.most())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_caller_gets_its_share_and_takes_nothing_from_another() {
        let (rates, start) = (Rates::new(5), Instant::now());
        let admitted = |caller: &str, at: Instant| (0..100).filter(|_| rates.admit_at(caller, at)).count();
        assert_eq!(admitted("a", start), 10);
        assert_eq!(admitted("b", start), 10);
        assert_eq!(admitted("a", start + Duration::from_secs(1)), 5);
        assert_eq!(admitted("a", start + Duration::from_secs(60)), 10);
    }

    #[test]
    fn who_has_been_quiet_is_forgotten_and_who_has_not_is_remembered() {
        let (rates, start) = (Rates::new(1), Instant::now());
        for at in 0..MAX_REMEMBERED - 1 {
            assert!(rates.admit_at(&at.to_string(), start));
        }
        let later = start + Duration::from_secs(60);
        while rates.admit_at("busy", later) {}
        assert!(rates.admit_at("new", later) && !rates.admit_at("busy", later));
        assert!(rates.left.lock().len() < 10);
    }
}
