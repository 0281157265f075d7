//! `Rounds` counts round trips: the answers that were waited for, one after another.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that run side by side are one round trip; one that starts after another was
/// answered is the next.
#[derive(Debug, Default)]
pub(super) struct Rounds(AtomicU64);

impl Rounds {
    /// Awaits the answer to a request.
    pub(super) async fn count<T>(&self, request: impl Future<Output = T>) -> T {
        let this = self.so_far() + 1;
        let answer = request.await;
        self.0.fetch_max(this, Ordering::AcqRel);
        answer
    }

    pub(super) fn so_far(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_side_by_side_is_one_round_trip() {
        let rounds = Rounds::default();
        let request = |seconds| rounds.count(tokio::time::sleep(Duration::from_secs(seconds)));
        tokio::join!(request(3), request(1), request(2));
        assert_eq!(rounds.so_far(), 1);
        let two = async {
            request(1).await;
            request(1).await;
        };
        tokio::join!(request(3), two);
        assert_eq!(rounds.so_far(), 3);
    }
}
