//! `pstore ls`

use std::ffi::OsStr;

use engine::{
    failure::Failure,
    text::{path, size, time},
};
use serde_json::{Value, json};
use store::{
    format::tree::{Entry, Kind, TreePath},
    ops::read::browse,
};

use super::{Engine, inside};
use crate::{
    answer::Answer,
    args::LsArgs,
    table::{
        Align::{Left, Right},
        Table,
    },
};

pub(super) async fn run(engine: Engine, args: &LsArgs) -> Result<Answer, Failure> {
    let (reference, path) =
        (args.snapshot.reference()?, inside::path(args.path.as_deref().unwrap_or(OsStr::new("")))?);
    let (tenant, lineage) = engine.lineage_to_judge(&args.snapshot.lineage()).await?;
    let record = engine.snapshot(&tenant, &lineage, reference).await?;
    let entries = browse::entries(&tenant, &record).await?;
    let listed = listed(&entries, &path, args.recursive)
        .ok_or_else(|| inside::elsewhere(&record, browse::missing(&record, &path)))?;
    let (shown, hex) = path::json(path.as_bytes());
    let document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "sha256_prefix": record.sha256_prefix(),
        "record": record.record,
        "path": shown,
        "path_hex": hex,
        "entries": listed.iter().map(|entry| inside::document(&entries, entry)).collect::<Vec<Value>>(),
    });
    let named = |entry: &Entry| name(entry, &path);
    let text = match args.long {
        true => table(&entries, &listed, named),
        false => listed.iter().map(|entry| format!("{}\n", named(entry))).collect(),
    };
    Ok(Answer::new(document, text))
}

/// What is in a directory, or all below it; of anything else, that alone.
fn listed<'a>(entries: &'a [Entry], path: &TreePath, recursive: bool) -> Option<Vec<&'a Entry>> {
    let named = browse::entry(entries, path)?;
    if named.kind != Kind::Directory {
        return Some(vec![named]);
    }
    let is_in = |entry: &&Entry| match recursive {
        true => entry.path != *path,
        false => entry.path.parent() == Some(path.as_bytes()),
    };
    // What is below a directory follows it directly.
    let first = entries.partition_point(|entry| entry.path < *path);
    let below = entries[first..].iter().take_while(|entry| is_below(&entry.path, path));
    Some(below.filter(is_in).collect())
}

fn is_below(path: &TreePath, directory: &TreePath) -> bool {
    let rest = path.as_bytes().strip_prefix(directory.as_bytes());
    rest.is_some_and(|rest| directory.is_root() || rest.is_empty() || rest.starts_with(b"/"))
}

/// As seen from the directory that is listed; a slash ends what is one itself.
fn name(entry: &Entry, directory: &TreePath) -> String {
    let whole = entry.path.as_bytes();
    let below = whole.strip_prefix(directory.as_bytes()).unwrap_or(whole);
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let below = if below.is_empty() { entry.path.name() } else { below };
    let slash = if entry.kind == Kind::Directory { "/" } else { "" };
    format!("{}{slash}", path::shown(below))
}

fn table(entries: &[Entry], listed: &[&Entry], named: impl Fn(&Entry) -> String) -> String {
    let mut table = Table::new(&[("MODE", Left), ("SIZE", Right), ("MODIFIED (UTC)", Left), ("NAME", Left)]);
    for entry in listed {
        let leads = inside::target(entry).map(|target| format!(" -> {}", path::shown(target)));
        table.row(vec![
            mode(entry, inside::meta(entries, entry).mode),
            inside::size(entries, entry).map(size::bytes).unwrap_or_default(),
            time::utc(inside::modified_at_ms(inside::meta(entries, entry))),
            format!("{}{}", named(entry), leads.unwrap_or_default()),
        ]);
    }
    table.render()
}

/// `-rw-r--r--`, as `ls` has it.
fn mode(entry: &Entry, bits: u32) -> String {
    let kind = match entry.kind {
        Kind::File { .. } | Kind::HardLink { .. } => '-',
        Kind::Directory => 'd',
        Kind::Symlink { .. } => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice { .. } => 'c',
        Kind::BlockDevice { .. } => 'b',
    };
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
