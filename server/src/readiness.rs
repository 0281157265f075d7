//! `Readiness` remembers whether the server reaches its store, so that many callers cost one request.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// How long a verdict is told to others.
const SHARED: Duration = Duration::from_secs(2);

/// Whether the server can do its work: how far the clocks of this host and of the store are apart, in
/// milliseconds; or the reason why it cannot, in words for everybody.
pub(crate) type Verdict = Result<u64, &'static str>;

/// The last verdict.
#[derive(Debug)]
pub(crate) struct Readiness<T> {
    last: Mutex<Option<(Instant, T)>>,
    shared: Duration,
}

impl<T> Default for Readiness<T> {
    fn default() -> Self {
        Self { last: Mutex::default(), shared: SHARED }
    }
}

impl<T: Clone> Readiness<T> {
    /// The verdict of a moment ago, or else that of `look`. Callers meanwhile wait for it.
    pub(crate) async fn verdict(&self, look: impl Future<Output = T>) -> T {
        let mut last = self.last.lock().await;
        if let Some((at, verdict)) = &*last
            && at.elapsed() < self.shared
        {
            return verdict.clone();
        }
        let verdict = look.await;
        *last = Some((Instant::now(), verdict.clone()));
        verdict
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn who_asks_at_once_shares_a_verdict_and_who_asks_later_gets_a_new_one() {
        let (readiness, looks) = (Readiness::default(), AtomicUsize::new(0));
        let look = |is_ready: bool| {
            let looks = &looks;
            async move {
                looks.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                is_ready
            }
        };
        let at_once = futures::join!(readiness.verdict(look(false)), readiness.verdict(look(true)));
        assert_eq!((at_once, looks.load(Ordering::SeqCst)), ((false, false), 1));
        let brief = Readiness { shared: Duration::ZERO, ..readiness };
        assert!(brief.verdict(look(true)).await);
        assert_eq!(looks.load(Ordering::SeqCst), 2);
    }
}
