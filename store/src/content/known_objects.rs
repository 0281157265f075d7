//! `KnownObjects` keeps decoded objects in memory, for as long as the store lists them as they were then.
//!
//! Some stores list times in whole seconds, and an object may be rewritten with the same size. So one that was
//! written shortly before it was read is not kept: a later change could be listed alike.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use crate::{
    bucket::{Entry, Stamp},
    key::Key,
};

/// How old an object is when it is read, at least, if it is to be kept.
const SETTLED: Duration = Duration::from_secs(60);
/// How many bytes of objects are kept at most.
const MAX_BYTES: u64 = 16 << 20;

/// See the module header.
#[derive(Debug)]
pub struct KnownObjects<T>(Mutex<Halves<T>>);

impl<T> Default for KnownObjects<T> {
    fn default() -> Self {
        Self(Mutex::new(Halves { young: HashMap::new(), young_bytes: 0, old: HashMap::new() }))
    }
}

/// When the young ones have half of the room, they become the old ones, and those that were old are forgotten.
#[derive(Debug)]
struct Halves<T> {
    young: HashMap<Key, Known<T>>,
    young_bytes: u64,
    old: HashMap<Key, Known<T>>,
}

#[derive(Clone, Debug)]
struct Known<T> {
    size: u64,
    modified: SystemTime,
    value: T,
    stamp: Stamp,
}

impl<T: Clone> KnownObjects<T> {
    /// The value that was read of the listed object, if it is known.
    pub(crate) fn find(&self, entry: &Entry) -> Option<(T, Stamp)> {
        let mut halves = self.0.lock();
        let is_as = |known: &Known<T>| known.size == entry.size && known.modified == entry.modified;
        if let Some(known) = halves.young.get(&entry.key) {
            return is_as(known).then(|| (known.value.clone(), known.stamp));
        }
        let known = halves.old.remove(&entry.key).filter(is_as)?;
        let found = (known.value.clone(), known.stamp);
        halves.keep(entry.key.clone(), known);
        Some(found)
    }

    /// Keeps the value of an object that was read after it was listed so.
    pub(crate) fn learn(&self, entry: &Entry, value: &T, stamp: Stamp) {
        if stamp.age() < SETTLED {
            return;
        }
        let known = Known { size: entry.size, modified: entry.modified, value: value.clone(), stamp };
        self.0.lock().keep(entry.key.clone(), known);
    }
}

impl<T> Halves<T> {
    fn keep(&mut self, key: Key, known: Known<T>) {
        if self.young_bytes + known.size > MAX_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += known.size;
        if let Some(before) = self.young.insert(key, known) {
            self.young_bytes -= before.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: SystemTime = SystemTime::UNIX_EPOCH;

    fn entry(name: u64, size: u64) -> Entry {
        Entry { key: Key::new(format!("objects/{name}")).unwrap(), size, modified: WRITTEN }
    }

    fn read_after(age: Duration) -> Stamp {
        Stamp { modified: WRITTEN, now: WRITTEN + age }
    }

    #[test]
    fn an_object_is_known_while_it_is_listed_as_it_was() {
        let known = KnownObjects::default();
        let listed = entry(1, 900);
        assert!(known.find(&listed).is_none());
        known.learn(&listed, &"text", read_after(SETTLED));
        assert_eq!(known.find(&listed).unwrap(), ("text", read_after(SETTLED)));
        assert!(known.find(&entry(1, 901)).is_none());
        let later = Entry { modified: WRITTEN + Duration::from_secs(1), ..listed.clone() };
        assert!(known.find(&later).is_none());
        assert!(known.find(&entry(2, 900)).is_none());
    }

    #[test]
    fn an_object_that_was_just_written_is_not_kept() {
        let known = KnownObjects::default();
        known.learn(&entry(1, 900), &"text", read_after(SETTLED - Duration::from_millis(1)));
        assert!(known.find(&entry(1, 900)).is_none());
    }

    #[test]
    fn what_is_asked_for_stays_and_the_room_is_bounded() {
        let known = KnownObjects::default();
        let size = MAX_BYTES / 64;
        for name in 0..1000 {
            known.learn(&entry(name, size), &"text", read_after(SETTLED));
            assert!(known.find(&entry(0, size)).is_some(), "forgotten after {name}");
        }
        let kept = (0..1000).filter(|name| known.find(&entry(*name, size)).is_some()).count();
        assert!(kept <= 64, "{kept}");
    }
}
