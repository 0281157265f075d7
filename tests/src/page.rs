//! `Page` runs the commands of a page of the documentation, and compares their output with the page.
//!
//! In its blocks of `console`, a line `host-a$ COMMAND` is run on the host of that name: a directory
//! of its own with a home of its own. `export` lines hold for the rest of the page. What follows up to
//! the next command is what it printed, on both streams.

use std::{collections::BTreeMap, env, fs, mem, path::Path, process::Command};

use crate::binary::program;

/// Set, the page gets the answers that came, instead of being compared with them.
const WRITE: &str = "PSTORE_WRITE_PAGES";
const BEGIN: &str = "```console\n";
const END: &str = "```\n";
const UNITS: [&str; 9] = ["B", "KiB", "MiB", "GiB", "KiB/s", "MiB/s", "ms", "s", "min"];

/// One command of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub host: String,
    pub command: String,
    pub printed: String,
}

/// A page: text and commands by turns.
#[derive(Clone, Debug)]
pub struct Page {
    text: String,
}

/// Where the commands of a page are run.
#[derive(Debug)]
pub struct Hosts<'a> {
    pub root: &'a Path,
    /// The placeholders of texts that differ each time: first the page's text, then the meaning.
    pub meanings: Vec<(String, String)>,
    exported: BTreeMap<String, String>,
}

impl Page {
    pub fn read(path: &Path) -> Self {
        Self { text: fs::read_to_string(path).unwrap() }
    }

    pub fn steps(&self) -> Vec<Step> {
        self.text.split(BEGIN).skip(1).flat_map(|block| steps(block.split(END).next().unwrap())).collect()
    }

    /// The page with other answers, in the same order.
    #[must_use]
    pub fn with(&self, steps: &[Step]) -> String {
        let mut steps = steps.iter();
        let mut blocks = self.text.split(BEGIN);
        let mut page = blocks.next().unwrap().to_owned();
        for block in blocks {
            let (console, rest) = block.split_once(END).expect("a block ends");
            page += BEGIN;
            for (at, Step { host, command, .. }) in self::steps(console).into_iter().enumerate() {
                let printed = &steps.next().expect("as many steps as the page has").printed;
                page += &format!("{}{host}$ {command}\n{printed}", if at == 0 { "" } else { "\n" });
            }
            page += END;
            page += rest;
        }
        page
    }

    /// Runs the commands of `hosts`, and compares their output with the page, but for numbers.
    #[track_caller]
    pub fn check(&self, path: &Path, hosts: &mut Hosts<'_>, is_run: impl Fn(&Step) -> bool) {
        let said = self.steps();
        assert!(!said.is_empty(), "{} has no commands", path.display());
        let came: Vec<Step> =
            said.iter().map(|step| if is_run(step) { hosts.run(step) } else { step.clone() }).collect();
        if env::var_os(WRITE).is_some() {
            fs::write(path, self.with(&came)).unwrap();
            return;
        }
        for (said, came) in said.iter().zip(&came) {
            assert_eq!(
                plain(&said.printed),
                plain(&came.printed),
                "{} does not print what {} says; with {WRITE}=1 this test writes what it prints:\n{}",
                said.command,
                path.display(),
                came.printed
            );
        }
    }
}

impl<'a> Hosts<'a> {
    pub fn new(root: &'a Path, meanings: Vec<(String, String)>) -> Self {
        Self { root, meanings, exported: BTreeMap::new() }
    }

    fn run(&mut self, step: &Step) -> Step {
        let meant =
            self.meanings.iter().fold(step.command.clone(), |text, (said, meant)| text.replace(said, meant));
        let exported = self.exported.entry(step.host.clone()).or_default();
        if meant.starts_with("export ") {
            *exported += &format!("{meant}\n");
            return Step { printed: String::new(), ..step.clone() };
        }
        let home = self.root.join(&step.host);
        fs::create_dir_all(&home).unwrap();
        let program = program();
        let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1\n{exported}{meant}")]).current_dir(&home);
        for (name, _) in
            env::vars().filter(|(name, _)| name.starts_with("PSTORE_") || name.starts_with("AWS_"))
        {
            command.env_remove(name);
        }
        let ended =
            command.env("HOME", &home).env("PATH", path).env_remove("XDG_RUNTIME_DIR").output().unwrap();
        let printed = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.success(), "{meant} ended with {}:\n{printed}", ended.status);
        let printed = self.meanings.iter().fold(printed, |text, (said, meant)| text.replace(meant, said));
        Step { printed, ..step.clone() }
    }
}

fn steps(console: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for line in console.split_inclusive('\n') {
        let prompt = line.split_once("$ ").filter(|(host, _)| !host.is_empty() && !host.contains(' '));
        match (prompt, found.last_mut()) {
            (Some((host, command)), _) => found.push(Step {
                host: host.to_owned(),
                command: command.trim_end().to_owned(),
                printed: String::new(),
            }),
            (None, Some(step)) => step.printed += line,
            (None, None) => panic!("a block begins with a command, not with {line:?}"),
        }
    }
    found.iter_mut().for_each(|step| step.printed = trimmed(&mem::take(&mut step.printed)));
    found
}

/// Without the blank line that parts a command from the next.
fn trimmed(printed: &str) -> String {
    let text = printed.trim_end_matches('\n');
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}

/// The part of the output that must be the same each time: everything but numbers, names made of digits, and
/// the blanks between columns. An agent's account of its visits is compared as it is.
fn plain(printed: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut words: Vec<&str> = Vec::new();
        for word in line.split_whitespace() {
            let bare = word.trim_matches(['(', ')', ',', '.', ';', ':']);
            let word =
                if word.contains(|c: char| c.is_ascii_digit()) || UNITS.contains(&bare) { "#" } else { word };
            if words.last() != Some(&"#") || word != "#" {
                words.push(word);
            }
        }
        words.join(" ")
    };
    printed
        .lines()
        .map(|text| if text.starts_with("visit ") { text.to_owned() } else { line(text) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Page\n\n```console\na$ echo one\none\n\nb$ true\n```\n\nThen:\n\n```console\na$ echo 3 MiB\n3 MiB\n```\n";

    #[test]
    fn a_page_is_written_as_it_was_read() {
        let page = Page { text: TEXT.to_owned() };
        assert_eq!(page.steps().len(), 3);
        assert_eq!(page.with(&page.steps()), TEXT);
    }

    #[test]
    fn numbers_may_differ_and_words_may_not() {
        assert_eq!(plain("files    3 658 (0 reused), 300.9 MiB"), plain("files 7 (12 reused), 3.0 KiB"));
        assert_ne!(plain("files 7 (12 reused)"), plain("files 7 (12 read)"));
        assert_ne!(plain("visit 1"), plain("visit 2"));
        assert_ne!(plain("one\n"), plain("one\ntwo\n"));
    }
}
