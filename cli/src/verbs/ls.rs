//! `ls` turns the arguments of `pstore ls` into a request, and its outcome into text.

use std::io;

use engine::{
    Engine,
    contents::{EntryFields, EntryKind},
    failure::Failure,
    text::{escape, path, size, time},
    verbs::ls::{LsOutcome, LsRequest, LsStream},
};
use serde_json::json;
use store::{content::workers::blocking, error::IoContext};

use crate::{answer::Answer, args::LsArgs, console};

/// A list of entries in a document that has none yet, and its beginning. Within a text a quote is escaped, so nothing else
/// looks like it.
const EMPTY: &str = "\"entries\": []";
const OPENED: &str = "\"entries\": [";

pub(super) async fn run(engine: Engine, args: &LsArgs) -> Result<Answer, Failure> {
    let request = LsRequest {
        snapshot: args.snapshot.choice(),
        path: args.path.clone().unwrap_or_default(),
        is_recursive: args.recursive,
    };
    let mut stream = engine.ls_stream(&request).await?;
    let written = match engine.observer.owns_stdout() {
        true => write_document(&mut stream).await,
        false => write_lines(&mut stream, args.long).await,
    };
    stream.close().await;
    written
}

async fn write_lines(stream: &mut LsStream, is_long: bool) -> Result<Answer, Failure> {
    if is_long && !put(heading()).await? {
        return Ok(Answer::written());
    }
    while let Some(entries) = stream.next().await? {
        let head = &stream.head;
        let lines = entries.iter().map(|entry| match is_long {
            true => row(entry, head),
            false => format!("{}\n", escape::line(&name(entry, head))),
        });
        if !put(lines.collect()).await? {
            break;
        }
    }
    Ok(Answer::written())
}

/// The same document as that of an outcome, written entry by entry. If reading fails on the way, the document ends with
/// the error, as one does whose verb found something bad.
async fn write_document(stream: &mut LsStream) -> Result<Answer, Failure> {
    let frame = console::pretty(&json!(stream.head));
    let (before, after) =
        frame.split_once(EMPTY).ok_or_else(|| Failure::internal("a list without entries"))?;
    let mut text = format!("{before}{OPENED}");
    let mut is_first = true;
    let ended = loop {
        let entries = match stream.next().await {
            Ok(Some(entries)) => entries,
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        };
        for entry in &entries {
            text.push_str(if is_first { "\n" } else { ",\n" });
            let entry = console::pretty(&json!(entry));
            let lines: Vec<String> = entry.lines().map(|line| format!("    {line}")).collect();
            text.push_str(&lines.join("\n"));
            is_first = false;
        }
        if !put(std::mem::take(&mut text)).await? {
            return Ok(Answer::written());
        }
    };
    text.push_str(if is_first { "]" } else { "\n  ]" });
    let Some(failure) = ended else {
        put(text + after).await?;
        return Ok(Answer::written());
    };
    let error = console::pretty(&json!(failure.document()));
    let fields = error.trim_start_matches('{').trim_end().trim_end_matches('}').trim_end();
    let after = after.trim_end().trim_end_matches('}').trim_end();
    put(format!("{text}{after},{fields}\n}}\n")).await?;
    Ok(Answer { verdict: Some((failure.kind, failure.message)), hint: failure.hint, ..Answer::written() })
}

/// Writes to stdout, on a thread that may wait for the reader. Says whether somebody still reads.
async fn put(text: String) -> Result<bool, Failure> {
    blocking(move || {
        Ok(match console::put(&text) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => false,
            written => {
                written.at("cannot write", "stdout")?;
                true
            }
        })
    })
    .await
    .map_err(Failure::from)
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

/// The columns have the widths of the widest cells there can be, since the rows are written before all are known.
fn line(cells: [&str; 4]) -> String {
    let [mode, size, modified, name] = cells.map(|cell| escape::line(cell).into_owned());
    let line = format!("{mode:<10}  {size:>10}  {modified:<19}  {name}");
    format!("{}\n", line.trim_end())
}

fn heading() -> String {
    line(["MODE", "SIZE", "MODIFIED (UTC)", "NAME"])
}

fn row(entry: &EntryFields, outcome: &LsOutcome) -> String {
    let leads = entry.target_bytes.as_ref().map(|target| format!(" -> {}", path::shown(target)));
    let size = entry.size_bytes.map(size::bytes).unwrap_or_default();
    let name = format!("{}{}", name(entry, outcome), leads.unwrap_or_default());
    line([&mode(entry), &size, &time::utc(entry.modified_at_ms), &name])
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
