//! These tests compare the code with `format-spec/vectors`, the examples of the format's specification.
//!
//! The first test is what a writer must do: the code makes these very bytes. The others
//! are what a reader must do: find the expected values in them, and refuse what is wrong.

#![allow(clippy::unwrap_used)]

#[path = "vectors/mod.rs"]
mod made;
#[path = "vectors/procedures.rs"]
mod procedures;
#[path = "vectors/schemas.rs"]
mod schemas;
#[path = "vectors/whole_store.rs"]
mod whole_store;

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};
use store::{
    content::{damage::DamagedFrames, reader::Verified},
    format::{
        FormatError,
        bytes::Reader,
        condemned::Condemned,
        config::{StoreConfig, TenantConfig},
        event::Event,
        expectations::Expectations,
        frame::{self, Codec},
        index::Index,
        lock::Lock,
        manifest::Manifest,
        merged_events::MergedEvents,
        pack::{self, Directory},
        pin::Pin,
        pointer::Pointer,
        record::{Mode, Reason, Record},
        root::{Root, Span, packs_of},
        segment::{SegmentReader, SegmentWriter, snapshot_id},
        table,
        tombstone::Tombstone,
        tree::Entry,
        work_in_progress::WorkInProgress,
    },
    id::PackId,
};

use made::{Files, KEY, TEXT, refuse::Case, show};

fn spec() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec")
}

/// Every file below `format-spec/vectors` but for the page about them.
fn on_disk() -> Files {
    fn add(files: &mut Files, root: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(files, root, &path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    let (mut files, root) = (Files::new(), spec().join("vectors"));
    add(&mut files, &root, &root);
    files.remove("README.md").expect("there is a page about the vectors");
    files
}

fn expected(name: &str) -> Value {
    let bytes = fs::read(spec().join("vectors/expected.json")).unwrap();
    let mut all: Value = serde_json::from_slice(&bytes).unwrap();
    all[name].take()
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(&fs::read(spec().join("vectors/refuse/cases.json")).unwrap()).unwrap()
}

fn document(of: &Files, suffix: &str) -> Vec<u8> {
    of.iter().find(|(name, _)| name.ends_with(suffix)).map(|(_, bytes)| bytes.clone()).unwrap()
}

/// Decodes a pack as a reader does: trailer first, then the directory it tells of.
fn directory(pack: &[u8]) -> Result<Directory, FormatError> {
    let trailer = &pack[pack.len().saturating_sub(pack::TRAILER_LEN)..];
    let offset = pack::directory_offset(trailer, pack.len() as u64)?;
    pack::decode_directory(&pack[offset as usize..], pack.len() as u64)
}

fn tree<'a>(segments: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Entry>, FormatError> {
    let (mut reader, mut entries) = (SegmentReader::default(), Vec::new());
    for segment in segments {
        reader.read(segment, |entry| entries.push(entry))?;
    }
    reader.finish()?;
    Ok(entries)
}

#[test]
fn the_code_makes_exactly_these_files() {
    let (made, found) = (made::all(), on_disk());
    let names = |files: &Files| files.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&made), names(&found));
    for (name, bytes) in &made {
        assert!(*bytes == found[name], "{name} is not what the code makes");
    }
}

