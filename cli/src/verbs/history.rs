//! `history` turns the arguments of `pstore history` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::{size, time},
    verbs::history::{HistoryOutcome, HistoryRequest},
};
use store::format::record::State;

use crate::{
    answer::Answer,
    args::HistoryArgs,
    table::{
        Align::{Left, Right},
        Table,
    },
};

pub(super) async fn run(engine: Engine, args: &HistoryArgs) -> Result<Answer, Failure> {
    let outcome = engine.history(&HistoryRequest { snapshot: args.snapshot.choice() }).await?;
    Answer::of(&outcome, format!("{}{}\n", table(&outcome), outcome.end.message))
}

fn table(outcome: &HistoryOutcome) -> String {
    let mut table = Table::new(&[
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("NEW", Right),
        ("MODE", Left),
        ("REASON", Left),
        ("BY", Left),
        ("LABELS", Left),
    ]);
    for snapshot in &outcome.snapshots {
        let by = &snapshot.captured_by;
        let by = [by.host.as_str(), by.host_run_id.as_str()].into_iter().filter(|part| !part.is_empty());
        let deleted = (snapshot.state != State::Live).then(|| "(deleted)".to_owned());
        let labels = snapshot.labels.iter().map(|(key, value)| format!("{key}={value}"));
        table.row(vec![
            time::utc(snapshot.captured_at_ms),
            snapshot.sha256_prefix.clone(),
            size::bytes(snapshot.uncompressed_size_bytes),
            size::bytes(snapshot.new_bytes),
            snapshot.mode.as_str().to_owned(),
            snapshot.reason.as_str().to_owned(),
            by.collect::<Vec<_>>().join("/"),
            deleted.into_iter().chain(labels).collect::<Vec<_>>().join(" "),
        ]);
    }
    table.render()
}
