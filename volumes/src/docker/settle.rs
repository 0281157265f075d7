//! `settle_everywhere` undoes what dead commands have left at any daemon, for those who do not know which.

use std::time::Duration;

use engine::failure::Failure;
use store::ErrorKind;

use super::{connection::Docker, notes::Notes};

/// How long a daemon may take to answer. One that is gone for good must not keep every command waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// Undoes what dead commands of this host and user have left. Tells what it did, and what it could not do.
pub async fn settle_everywhere(notes: &Notes) -> (Vec<String>, Vec<Failure>) {
    let (mut told, mut failed) = (Vec::new(), Vec::new());
    for host in notes.hosts_left() {
        let connected = tokio::time::timeout(PATIENCE, Docker::connect(Some(&host))).await;
        let connected = connected.unwrap_or_else(|_| {
            let message = format!("Docker at {host} gives no answer, and a command has left something there");
            Err(Failure::new(ErrorKind::Unavailable, message).hint("start it; the next command tries again"))
        });
        match connected {
            Ok(docker) => match docker.settle_left(notes).await {
                Ok(done) => told.extend(done),
                Err(failure) => failed.push(failure),
            },
            Err(failure) => failed.push(failure),
        }
    }
    (told, failed)
}
