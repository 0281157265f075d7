//! `LockQueues` knows who waits for which lock at this server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use store::name::ProfileName;

use crate::problem::{Queue, WaitingFields};

/// Those who wait, by profile.
#[derive(Debug, Default)]
pub(crate) struct LockQueues {
    waiting: Mutex<BTreeMap<ProfileName, Vec<Waiting>>>,
}

#[derive(Clone, Debug)]
struct Waiting {
    place: u64,
    fields: WaitingFields,
    ttl: Duration,
}

/// A place in a queue, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct QueueTicket {
    queues: Arc<LockQueues>,
    profile: ProfileName,
    number: u64,
}

impl LockQueues {
    /// Stands in line for the lock of a profile, to hold it for `ttl`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        profile: ProfileName,
        fields: WaitingFields,
        ttl: Duration,
    ) -> QueueTicket {
        let mut waiting = self.waiting.lock();
        let line = waiting.entry(profile.clone()).or_default();
        let number = line.last().map_or(0, |last| last.place + 1);
        line.push(Waiting { place: number, fields, ttl });
        QueueTicket { queues: Arc::clone(self), profile, number }
    }

    /// Everybody who waits for the lock of a profile, if its holder has it for so long yet.
    pub(crate) fn of(&self, profile: &ProfileName, remaining: Duration) -> Queue {
        self.before(profile, u64::MAX, remaining)
    }

    fn before(&self, profile: &ProfileName, place: u64, remaining: Duration) -> Queue {
        let waiting = self.waiting.lock();
        let line = waiting.get(profile).map_or(&[][..], Vec::as_slice);
        let ahead: Vec<&Waiting> = line.iter().filter(|waiting| waiting.place < place).collect();
        let wait = ahead.iter().fold(remaining, |wait, waiting| wait.saturating_add(waiting.ttl));
        Queue {
            ahead: ahead.len() as u64,
            estimated_wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            waiting: ahead.into_iter().map(|waiting| waiting.fields.clone()).collect(),
        }
    }
}

impl QueueTicket {
    /// Those who come before.
    pub(crate) fn ahead(&self, remaining: Duration) -> Queue {
        self.queues.before(&self.profile, self.number, remaining)
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        let mut waiting = self.queues.waiting.lock();
        if let Some(line) = waiting.get_mut(&self.profile) {
            line.retain(|waiting| waiting.place != self.number);
            if line.is_empty() {
                waiting.remove(&self.profile);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_later_waits_for_those_before() {
        let (queues, alice) = (Arc::new(LockQueues::default()), "acme/alice".parse::<ProfileName>().unwrap());
        let enter = |name: &str| {
            let fields =
                WaitingFields { holder_run_id: name.to_owned(), holder_host: String::new(), since_ms: 1 };
            queues.enter(alice.clone(), fields, Duration::from_secs(100))
        };
        let left = Duration::from_secs(7);
        let [first, second] = [enter("first"), enter("second")];
        assert_eq!((first.ahead(left).ahead, first.ahead(left).estimated_wait_ms), (0, 7000));
        let ahead = second.ahead(left);
        assert_eq!((ahead.waiting[0].holder_run_id.as_str(), ahead.estimated_wait_ms), ("first", 107_000));
        assert_eq!(queues.of(&alice, left).ahead, 2);
        assert_eq!(queues.of(&"acme/bob".parse().unwrap(), left).ahead, 0);
        drop(first);
        assert_eq!(second.ahead(left).ahead, 0);
        let third = enter("third");
        assert_eq!(third.ahead(left).ahead, 1);
        drop((second, third));
        assert!(queues.waiting.lock().is_empty());
    }
}