#[test]
fn every_file_is_read_by_a_test() {
    let files = on_disk();
    let refused: BTreeSet<String> = cases().into_iter().map(|case| case.file).collect();
    for (name, bytes) in &files {
        if let Some(len) = name.strip_prefix("frames/stored-").and_then(|rest| rest.strip_suffix(".zst")) {
            let raw = made::stored_content(len.parse().unwrap());
            assert_eq!(frame::decode(Codec::Zstd, bytes, raw.len()).unwrap(), raw, "{name}");
        } else if name == "frames/text.zst" {
            let id = KEY.id_of(TEXT);
            assert_eq!(*Verified::check(&KEY, &id, Codec::Zstd, bytes, 64).unwrap(), TEXT[..]);
        } else if name == "segments/root-1" {
            assert!(!Root::decode(bytes).unwrap().is_spanned());
        } else if name.starts_with("segments/") {
            let meta = document(&files, "-meta");
            let entries = directory(&meta).unwrap().entries;
            let entry = entries.iter().find(|entry| entry.id == KEY.id_of(bytes)).unwrap();
            let stored = &meta[entry.offset as usize..][..entry.stored_len as usize];
            assert_eq!(frame::decode(entry.codec, stored, entry.raw_len as usize).unwrap(), *bytes, "{name}");
        } else if let Some(key) = name.strip_prefix("store/objects/") {
            object(key, bytes);
        } else if let Some(step) = name.strip_prefix("steps/").filter(|step| *step != "steps.json") {
            let again = match step {
                "record.json" => Record::decode(bytes).unwrap().encode(),
                _ if step.starts_with("lock-") => Lock::decode(bytes).unwrap().encode(),
                _ => Pointer::decode(bytes).unwrap().encode(),
            };
            assert!(again == *bytes, "{name}");
        } else if name.starts_with("records/") {
            assert!(Record::decode(bytes).unwrap().encode() == *bytes, "{name}");
        } else if name == "manifest.json" {
            assert!(Manifest::decode(bytes).unwrap().encode() == *bytes, "{name}");
        } else if name == "tombstone.json" {
            assert!(Tombstone::decode(bytes).unwrap().encode() == *bytes, "{name}");
        } else if name == "wip.json" {
            assert!(WorkInProgress::decode(bytes).unwrap().encode() == *bytes, "{name}");
        } else if !refused.contains(name) && !is_read_elsewhere(name) {
            panic!("no test knows {name}");
        }
    }
    assert!(refused.iter().all(|name| files.contains_key(name)));
}

/// The lists, and the heads of an archive, which the test of exports looks for.
fn is_read_elsewhere(name: &str) -> bool {
    matches!(name, "expected.json" | "refuse/cases.json" | "steps/steps.json") || name.starts_with("tar/")
}

/// Reads an object of the vector store; what is read is written as the same bytes again.
fn object(key: &str, bytes: &[u8]) {
    let again = match key.split('/').collect::<Vec<_>>()[..] {
        ["pstore.json"] => StoreConfig::decode(bytes).unwrap().encode(),
        ["content", "acme", "tenant.json"] => TenantConfig::decode(bytes).unwrap().encode(),
        ["content", "acme", "packs", id] => return pack_is_as_expected(id, bytes),
        ["content", "acme", "index", _] => Index::decode(bytes).unwrap().encode(),
        ["content", "acme", "pins", _] => Pin::decode(bytes).unwrap().encode(),
        ["content", "acme", "pins", session, _] => {
            let root = Pin::decode(bytes).unwrap();
            assert_eq!(root.session.as_ref().unwrap().id.to_string(), session);
            assert_eq!(root.kept_generation(), None);
            root.encode()
        }
        ["snapshots", .., "events", name] if name.starts_with("merged-") => {
            MergedEvents::decode(bytes).unwrap().encode()
        }
        ["snapshots", .., "events", _] => Event::decode(bytes).unwrap().encode(),
        ["snapshots", .., "lock.json"] => Lock::decode(bytes).unwrap().encode(),
        ["content", "acme", "condemned", _] => Condemned::decode(bytes).unwrap().encode(),
        ["snapshots", "acme", "alice", "expectations.json"] => Expectations::decode(bytes).unwrap().encode(),
        ["snapshots", "acme", "alice", "131", "latest.json"] => Pointer::decode(bytes).unwrap().encode(),
        ["snapshots", "acme", "alice", "131", _] => Record::decode(bytes).unwrap().encode(),
        _ => panic!("no test knows {key}"),
    };
    assert!(again == bytes, "{key}");
}

