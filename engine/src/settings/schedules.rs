//! `Schedules` says how often a server does each periodic job.

use std::time::Duration;

use super::{
    Settings,
    key::{self, Key},
};

/// How far turns are apart; `None` for what is never done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedules {
    /// Locks that expired some time ago are taken away.
    pub reap: Option<Duration>,
    /// The rules about snapshots are applied.
    pub retention: Option<Duration>,
    /// Garbage is collected.
    pub gc: Option<Duration>,
    /// A part of the content is read and checked.
    pub verify: Option<Duration>,
    /// In so many parts, one each day.
    pub verify_parts: u64,
}

impl Settings {
    /// How often a server does each periodic job.
    pub fn schedules(&self) -> Schedules {
        let view = self.of(None);
        let every = |key: &'static Key| {
            let seconds = view.number(key).filter(|seconds| *seconds > 0);
            seconds.map(Duration::from_secs)
        };
        Schedules {
            reap: every(&key::SCHEDULES_REAP_SECONDS),
            retention: every(&key::SCHEDULES_RETENTION_SECONDS),
            gc: every(&key::SCHEDULES_GC_SECONDS),
            verify: every(&key::SCHEDULES_VERIFY_SECONDS),
            verify_parts: view.number(&key::SCHEDULES_VERIFY_PARTS).unwrap_or(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_reaped_every_five_minutes_and_the_rest_is_asked_for() {
        let schedules = Settings::default().schedules();
        assert_eq!(schedules.reap, Some(Duration::from_secs(300)));
        assert_eq!((schedules.retention, schedules.gc, schedules.verify), (None, None, None));
        assert_eq!(schedules.verify_parts, 30);
    }
}
