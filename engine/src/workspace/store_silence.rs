//! `silence_of_the_store` notices a store that does not answer, for those who must not wait for it.
//!
//! A request is repeated for a minute and longer, and one that carries much takes its time. So what is timed is a small
//! question of its own, which is asked again and again beside the work.

use std::time::Duration;

use store::{ErrorKind, bucket::StoreUrl};

use crate::{Engine, failure::Failure, location::Purpose};

/// How long after one answer the next question is asked.
const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Ends when the store has left a question open for so long. Any answer is one, a refusal too. A directory is not asked:
    /// a disk that does not answer stops whoever asks it.
    pub(crate) async fn silence_of_the_store(&self, patience: Duration) -> Failure {
        if matches!(self.location.url, StoreUrl::Directory(_)) {
            return std::future::pending().await;
        }
        let mut opened = None;
        loop {
            let question = async {
                if opened.is_none() {
                    opened = self.store(Purpose::Read).await.ok();
                }
                if let Some(store) = &opened {
                    let _ = store.config().await;
                }
            };
            if tokio::time::timeout(patience, question).await.is_err() {
                let (shown, seconds) = (self.location.shown(), patience.as_secs());
                let message = format!("{shown} has not answered for {seconds} s");
                return Failure::new(ErrorKind::Unavailable, message);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
