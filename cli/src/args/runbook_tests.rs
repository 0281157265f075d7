//! These tests read the runbooks: the person on call types what they say.

use std::{ffi::OsString, fs, path::Path};

use super::parse_words;

/// The words of a command: those in quotes belong together, and what follows a `#`, a `|` or `&&` is another matter.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                if ["#", "|", "&&"].contains(&word.as_str()) {
                    return words;
                }
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    words
}

/// Commands in blocks, and those in sentences.
fn commands(page: &str) -> Vec<Vec<String>> {
    let in_blocks = page.lines().filter(|line| line.starts_with("pstore "));
    let in_sentences = page.split("`pstore ").skip(1).filter_map(|rest| rest.split('`').next());
    let all = in_blocks.map(words).chain(in_sentences.map(|rest| words(&format!("pstore {rest}"))));
    all.collect()
}

#[test]
fn every_command_of_a_runbook_can_be_typed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        for command in commands(&fs::read_to_string(&path).unwrap()) {
            // What stands for digits or an id.
            let typed = command.iter().map(|word| word.replace("DIGITS", "3f2a91d00ba4"));
            let parsed = parse_words(typed.map(OsString::from));
            let is_help = command.iter().any(|word| word == "--help");
            assert!(parsed.is_ok() || is_help, "{}: {command:?}: {:?}", path.display(), parsed.unwrap_err());
            count += 1;
        }
    }
    assert!(count > 40, "only {count} commands");
}
