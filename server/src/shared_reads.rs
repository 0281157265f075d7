//! `SharedReads` lets simultaneous callers with the same question share one read of the store. The read begins after each of them has
//! asked, so none gets an older answer.

use std::{collections::HashMap, sync::Arc};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;

/// With more places than this, those that nobody uses are forgotten.
const MANY: usize = 256;

/// Reads that callers share, place by place.
#[derive(Debug)]
pub(crate) struct SharedReads<T> {
    places: Mutex<HashMap<String, SharedRead<T>>>,
}

/// Something that is looked at.
#[derive(Debug)]
struct SharedRead<T> {
    /// Held by the look that is in progress.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The one that has not begun, for as long as somebody waits for it.
    next: Option<WeakShared<BoxFuture<'static, T>>>,
}

impl<T> Default for SharedReads<T> {
    fn default() -> Self {
        Self { places: Mutex::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> SharedReads<T> {
    /// The result of `look`, or of another caller's look that has not begun yet.
    pub(crate) async fn share(
        self: &Arc<Self>,
        place: String,
        look: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let shared = self.joined(place, look);
        shared.await
    }

    fn joined(
        self: &Arc<Self>,
        name: String,
        look: impl Future<Output = T> + Send + 'static,
    ) -> Shared<BoxFuture<'static, T>> {
        let mut places = self.places.lock();
        if places.len() >= MANY {
            // Every look has its turn at hand until it has ended.
            places.retain(|_, place| Arc::strong_count(&place.turn) > 1);
        }
        let place =
            places.entry(name.clone()).or_insert_with(|| SharedRead { turn: Arc::default(), next: None });
        if let Some(next) = place.next.as_ref().and_then(WeakShared::upgrade) {
            return next;
        }
        let (turn, looks) = (Arc::clone(&place.turn), Arc::clone(self));
        let next = async move {
            let held = turn.lock().await;
            // Who asks from now on waits for another look.
            if let Some(place) = looks.places.lock().get_mut(&name) {
                place.next = None;
            }
            let seen = look.await;
            drop(held);
            seen
        };
        let next = next.boxed().shared();
        place.next = next.downgrade();
        next
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    /// The number of the look, which takes a moment.
    fn counted(count: &Arc<AtomicUsize>) -> impl Future<Output = usize> + Send + 'static {
        let count = Arc::clone(count);
        async move {
            let number = count.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            number
        }
    }

    #[tokio::test]
    async fn those_who_ask_before_a_look_begins_share_it_and_others_do_not() {
        let (looks, count) = (Arc::new(SharedReads::default()), Arc::new(AtomicUsize::new(0)));
        let ask = |place: &str| {
            let (looks, look, place) = (Arc::clone(&looks), counted(&count), place.to_owned());
            tokio::spawn(async move { looks.share(place, look).await })
        };
        let first = ask("a");
        tokio::time::sleep(Duration::from_millis(10)).await;
        // The first look has begun: what it sees may be older than their questions.
        let later = [ask("a"), ask("a"), ask("a")];
        assert_eq!(first.await.unwrap(), 0);
        for asked in later {
            assert_eq!(asked.await.unwrap(), 1);
        }
        assert_eq!(ask("a").await.unwrap(), 2);
        assert_eq!(ask("b").await.unwrap(), 3);
    }

    #[tokio::test]
    async fn one_who_goes_away_takes_the_look_from_nobody() {
        let (looks, count) = (Arc::new(SharedReads::default()), Arc::new(AtomicUsize::new(0)));
        let share = || looks.share("a".to_owned(), counted(&count));
        let mut leaving = Box::pin(share());
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut leaving).await.is_err());
        let staying = tokio::spawn({
            let (looks, look) = (Arc::clone(&looks), counted(&count));
            async move { looks.share("a".to_owned(), look).await }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(leaving);
        assert_eq!(staying.await.unwrap(), 1);
        assert_eq!(share().await, 2);
    }

    #[tokio::test]
    async fn places_that_nobody_looks_at_are_forgotten() {
        let looks = Arc::new(SharedReads::default());
        for at in 0..MANY * 3 {
            looks.share(at.to_string(), async {}).await;
        }
        assert!(looks.places.lock().len() <= MANY);
    }
}
