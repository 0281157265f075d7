//! `bend` forges objects at random: a seed makes the same ones on every machine.

use std::fs;

use serde_json::Value;
use store::{
    format::{
        layout,
        tree::{Entry, Extent, Kind, TreePath},
    },
    id::ChunkId,
};

use super::{
    Forge, Segment, change_document, overwrite,
    tree::{self, directory, file, hole, symlink},
};
use crate::{
    checker,
    mutation::{Dice, Mutator},
};

/// Changes something of the store that `forge` looks at, and names the change.
pub fn bend(forge: &mut Forge, outside: &str, seed: u64) -> String {
    let mut dice = Dice(seed);
    match dice.below(10) {
        0..=3 => bend_tree(forge, outside, &mut dice),
        4 => bend_segments(forge, &mut dice),
        5 => bend_root(forge, &mut dice),
        _ => bend_document(forge, &mut dice),
    }
}

/// A tree of which some entries are others.
fn bend_tree(forge: &mut Forge, outside: &str, dice: &mut Dice) -> String {
    let mut entries = forge.entries.clone();
    let mut told = Vec::new();
    for _ in 0..=dice.below(4) {
        told.push(bend_entries(&mut entries, outside, dice));
    }
    if dice.below(4) > 0 {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
    }
    forge.write(&entries);
    if dice.below(8) == 0 {
        forge.record.uncompressed_size_bytes = dice.number().min((1 << 53) - 1);
        forge.publish();
        told.push("another size in the record");
    }
    format!("a tree with {}", told.join(", "))
}

fn bend_entries(entries: &mut Vec<Entry>, outside: &str, dice: &mut Dice) -> &'static str {
    let at = dice.below(entries.len());
    let names =
        ["Default", "Default/Cookies", ".pstore-load", "SingletonLock", "Profile 1", "Last Version", "z"];
    let name = names[dice.below(names.len())];
    let targets = [outside.to_owned(), format!("{outside}/file"), "..".into(), "/".into(), "Default".into()];
    let target = &targets[dice.below(targets.len())];
    match dice.below(14) {
        0 => {
            entries[at].meta.mode = 0o7777;
            (entries[at].meta.uid, entries[at].meta.gid) = (dice.draw() as u32, 0);
            "special modes"
        }
        1 => {
            let mut value = |name: &str| (name.as_bytes().to_vec(), vec![0; dice.below(100)]);
            entries[at].meta.xattrs = vec![value("security.capability"), value("system.posix_acl_access")];
            "special attributes"
        }
        2 => {
            entries.retain(|entry| entry.path.as_bytes() != name.as_bytes());
            entries.push(symlink(name, target));
            "a link out of it"
        }
        3 => {
            entries.push(file(&format!("{name}/below"), b"x"));
            "something below another"
        }
        4 => {
            let depth = [10, 500, 2047, 2048, 2049, 5000][dice.below(6)];
            entries.extend((1..=depth).map(|depth| directory(vec!["d"; depth].join("/"))));
            "many levels"
        }
        5 => {
            entries.push(hole("z hole", dice.number().clamp(1, (1 << 62) - 1)));
            "a large hole"
        }
        6 => {
            let target = TreePath::new(name).unwrap();
            entries.push(tree::entry("zz", 0, Kind::HardLink { target }));
            "a hard link"
        }
        7 => {
            let kinds = [Kind::Fifo, Kind::Socket, Kind::CharDevice { device: 1 << 8 | 3 }, Kind::Directory];
            entries[at].kind = kinds[dice.below(kinds.len())].clone();
            "a special file"
        }
        8 => {
            let long = vec!["l".repeat(250); 100].join("/");
            let above = (1..=100).map(|depth| directory(vec!["l".repeat(250); depth].join("/")));
            entries.extend(above);
            let count = [10, 300, 6000][dice.below(3)];
            entries.extend((0..count).map(|number| file(&format!("{long}/{number:05}"), b"")));
            "many long paths"
        }
        9 => {
            let path = entries[at].path.clone();
            entries.retain(|entry| entry.path != path);
            "an entry less"
        }
        10 => {
            let crashed = br#"{"profile":{"exit_type":"Crashed"}}"#;
            entries.retain(|entry| entry.path.as_bytes() != b"Default/Preferences");
            entries.push(file("Default/Preferences", crashed));
            "a crash"
        }
        11 => {
            if let Kind::File { size, extents } = &mut entries[at].kind {
                let (id, len) = (ChunkId::from_bytes([7; 32]), 1 + dice.below(1 << 20) as u32);
                *extents = vec![Extent::Chunk { id, len }; 1 + dice.below(3000)];
                *size = extents.iter().map(Extent::len).sum();
            }
            "chunks that are not there"
        }
        12 => {
            if let Kind::File { size, .. } = &mut entries[at].kind {
                *size = dice.number().min((1 << 62) - 1);
            }
            "another size"
        }
        _ => {
            entries[at].meta.xattrs =
                (0..dice.below(1100)).map(|n| (format!("user.{n:04}").into(), vec![0; 4000])).collect();
            "many attributes"
        }
    }
}

