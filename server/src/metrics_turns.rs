//! `metrics_turns` folds the reports of all programs, in turns with all other servers of the store, and reads
//! the totals.

use std::{sync::Arc, time::Duration};

use engine::{failure::Failure, location::Purpose};
use store::{
    bucket::request_id,
    catalog::{clock, jobs, schedules, store::Store},
};

use crate::server_state::Server;

/// The name of the turns.
const NAME: &str = "metrics";
/// How far turns are apart. Nobody misses a report for longer than that.
const EVERY: Duration = Duration::from_secs(15);

/// Learns when garbage was last collected; and, if programs report, reads and folds their reports until the server
/// stops.
pub(crate) fn begin(server: &Arc<Server>) {
    if server.engine.settings.metrics_reports() {
        server.engine.metrics.serve_totals();
    }
    // What the server asks the store for by itself has a name of its own there.
    let name = clock::new_record_id().to_string();
    tokio::spawn(request_id::for_request(name, keep(Arc::clone(server))));
}

async fn keep(server: Arc<Server>) {
    if let Err(failure) = learn_collection(&server).await {
        tracing::debug!("when garbage was last collected is not known: {}", failure.message);
    }
    if !server.engine.settings.metrics_reports() {
        return;
    }
    loop {
        if let Err(failure) = take_turn(&server).await {
            let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            tracing::warn!("reports of metrics could not be folded: {}{hint}", failure.message);
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = server.stopping.raised() => return,
        }
    }
}

/// Another server may have collected, or this one before it was started again.
async fn learn_collection(server: &Server) -> Result<(), Failure> {
    let store = server.engine.store(Purpose::Read).await?;
    let last = schedules::get(&store, "gc").await?.map(|found| found.schedule);
    let done = last.filter(|last| last.outcome.as_deref() == Some("done"));
    if let Some(ended_at_ms) = done.and_then(|last| last.ended_at_ms) {
        server.engine.metrics.know_collection(ended_at_ms);
    }
    Ok(())
}

async fn take_turn(server: &Server) -> Result<(), Failure> {
    let store = server.engine.store(Purpose::Change).await?;
    server.engine.read_metrics_totals(&store).await?;
    match server.does_jobs {
        true => fold(server, &store).await,
        false => Ok(()),
    }
}

/// Folds the reports, if it is this server's turn. A turn saves work, and the totals are replaced by
/// compare-and-swap: two servers that are at it count nothing twice.
async fn fold(server: &Server, store: &Store) -> Result<(), Failure> {
    if store.config().await?.is_none() {
        return Err(server.engine.location.no_store());
    }
    let seen = schedules::get_or_make(store, NAME).await?;
    let Some(turn) = schedules::take(store, seen, EVERY, &server.name, jobs::new_id()).await? else {
        return Ok(());
    };
    let folded = server.engine.fold_metrics(store).await;
    schedules::end(store, &turn, if folded.is_ok() { "done" } else { "failed" }).await?;
    let count = folded?;
    if count > 0 {
        tracing::debug!("{count} reports of metrics were folded");
    }
    Ok(())
}
