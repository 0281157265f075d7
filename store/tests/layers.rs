//! These tests read the source of the workspace: a module imports only from those to its right in the drawing in
//! `lib.rs`, in no crate do files import one another in a circle, no file is long, and each begins with a sentence
//! about it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Each layer with the layers it may know.
const LAYERS: &[(&str, &[&str])] = &[
    ("profile", &["ops", "catalog", "content", "format", "bucket", "progress", "tree"]),
    ("ops", &["catalog", "content", "tree", "archive", "format", "bucket", "progress"]),
    ("catalog", &["content", "format", "bucket", "observer"]),
    ("content", &["format", "bucket", "progress", "observer"]),
    ("tree", &["format"]),
    ("archive", &["format"]),
    ("format", &[]),
    ("bucket", &[]),
    ("progress", &[]),
    ("observer", &[]),
    ("error", &[]),
    ("id", &[]),
    ("name", &[]),
    ("key", &[]),
    ("scratch", &[]),
    ("schema", &["format"]),
];
/// The modules that every module may import.
const GROUND: &[&str] = &["error", "id", "name", "key", "scratch", "Error", "ErrorKind", "Result"];

#[test]
fn no_import_goes_against_the_drawing() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (layer, allowed) in LAYERS {
        for (file, text) in files(&source, layer) {
            seen += 1;
            for import in imports(&text) {
                let known = import == *layer
                    || allowed.contains(&import.as_str())
                    || GROUND.contains(&import.as_str());
                if !known {
                    wrong.push(format!("{}: {layer} knows {import}", file.display()));
                }
            }
        }
    }
    assert!(seen > 40, "only {seen} files were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_in_the_drawing() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(source.join("lib.rs")).expect("lib.rs is there");
    for module in lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        assert!(LAYERS.iter().any(|(layer, _)| *layer == module), "{module} has no layer");
    }
}

/// Where the source of each crate begins; the rooms of tests are found by themselves.
const SOURCES: &[&str] = &[
    "store/src",
    "capture/src",
    "fuse/src",
    "engine/src",
    "server/src",
    "volumes/src",
    "mcp/src",
    "cli/src",
    "cli/tests/cli",
    "fuzz/fuzz_targets",
    "tests/src",
];
/// Each folder below this is a crate of tests.
const ROOMS: &str = "tests/tests";
/// As many lines as a reader keeps in mind.
const MOST_LINES: usize = 500;

/// Where a module is in its crate.
type ModulePath = Vec<String>;