/// The bytes of segments and tables.
fn bend_segments(forge: &mut Forge, dice: &mut Dice) -> String {
    let mut segments = tree::segments(&forge.entries, &forge.locations);
    let at = dice.below(segments.len());
    let corpus: Vec<Vec<u8>> =
        segments.iter().flat_map(|segment| [segment.tree.clone(), segment.table.clone()]).collect();
    let mut mutator = Mutator::new(&corpus, dice.draw());
    let Segment { tree, table, .. } = &mut segments[at];
    let part = if dice.below(2) == 0 { tree } else { table };
    *part = mutator.changed(part);
    if part.is_empty() {
        part.push(0);
    }
    forge.write_segments(&segments);
    "other bytes in a segment".to_owned()
}

/// Forges a root's description of its segments.
fn bend_root(forge: &mut Forge, dice: &mut Dice) -> String {
    let mut segments = tree::segments(&forge.entries, &forge.locations);
    let times = [1, 2, 100, 4000][dice.below(4)];
    let mut long = segments[0].clone();
    if dice.below(2) == 0 {
        long.tree.resize(1 << (10 + dice.below(15)), 0);
        long.tree.truncate(16 << 20);
    }
    let repeats = dice.below(2) == 0;
    segments.extend(repeats.then_some(long));
    let (choice, number, at) = (dice.below(7), dice.number(), dice.draw() as usize);
    forge.write_bent(&segments, |root| {
        if let (true, Some(last)) = (repeats, root.segments.last().cloned()) {
            root.segments.extend(vec![last; times]);
        }
        let at = at % root.segments.len();
        let segment = &mut root.segments[at];
        match choice {
            0 => segment.chunks = number as u32,
            1 => segment.tree.raw_len = (number as u32).clamp(1, 16 << 20),
            2 => segment.table.raw_len = (number as u32).clamp(1, 16 << 20),
            3 => segment.tree.offset = number.clamp(16, 1 << 48),
            4 => segment.tree.stored_len = (number as u32).clamp(1, 16 << 20),
            5 => segment.tree = segment.table,
            _ => {}
        }
    });
    format!("a root with {times} segments that says something else of one ({choice})")
}

/// A document of any kind, whose check is right.
fn bend_document(forge: &mut Forge, dice: &mut Dice) -> String {
    let tenant = &forge.lineage.name.tenant;
    let record = forge.record.record;
    let folder = |prefix: &store::bucket::Prefix| {
        let found = fs::read_dir(forge.path(prefix.as_str())).into_iter().flatten();
        found.map(|entry| entry.unwrap().path()).min()
    };
    let (path, made) = match dice.below(6) {
        0 | 1 => (forge.record_path(), None),
        2 => (forge.pointer_path(), None),
        3 => {
            let of = crate::vectors::vectors("acme/pins/").remove(0);
            (forge.path(layout::pin(tenant, record).as_str()), Some(of))
        }
        4 => {
            let of = crate::vectors::vectors("acme/condemned/").remove(0);
            (forge.path(layout::condemned_by(tenant, record).as_str()), Some(of))
        }
        _ => (folder(&layout::indexes(tenant)).unwrap_or_else(|| forge.record_path()), None),
    };
    let bytes = made.unwrap_or_else(|| fs::read(&path).unwrap());
    let told = path.strip_prefix(&forge.objects).unwrap().display().to_string();
    let bent = Mutator::new(std::slice::from_ref(&bytes), dice.draw()).changed(&bytes);
    match serde_json::from_slice::<Value>(&bent) {
        Ok(mut document) if document.is_object() => {
            if let Some(Value::Object(block)) = document.get_mut("pstore") {
                let check = checker::check_of(&Value::Object(block.clone()));
                block.insert("check".into(), check.into());
            }
            overwrite(&path, document.to_string().as_bytes());
            if !told.ends_with("latest.json") {
                change_document(&path, |_| {});
            }
        }
        _ => overwrite(&path, &bent),
    }
    format!("another {told}")
}
