//! The drawing in `lib.rs` is the truth: a module imports only from those to its right.

use std::{fs, path::Path};

/// Each layer with the layers it may know.
const LAYERS: &[(&str, &[&str])] = &[
    ("ops", &["catalog", "content", "tree", "archive", "format", "bucket", "progress"]),
    ("catalog", &["content", "format", "bucket"]),
    ("content", &["format", "bucket", "progress"]),
    ("tree", &["format"]),
    ("archive", &["format"]),
    ("format", &[]),
    ("bucket", &[]),
    ("progress", &[]),
    ("error", &[]),
    ("id", &[]),
    ("name", &[]),
    ("key", &[]),
    ("scratch", &[]),
    ("schema", &[]),
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
