//! `RecentResults` keeps the last few results that took several segments to find.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

/// A caller that loads a result asks for it again at once; a few may do so at the same time.
const MOST: usize = 8;

/// The last results, each by its subject.
#[derive(Debug)]
pub(super) struct RecentResults<K, V>(Mutex<VecDeque<(K, Arc<V>)>>);

impl<K, V> Default for RecentResults<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V> RecentResults<K, V> {
    pub fn get(&self, of: &K) -> Option<Arc<V>> {
        let kept = self.0.lock();
        kept.iter().find(|(key, _)| key == of).map(|(_, value)| Arc::clone(value))
    }

    pub fn put(&self, of: K, value: V) -> Arc<V> {
        let value = Arc::new(value);
        let mut kept = self.0.lock();
        kept.retain(|(key, _)| *key != of);
        if kept.len() == MOST {
            kept.pop_front();
        }
        kept.push_back((of, Arc::clone(&value)));
        value
    }
}
