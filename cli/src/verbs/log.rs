//! `log` turns the arguments of `pstore log` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::time,
    verbs::log::{LogEvent, LogOutcome, LogRequest},
};

use crate::{
    answer::Answer,
    args::LogArgs,
    table::{Align::Left, Table},
};

pub(super) async fn run(engine: Engine, args: &LogArgs) -> Result<Answer, Failure> {
    let last = Some(args.last).filter(|last| *last > 0);
    let outcome = engine.log(&LogRequest { lineage: args.lineage.name(), last }).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &LogOutcome) -> String {
    let mut table =
        Table::new(&[("WHEN (UTC)", Left), ("EVENT", Left), ("WHAT", Left), ("BY", Left), ("WHY", Left)]);
    for event in &outcome.events {
        let by: Vec<&str> = [event.by.run_id.as_str(), event.by.host.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        table.row(vec![
            time::utc(event.at_ms),
            event.kind.as_str().to_owned(),
            what(event),
            by.join(" on "),
            event.reason.clone(),
        ]);
    }
    table.render()
}

fn what(event: &LogEvent) -> String {
    let named = |prefix: &str| if prefix.is_empty() { "nothing".to_owned() } else { prefix.to_owned() };
    match (&event.from_sha256_prefix, &event.to_sha256_prefix, &event.holder_run_id) {
        (Some(from), Some(to), _) => format!("{} -> {to}", named(from)),
        (Some(from), None, _) => from.clone(),
        (_, _, Some(holder)) => format!("held by {holder}"),
        _ => String::new(),
    }
}
