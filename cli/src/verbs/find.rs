//! `find` turns the arguments of `pstore find` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::{path, size, time},
    verbs::find::{FindMatch, FindOutcome, FindRequest},
};

use crate::{
    answer::Answer,
    args::FindArgs,
    table::{
        Align::{Left, Right},
        Table,
    },
};

pub(super) async fn run(engine: Engine, args: &FindArgs) -> Result<Answer, Failure> {
    let request = FindRequest { snapshot: args.snapshot.choice(), glob: args.glob.clone(), all: args.all };
    let outcome = engine.find(&request).await?;
    let text = match args.all {
        _ if outcome.matches.is_empty() => String::new(),
        true => table(&outcome),
        false => outcome.matches.iter().map(|found| format!("{}\n", shown(found))).collect(),
    };
    Answer::of(&outcome, text)
}

fn shown(found: &FindMatch) -> String {
    path::shown(&found.entry.path_bytes)
}

fn table(outcome: &FindOutcome) -> String {
    let mut table = Table::new(&[
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("MODIFIED (UTC)", Left),
        ("PATH", Left),
    ]);
    for found in &outcome.matches {
        table.row(vec![
            time::utc(found.captured_at_ms),
            found.sha256_prefix.clone(),
            found.entry.size_bytes.map(size::bytes).unwrap_or_default(),
            time::utc(found.entry.modified_at_ms),
            shown(found),
        ]);
    }
    table.render()
}
