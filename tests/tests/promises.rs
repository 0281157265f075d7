//! These tests compare what the documentation says of tests, codes and commands with what is so.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use tests::binary::program;

/// Where the promises are, and from where their links lead.
const PAGES: [(&str, &str, usize); 2] = [("docs/promises.md", "docs", 9), ("README.md", "", 5)];

/// The links whose text is code: the name of a test, and the file it is in.
fn named(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for rest in text.split("[`").skip(1) {
        let (name, rest) = rest.split_once("`](").expect("a link ends as it began");
        found.push((name, rest.split(')').next().unwrap()));
    }
    found
}

/// Whether `source` has a test of this name: a function below an attribute that makes it one.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().collect();
    let is_it = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('('))
    };
    lines.iter().enumerate().any(|(at, line)| {
        let attributes = lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
        is_it(line) && attributes.into_iter().any(|line| line.contains("test]") || line.contains("::test("))
    })
}

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (page, folder, least) in PAGES {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let bullets: Vec<&str> = text.split("\n- **").skip(1).collect();
        assert!(bullets.len() >= least, "{page}: only {} promises", bullets.len());
        for bullet in bullets {
            assert!(!named(bullet).is_empty(), "{page}: no test is named for **{bullet}");
        }
        for (name, file) in named(&text).into_iter().filter(|(_, file)| file.ends_with(".rs")) {
            let path = root.join(folder).join(file);
            let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(has_test(&source, name), "{page}: {file} has no test {name}");
        }
    }
}

#[test]
fn what_conforms_to_the_contract_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/contract.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.contains("| conforms")).collect();
    assert!(rows.len() >= 40, "only {} sentences", rows.len());
    for row in rows {
        assert!(!named(row).is_empty(), "no test is named for {row}");
    }
    for (name, file) in named(&page) {
        let path = root.join("docs").join(file);
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(has_test(&source, name), "{file} has no test {name}");
    }
}

#[test]
fn every_row_of_who_can_do_what_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 6, "only {} rows", rows.len());
    for row in rows {
        assert!(!named(row).is_empty(), "no test is named for {row}");
    }
    for (name, file) in named(&page) {
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(has_test(&source, name), "{file} has no test {name}");
    }
}

#[test]
fn a_function_that_is_no_test_is_none() {
    assert!(has_test("#[test]\nfn one() {}", "one"));
    assert!(has_test("#[tokio::test(flavor = \"multi_thread\")]\nasync fn one() {}", "one"));
    for source in ["fn one() {}", "#[test]\nfn one_more() {}", "#[test]\nfn other() {}\nfn one() {}"] {
        assert!(!has_test(source, "one"), "{source}");
    }
}

/// The codes in a column of the page's tables.
fn codes(page: &str, column: usize) -> BTreeSet<u32> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('|').nth(column)?.trim().parse().ok()).collect()
}

#[test]
fn troubleshooting_knows_every_exit_code_and_only_commands_that_exist() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    let page = read("troubleshooting.md");
    assert_eq!(codes(&page, 2), codes(&read("exit-codes.md"), 1));
    let verbs: BTreeSet<&str> = page
        .split("`pstore ")
        .skip(1)
        .map(|rest| rest.split(['`', ' ']).next().unwrap())
        .filter(|verb| verb.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !verb.starts_with('-'))
        .collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    for verb in verbs {
        let ended = Command::new(program()).args([verb, "--help"]).output().unwrap();
        assert!(ended.status.success(), "`pstore {verb}` does not exist");
    }
}
