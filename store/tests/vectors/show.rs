//! `show` writes values in words, for `expected.json`.

use serde_json::{Value, json};
use store::format::{
    pack::{EntryKind, PackEntry},
    table::Location,
    tree::{Entry, Extent, Kind},
};

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| {
            let digits = std::str::from_utf8(pair).expect("hex digits");
            u8::from_str_radix(digits, 16).expect("hex digits")
        })
        .collect()
}

pub fn json_bytes(value: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("JSON always encodes");
    bytes.push(b'\n');
    bytes
}

/// `offset stored_len raw_len kind codec crc id`
pub fn pack_lines(entries: &[PackEntry]) -> Vec<String> {
    let kind = |kind| match kind {
        EntryKind::Data => "data",
        EntryKind::Tree => "tree",
        EntryKind::Table => "table",
        EntryKind::Root => "root",
    };
    entries
        .iter()
        .map(|e| {
            let (kind, codec) = (kind(e.kind), e.codec.to_u8());
            format!("{} {} {} {kind} {codec} {:08x} {}", e.offset, e.stored_len, e.raw_len, e.crc, e.id)
        })
        .collect()
}

/// `pack offset stored_len codec`
pub fn location_line(at: &Location) -> String {
    format!("{} {} {} {}", at.pack, at.offset, at.stored_len, at.codec.to_u8())
}

pub fn entries_json(entries: &[Entry]) -> Value {
    entries.iter().map(entry_json).collect()
}

fn entry_json(entry: &Entry) -> Value {
    let path = entry.path.to_string();
    let (kind, more) = match &entry.kind {
        Kind::HardLink { target } => {
            return json!({ "path": path, "kind": "hard link", "target": target.to_string() });
        }
        Kind::File { size, extents } => {
            ("file", json!({ "size": size, "extents": extents.iter().map(extent).collect::<Vec<_>>() }))
        }
        Kind::Directory => ("directory", json!({})),
        Kind::Symlink { target } => ("symlink", json!({ "target": target.escape_ascii().to_string() })),
        Kind::Fifo => ("fifo", json!({})),
        Kind::Socket => ("socket", json!({})),
        Kind::CharDevice { device } => ("character device", json!({ "device": device })),
        Kind::BlockDevice { device } => ("block device", json!({ "device": device })),
    };
    let meta = &entry.meta;
    let mut value = json!({
        "path": path,
        "kind": kind,
        "mode": format!("{:04o}", meta.mode),
        "owner": format!("{}:{}", meta.uid, meta.gid),
        "mtime": [meta.mtime.seconds, i64::from(meta.mtime.nanos)],
    });
    let object = value.as_object_mut().expect("an object");
    object.extend(more.as_object().expect("an object").clone());
    let pairs =
        |pairs: Vec<(String, String)>| Value::Object(pairs.into_iter().map(|(k, v)| (k, v.into())).collect());
    if !meta.xattrs.is_empty() {
        let xattrs = meta.xattrs.iter().map(|(name, value)| (name.escape_ascii().to_string(), hex(value)));
        object.insert("xattrs".to_owned(), pairs(xattrs.collect()));
    }
    if !meta.extensions.is_empty() {
        let extensions = meta.extensions.iter().map(|e| (e.tag.to_string(), hex(&e.value)));
        object.insert("extensions".to_owned(), pairs(extensions.collect()));
    }
    value
}

fn extent(extent: &Extent) -> String {
    match extent {
        Extent::Hole(len) => format!("hole {len}"),
        Extent::Chunk { id, len } => format!("chunk {len} {id}"),
        Extent::Inline(bytes) => format!("inline {}", hex(bytes)),
    }
}
