//! `ls` turns the arguments of `pstore ls` into a request, and its outcome into text.

use engine::{
    Engine,
    contents::{EntryFields, EntryKind},
    failure::Failure,
    text::{path, size, time},
    verbs::ls::{LsOutcome, LsRequest},
};

use crate::{
    answer::Answer,
    args::LsArgs,
    table::{
        Align::{Left, Right},
        Table,
    },
};

pub(super) async fn run(engine: Engine, args: &LsArgs) -> Result<Answer, Failure> {
    let request = LsRequest {
        snapshot: args.snapshot.choice(),
        path: args.path.clone().unwrap_or_default(),
        is_recursive: args.recursive,
    };
    let outcome = engine.ls(&request).await?;
    let text = match args.long {
        true => table(&outcome),
        false => outcome.entries.iter().map(|entry| format!("{}\n", name(entry, &outcome))).collect(),
    };
    Answer::of(&outcome, text)
}

/// As seen from the directory that is listed; a slash ends the name of a directory.
fn name(entry: &EntryFields, outcome: &LsOutcome) -> String {
    let whole = entry.path_bytes.as_slice();
    let below = whole.strip_prefix(outcome.path_bytes.as_slice()).unwrap_or(whole);
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let below = if below.is_empty() { last_name(whole) } else { below };
    let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
    format!("{}{slash}", path::shown(below))
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn table(outcome: &LsOutcome) -> String {
    let mut table = Table::new(&[("MODE", Left), ("SIZE", Right), ("MODIFIED (UTC)", Left), ("NAME", Left)]);
    for entry in &outcome.entries {
        let leads = entry.target_bytes.as_ref().map(|target| format!(" -> {}", path::shown(target)));
        table.row(vec![
            mode(entry),
            entry.size_bytes.map(size::bytes).unwrap_or_default(),
            time::utc(entry.modified_at_ms),
            format!("{}{}", name(entry, outcome), leads.unwrap_or_default()),
        ]);
    }
    table.render()
}

/// `-rw-r--r--`, as `ls` has it.
fn mode(entry: &EntryFields) -> String {
    let kind = match entry.kind {
        EntryKind::File | EntryKind::HardLink => '-',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'l',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
        EntryKind::CharDevice => 'c',
        EntryKind::BlockDevice => 'b',
    };
    let bits = entry.mode;
    let letter = |at: u32| {
        let is_set = bits >> at & 1 == 1;
        let special = [(6, 11, 's'), (3, 10, 's'), (0, 9, 't')].into_iter().find(|(place, ..)| *place == at);
        match special {
            Some((_, bit, letter)) if bits >> bit & 1 == 1 => {
                if is_set {
                    letter
                } else {
                    letter.to_ascii_uppercase()
                }
            }
            _ if is_set => ['x', 'w', 'r'][at as usize % 3],
            _ => '-',
        }
    };
    std::iter::once(kind).chain((0..9).rev().map(letter)).collect()
}