fn pack_is_as_expected(id: &str, bytes: &[u8]) {
    assert_eq!(bytes[..pack::HEADER_LEN], pack::header());
    pack::check_header(&bytes[..pack::HEADER_LEN]).unwrap();
    let Directory { pack, key, entries, .. } = directory(bytes).unwrap();
    assert_eq!((pack.to_string().as_str(), key), (id, KEY));
    assert_eq!(json!(show::pack_lines(&entries)), expected("packs")[id]);
    for entry in entries {
        let stored = &bytes[entry.offset as usize..][..entry.stored_len as usize];
        assert_eq!(crc32c::crc32c(stored), entry.crc);
        Verified::check(&KEY, &entry.id, entry.codec, stored, entry.raw_len).unwrap();
    }
}

#[test]
fn the_tree_has_the_expected_entries_and_one_encoding() {
    let files = on_disk();
    let root = Root::decode(&files["segments/root"]).unwrap();
    let count = root.segments.len();
    let segments: Vec<&[u8]> = (0..count).map(|at| &files[&format!("segments/tree-{at}")][..]).collect();
    let entries = tree(segments.iter().copied()).unwrap();
    assert_eq!(show::entries_json(&entries), expected("entries"));
    let mut writer = SegmentWriter::default();
    entries.iter().for_each(|entry| writer.push(entry).unwrap());
    let again = writer.finish();
    assert!(again.iter().map(|segment| &segment.bytes[..]).eq(segments));

    let mut locations = Vec::new();
    for (at, (segment, reference)) in again.iter().zip(&root.segments).enumerate() {
        assert_eq!(segment.chunks.len() as u32, reference.chunks);
        let bytes = &files[&format!("segments/table-{at}")];
        let table = table::decode(bytes, segment.chunks.len()).unwrap();
        assert_eq!(table::encode(&table), *bytes);
        assert_eq!(reference.span, Some(Span { packs: packs_of(&table), ..segment.span.clone() }));
        locations.extend(table.iter().map(show::location_line));
    }
    assert_eq!(json!(locations), expected("locations"));
    assert_eq!(root.encode(), files["segments/root"]);
    let mut earlier = Root::decode(&files["segments/root-1"]).unwrap();
    assert_eq!(earlier.encode(), files["segments/root-1"]);
    earlier
        .segments
        .iter_mut()
        .zip(&root.segments)
        .for_each(|(segment, now)| segment.span = now.span.clone());
    assert_eq!(earlier, root);
    let id = snapshot_id(&KEY, root.segments.iter().map(|segment| segment.tree.id));
    assert_eq!(json!(id), expected("snapshot")["snapshot_id"]);
}

#[test]
fn the_page_gives_the_same_examples() {
    let page = fs::read_to_string(spec().join("README.md")).unwrap();
    assert!(page.replace(' ', "").contains(&show::hex(&made::stored_frame(b"x"))));
    for example in
        [&expected("chunk_ids")[1]["id"], &expected("snapshot")["bind"], &expected("snapshot")["lock_bind"]]
    {
        assert!(page.contains(example.as_str().unwrap()), "{example}");
    }
}

#[test]
fn numbers_have_one_spelling() {
    let numbers = expected("varints");
    let pairs =
        |kind: &str| -> Vec<(String, String)> { serde_json::from_value(numbers[kind].clone()).unwrap() };
    for (value, hex) in pairs("unsigned") {
        assert_eq!(Reader::new(&show::unhex(&hex)).varint().unwrap().to_string(), value);
    }
    for (value, hex) in pairs("signed") {
        assert_eq!(Reader::new(&show::unhex(&hex)).signed().unwrap().to_string(), value);
    }
}

#[test]
fn checksums_are_those_of_everybody_else() {
    let sums = expected("crc32c");
    for case in sums.as_array().unwrap() {
        let sum = crc32c::crc32c(&show::unhex(case["bytes"].as_str().unwrap()));
        assert_eq!(json!(format!("{sum:08x}")), case["crc"]);
    }
    let page = fs::read_to_string(spec().join("README.md")).unwrap();
    assert!(page.contains(sums[1]["crc"].as_str().unwrap()));
}

