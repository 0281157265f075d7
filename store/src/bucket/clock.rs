//! `StoreClock` tells the time by the store's own clock, as far as its answers have told.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

/// Servers tell whole seconds, and an answer takes a while to arrive.
const SLACK: Duration = Duration::from_secs(2);

/// Goes on from the last answer by this host's counter of elapsed time, which no one sets.
#[derive(Debug, Default)]
pub struct StoreClock {
    told: Mutex<Option<(Instant, SystemTime)>>,
}

impl StoreClock {
    /// An answer has told that it is `now`. What was told before stands if both can be true, so
    /// that the time does not jump back by parts of a second.
    pub fn learn(&self, now: SystemTime) {
        let mut told = self.told.lock();
        let fits = |known: SystemTime| known >= now && known <= now + SLACK;
        if !told.map(shown).is_some_and(fits) {
            *told = Some((Instant::now(), now));
        }
    }

    /// The time; `None` if no answer has told one yet.
    pub fn now(&self) -> Option<SystemTime> {
        self.told.lock().map(shown)
    }
}

fn shown((at, told): (Instant, SystemTime)) -> SystemTime {
    told + at.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_by_what_was_told_last_and_never_back_by_parts_of_a_second() {
        let (clock, day) = (StoreClock::default(), Duration::from_secs(86_400));
        assert_eq!(clock.now(), None);
        let noon = SystemTime::UNIX_EPOCH + 20_000 * day;
        clock.learn(noon);
        let first = clock.now().unwrap();
        assert!(first >= noon && first < noon + day);
        clock.learn(noon);
        assert!(clock.now().unwrap() >= first, "the same second, told again");
        for told in [noon + day, noon - day] {
            clock.learn(told);
            let now = clock.now().unwrap();
            assert!(now >= told && now < told + day / 2, "{now:?} after {told:?}");
        }
    }
}
