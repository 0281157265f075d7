//! The drawing in `lib.rs` is the truth: a module imports only from those to its right. And in no crate do files
//! import one another in a circle.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
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
/// What everybody may know.
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
                    wrong.push(format!("{file}: {layer} knows {import}"));
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

/// The crates whose files are looked at for circles.
const CRATES: &[&str] = &["store", "capture", "fuse", "engine", "cli", "tests"];

/// Where a module is in its crate.
type ModulePath = Vec<String>;

/// A circle cannot be read from one end. A folder and what is in it count as one thing: so that it names what is in
/// it, as `mod` and `pub use` do, is no import.
#[test]
fn no_files_import_one_another_in_a_circle() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace");
    let mut circles = Vec::new();
    for name in CRATES {
        let modules = modules(&workspace.join(name).join("src"));
        assert!(modules.len() > 10, "{name} has {} files", modules.len());
        let imports = modules.iter().map(|(module, text)| (module, imported(module, text, &modules)));
        let imports: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = imports.collect();
        for circle in circles_among(&imports) {
            let circle: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            circles.push(format!("{name}: {}", circle.join(" -> ")));
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
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

/// The text of every file of a crate, without comments and without tests.
fn modules(source: &Path) -> BTreeMap<ModulePath, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there").flatten() {
            let path = entry.path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Some(stem) = name.strip_suffix(".rs") else { continue };
            if stem == "tests" || stem.ends_with("_tests") {
                continue;
            }
            let above = path.parent().and_then(|folder| folder.strip_prefix(source).ok()).expect("below");
            let mut module: ModulePath = above.iter().map(|part| part.to_string_lossy().into()).collect();
            if !["mod", "lib", "main"].contains(&stem) {
                module.push(stem.to_owned());
            }
            found.insert(module, fs::read_to_string(&path).expect("readable"));
        }
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

fn files(source: &Path, layer: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![source.join(layer)];
    let single = source.join(format!("{layer}.rs"));
    if single.exists() {
        found.push((single.display().to_string(), fs::read_to_string(&single).expect("readable")));
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.display().to_string(), fs::read_to_string(&path).expect("readable")));
            }
        }
    }
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