#[test]
fn the_counts_of_a_record_are_those_of_its_tree_and_of_its_writes_objects() {
    let files = on_disk();
    let record = Record::decode(&document(&files, "/snap-01JED0YH00248H248H248H248H.json")).unwrap();
    let entries = expected("entries");
    let of_kind =
        |kind: &str| entries.as_array().unwrap().iter().filter(|entry| entry["kind"] == kind).count();
    let counts = &record.counts;
    let found = [counts.files, counts.directories, counts.symlinks, counts.hard_links];
    assert_eq!(found, ["file", "directory", "symlink", "hard link"].map(|kind| of_kind(kind) as u64));
    assert_eq!(counts.chunks as usize, expected("locations").as_array().unwrap().len());
    let of_write = |name: &str| ["/packs/", "/index/"].iter().any(|folder| name.contains(folder));
    let uploaded = files.iter().filter(|(name, _)| name.starts_with("store/") && of_write(name));
    assert_eq!(counts.stored_bytes, uploaded.map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
}

#[test]
fn the_glossary_has_every_word_of_the_page() {
    let read = |path: &str| fs::read_to_string(spec().join(path)).unwrap();
    let (page, glossary) = (read("README.md"), read("../docs/glossary.md"));
    let words = page.split("## 1 Glossary").nth(1).unwrap().split("\n## ").next().unwrap();
    let words: Vec<&str> =
        words.lines().filter_map(|line| line.strip_prefix("| **")?.split("**").next()).collect();
    assert!(words.len() > 30, "{words:?}");
    for word in words {
        assert!(glossary.contains(&format!("| **{word}** |")), "{word}");
    }
}

#[test]
fn a_hint_names_chunks_that_are_there_or_nothing() {
    let record = document(&on_disk(), "/snap-01JED0YH00248H248H248H248H.json");
    let cases = expected("startup");
    for case in cases.as_array().unwrap() {
        // Whatever it says, the record is whole.
        let mut fields: Value = serde_json::from_slice(&record).unwrap();
        fields["startup"] = case["value"].clone();
        let startup = serde_json::from_value::<Record>(fields).unwrap().startup;
        assert_eq!(json!(startup.chunks(10).collect::<Vec<u64>>()), case["chunks"], "{case}");
    }
    assert!(cases.as_array().unwrap().len() > 3);
}

#[test]
fn the_pointer_is_bound_and_keeps_what_it_does_not_know() {
    let files = on_disk();
    let mut pointer = Pointer::decode(&document(&files, "latest.json")).unwrap();
    assert_eq!(json!(pointer.binding()), expected("snapshot")["bind"]);
    assert!(pointer.block().is_some());
    assert_eq!(pointer.unknown["a_field_of_tomorrow"], json!({ "kept": true }));
    pointer.flipped_at_ms += 1;
    assert!(pointer.block().is_none(), "somebody else has moved it");
}

#[test]
fn the_lock_is_bound_to_who_took_it_and_when() {
    let mut lock = Lock::decode(&document(&on_disk(), "/lock.json")).unwrap();
    assert_eq!(json!(lock.binding()), expected("snapshot")["lock_bind"]);
    assert!(lock.block().is_some() && !lock.is_free());
    lock.acquired_at_ms += 1;
    assert!(lock.block().is_none(), "somebody else has taken it");
}

#[test]
fn a_record_that_no_reader_would_take_is_not_written() {
    let bytes = document(&on_disk(), "/snap-01JED0YH00248H248H248H248H.json");
    let good = Record::decode(&bytes).unwrap();
    assert_eq!(good.encode_readable().unwrap(), bytes);
    let large = Record { notes: "x".repeat(8 << 20), ..good.clone() };
    large.encode_readable().unwrap_err();
    let number = Record { uncompressed_size_bytes: 1 << 53, ..good.clone() };
    number.encode_readable().unwrap_err();
    let reason = Record { reason: Reason::from("nightly".to_owned()), ..good };
    assert_eq!(Record::decode(&reason.encode_readable().unwrap()).unwrap().reason.as_str(), "nightly");
}

#[test]
fn what_must_be_refused_is_refused() {
    for case in cases() {
        let bytes = fs::read(spec().join("vectors").join(&case.file)).unwrap();
        let error = match refusal(&case.read_as, &bytes) {
            Err(error) => error,
            Ok(()) => panic!("{} was accepted: {}", case.file, case.why),
        };
        let kind = match error {
            FormatError::Malformed(_) => "malformed",
            FormatError::Version { .. } => "version",
            FormatError::Feature { .. } => "feature",
        };
        assert_eq!(kind, case.error, "{}: {error}", case.file);
        let message = error.of(&case.file).to_string();
        if let Some(writer) = &case.writer {
            assert!(message.contains(writer), "{}: {message}", case.file);
        }
    }
}

fn refusal(read_as: &str, bytes: &[u8]) -> Result<(), FormatError> {
    match read_as {
        "pack" => directory(bytes).map(drop),
        "index" => Index::decode(bytes).map(drop),
        "tree" => tree([bytes]).map(drop),
        "table" => table::decode(bytes, 2).map(drop),
        "root" => Root::decode(bytes).map(drop),
        "frame" => match Verified::check(&KEY, &KEY.id_of(TEXT), Codec::Zstd, bytes, 64) {
            Ok(_) => Ok(()),
            Err(error) => Err(FormatError::Malformed(error.to_string())),
        },
        "store config" => StoreConfig::decode(bytes).map(drop),
        "tenant config" => TenantConfig::decode(bytes).map(drop),
        "tenant config to write" => TenantConfig::decode(bytes).expect("it can be read").check_write(),
        "store config to write" => StoreConfig::decode(bytes).expect("it can be read").check_write(),
        "condemned" => Condemned::decode(bytes).map(drop),
        "record" => Record::decode(bytes).map(drop),
        "pointer" => Pointer::decode(bytes).map(drop),
        "lock" => Lock::decode(bytes).map(drop),
        "event" => Event::decode(bytes).map(drop),
        "merged events" => MergedEvents::decode(bytes).map(drop),
        "pin" => Pin::decode(bytes).map(drop),
        "expectations" => Expectations::decode(bytes).map(drop),
        "tombstone" => Tombstone::decode(bytes).map(drop),
        "work in progress" => WorkInProgress::decode(bytes).map(drop),
        "manifest" => Manifest::decode(bytes).map(drop),
        other => panic!("nothing is read as {other}"),
    }
}

#[test]
fn a_mark_names_the_frames_that_are_lost() {
    let record = Record::decode(&document(&on_disk(), "records/damaged.json")).unwrap();
    let (lost, content) = (DamagedFrames::from(record.damage.as_ref().unwrap()), record.content.unwrap());
    let [first, second, meta] = [0, 1, 2].map(|at| content.packs[at].pack);
    let has = |pack| [16, 17, 1_048_592].map(|offset| lost.has(pack, offset));
    assert_eq!((has(first), has(second), has(meta)), ([true, false, true], [true; 3], [false; 3]));
}

#[test]
fn a_record_says_that_the_browser_ran_and_what_is_recovered() {
    let record = Record::decode(&document(&on_disk(), "records/hot.json")).unwrap();
    assert_eq!(record.mode, Mode::Hot);
    let recovered = record.health.unwrap().recovered;
    let words: Vec<&str> = recovered.iter().map(|recovered| recovered.from.as_str()).collect();
    assert_eq!(words, ["journal", "wal", "log"]);
    assert!(recovered.iter().all(|recovered| recovered.unknown.contains_key("a_field_of_tomorrow")));
}

#[test]
fn a_record_remembers_what_earlier_generations_needed() {
    let record = Record::decode(&document(&on_disk(), "records/moved.json")).unwrap();
    let earlier = record.earlier.iter().map(|earlier| (earlier.generation, &earlier.packs[..]));
    let (generations, packs): (Vec<u64>, Vec<&[PackId]>) = earlier.unzip();
    assert_eq!((record.generation, generations), (4, vec![1, 3]));
    let names: Vec<String> = packs.concat().iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), 6);
    assert!(names[0].ends_with("-00000") && names[1].ends_with("-00007") && names[5].ends_with("-meta"));
    assert!(record.earlier.iter().all(|earlier| earlier.unknown.contains_key("a_field_of_tomorrow")));
}