/// A circle cannot be read from one end. That a folder names what is in it, as `mod` and `pub use` do, is no import;
/// but whoever imports a folder reaches what is in it.
#[test]
fn no_files_import_one_another_in_a_circle() {
    let mut circles = Vec::new();
    for source in sources() {
        let name = source.strip_prefix(workspace()).expect("below").display().to_string();
        let modules = modules(&source);
        assert!(modules.len() > 3, "{name} has {} files", modules.len());
        let imports = modules.iter().map(|(module, text)| (module, imported(module, text, &modules)));
        let imports: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = imports.collect();
        for circle in circles_among(&imports).into_iter().chain(circles_among(&reached(&imports))) {
            let circle: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            circles.push(format!("{name}: {}", circle.join(" -> ")));
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Where people write code, in any language.
const WRITTEN: &[&str] = &[
    "store",
    "capture",
    "fuse",
    "engine",
    "mcp",
    "server",
    "volumes",
    "cli",
    "fuzz",
    "tests",
    "clients",
    "benches",
    "scripts",
    "integrations",
];

/// Tests count as well: a long file of them has more than one subject.
#[test]
fn no_file_is_longer_than_a_reader_keeps_in_mind() {
    let written = written();
    assert!(written.len() > 900, "only {} files were read", written.len());
    let long = written.iter().filter(|(_, text)| text.lines().count() > MOST_LINES);
    let long: Vec<String> = long.map(|(path, text)| lines_of(path, text)).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

fn lines_of(path: &Path, text: &str) -> String {
    format!("{} has {} lines", path.display(), text.lines().count())
}

/// Who looks for something reads names and headers first.
#[test]
fn every_file_begins_with_a_sentence_about_it() {
    let mut silent = Vec::new();
    for (path, text) in written().iter().filter(|(_, text)| !text.is_empty()) {
        let header: Option<Vec<&str>> = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Some(text.lines().map_while(|line| line.strip_prefix("//! ")).collect()),
            Some("py") => text.strip_prefix("\"\"\"").map(|text| text.lines().take(1).collect()),
            _ => continue,
        };
        let header = header.unwrap_or_default().join(" ");
        if header.split_whitespace().count() < 3 || !header.contains(['.', ':']) {
            silent.push(path.display().to_string());
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// Every file of code, with its text. Scripts have no ending; they are known by how they begin.
fn written() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in WRITTEN {
        let files = files_with(&workspace().join(folder), &["rs", "py", "js", "mjs", ""]);
        found.extend(
            files.into_iter().filter(|(path, text)| path.extension().is_some() || text.starts_with("#!")),
        );
    }
    found
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace")
}

/// The folders in which crates begin.
fn sources() -> Vec<PathBuf> {
    let rooms = fs::read_dir(workspace().join(ROOMS)).expect("the folder is there").flatten();
    let rooms = rooms.map(|entry| entry.path()).filter(|path| path.is_dir());
    SOURCES.iter().map(|source| workspace().join(source)).chain(rooms).collect()
}

/// Every file of Rust below a folder, with its text.
fn rust_files(folder: &Path) -> Vec<(PathBuf, String)> {
    files_with(folder, &["rs"])
}

/// Every text below a folder whose name ends like this; what is built or installed does not count.
fn files_with(folder: &Path, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "target" && name != "node_modules" {
                folders.push(path);
                continue;
            }
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if endings.contains(&ending)
                && let Ok(text) = fs::read_to_string(&path)
            {
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn a_circle_is_found() {
    let text = |text: &str| text.to_owned();
    let module = |path: &str| path.split("::").map(ToOwned::to_owned).collect::<ModulePath>();
    let modules = BTreeMap::from([
        (module("a"), text("use b::Inner;\nuse super::c::{self, Deep};")),
        (module("a::b"), text("use super::Outer;\npub(in crate::c) struct Inner;")),
        (module("c"), text("use crate::{d, g::{Far, f::Further}};")),
        (module("d"), text("// use crate::a;\nfn d() { crate::e::far() }")),
        (module("e"), text("use super::a::b::{Inner, Other};")),
    ]);
    let imports = modules.iter().map(|(module, text)| (module, imported(module, text, &modules)));
    let imports: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = imports.collect();
    let circles = circles_among(&imports);
    let expected: Vec<ModulePath> = ["a", "c", "d", "e", "a::b", "a"].map(module).to_vec();
    assert_eq!(circles, [expected]);
}

#[test]
fn a_circle_through_what_a_folder_hands_on_is_found() {
    let text = |text: &str| text.to_owned();
    let module = |path: &str| path.split("::").map(ToOwned::to_owned).collect::<ModulePath>();
    let modules = BTreeMap::from([
        (module("a"), text("use super::b::Handed;")),
        (module("b"), text("mod c;\npub use c::Handed;")),
        (module("b::c"), text("use super::Own;\nuse crate::a::other;")),
    ]);
    let imports = modules.iter().map(|(module, text)| (module, imported(module, text, &modules)));
    let imports: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = imports.collect();
    let expected: Vec<ModulePath> = ["a", "b", "b::c", "a"].map(module).to_vec();
    assert_eq!(circles_among(&reached(&imports)), [expected]);
}

/// The text of every file of a crate but for those of unit tests.
fn modules(source: &Path) -> BTreeMap<ModulePath, String> {
    let mut found = BTreeMap::new();
    for (path, text) in rust_files(source) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name in UTF-8");
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        let above = path.parent().and_then(|folder| folder.strip_prefix(source).ok()).expect("below");
        let mut module: ModulePath = above.iter().map(|part| part.to_string_lossy().into()).collect();
        if !["mod", "lib", "main"].contains(&stem) {
            module.push(stem.to_owned());
        }
        found.insert(module, text);
    }
    found
}

/// The other files that a file names.
fn imported(module: &ModulePath, text: &str, modules: &BTreeMap<ModulePath, String>) -> BTreeSet<ModulePath> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    for path in paths(code) {
        let mut parts = path.iter().map(String::as_str).peekable();
        let mut target = if parts.next_if_eq(&"crate").is_some() { Vec::new() } else { module.clone() };
        while parts.next_if_eq(&"super").is_some() {
            target.pop();
        }
        for part in parts {
            target.push(part.to_owned());
            if !modules.contains_key(&target) {
                target.pop();
                break;
            }
        }
        if modules.contains_key(&target) && !target.starts_with(module) {
            found.insert(target);
        }
    }
    found
}

/// The files that a file reaches by its imports: also the files of a folder, and not the folders it lies in.
fn reached<'a>(
    imports: &BTreeMap<&'a ModulePath, BTreeSet<ModulePath>>,
) -> BTreeMap<&'a ModulePath, BTreeSet<ModulePath>> {
    let reached = imports.iter().map(|(module, imported)| {
        let elsewhere = imported.iter().filter(|target| !module.starts_with(target));
        let within =
            imports.keys().filter(|other| other.split_last().is_some_and(|(_, above)| *above == ***module));
        (*module, elsewhere.chain(within.copied()).cloned().collect())
    });
    reached.collect()
}

/// Every path in `code` that begins with `crate` or `super`, those of a `{...}` tree one by one.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    let next = |rest: &str| ["crate::", "super::"].iter().filter_map(|start| rest.find(start)).min();
    while let Some(at) = next(rest) {
        let before = rest[..at].chars().next_back();
        let is_visibility = rest[..at].ends_with("(in ");
        let is_start = before.is_none_or(|before| !(before.is_alphanumeric() || "_:$".contains(before)));
        let mut tree = Vec::new();
        let len = path_tree(&rest[at..], &[], &mut tree);
        if is_start && !is_visibility {
            found.append(&mut tree);
        }
        rest = &rest[at + len..];
    }
    found
}

/// Takes the paths of a tree in, which stand behind `prefix`; how long the tree is.
fn path_tree(text: &str, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        if text[at..].starts_with('{') {
            at += 1;
            loop {
                at += text[at..].len() - text[at..].trim_start_matches([' ', '\n', ',']).len();
                if text[at..].starts_with('}') || text[at..].is_empty() {
                    return (at + 1).min(text.len());
                }
                let len = path_tree(&text[at..], &path, found);
                // A `*`, or `name as other`.
                let after = text[at + len..].find([',', '}']).unwrap_or(0);
                at += (len + after).max(1);
            }
        }
        let part = word(&text[at..]);
        at += part.len();
        path.extend(Some(part).filter(|part| !part.is_empty() && part != "self"));
        match text[at..].strip_prefix("::") {
            Some(_) => at += 2,
            None => {
                found.push(path);
                return at.max(1);
            }
        }
    }
}

/// One circle of each tangle: there and back again.
fn circles_among(imports: &BTreeMap<&ModulePath, BTreeSet<ModulePath>>) -> Vec<Vec<ModulePath>> {
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for start in imports.keys() {
        // The shortest way from it to itself.
        let mut came: BTreeMap<&ModulePath, &ModulePath> = BTreeMap::new();
        let mut queue: Vec<&ModulePath> = vec![start];
        let mut at = 0;
        while at < queue.len() && !came.contains_key(*start) {
            for next in imports.get(queue[at]).into_iter().flatten() {
                if !came.contains_key(next) {
                    came.insert(next, queue[at]);
                    queue.push(next);
                }
            }
            at += 1;
        }
        if !came.contains_key(*start) || done.contains(*start) {
            continue;
        }
        let mut circle = vec![(*start).clone()];
        let mut here = came[*start];
        while here != *start {
            circle.push(here.clone());
            here = came[here];
        }
        circle.push((*start).clone());
        circle.reverse();
        done.extend(circle.iter().cloned());
        circles.push(circle);
    }
    circles
}

/// The files of a layer: the one of its name, and those in the folder of its name.
fn files(source: &Path, layer: &str) -> Vec<(PathBuf, String)> {
    let single = source.join(format!("{layer}.rs"));
    let text = fs::read_to_string(&single).ok();
    let mut found: Vec<_> = text.map(|text| (single, text)).into_iter().collect();
    found.extend(rust_files(&source.join(layer)));
    found
}

/// The modules of the crate that a file names, in `use` trees and in paths.
fn imports(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(tree) => found.extend(roots(tree)),
            None => found.push(word(rest)),
        }
    }
    found
}

/// The first words of a `{...}` tree, at its outermost level.
fn roots(tree: &str) -> Vec<String> {
    let mut depth = 0;
    let mut at_start = true;
    let mut roots = Vec::new();
    for (at, character) in tree.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            _ if character.is_whitespace() => {}
            _ if at_start => {
                roots.push(word(&tree[at..]));
                at_start = false;
            }
            _ => {}
        }
    }
    roots
}

fn word(text: &str) -> String {
    text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}
