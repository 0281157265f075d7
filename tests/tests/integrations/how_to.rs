//! These tests type the commands of the how-to pages one after another, and look at every other command in the documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use tests::{
    binary::{Host, program},
    mount_fixture::clear_away,
    page::{Hosts, Page},
    served::Served,
};

use crate::root;

/// What a page leaves mounted is taken away.
struct Work(tempfile::TempDir);

impl Drop for Work {
    fn drop(&mut self) {
        clear_away(self.0.path());
    }
}

/// Where the pages say that their host's home is, and where it is.
fn agents_home(work: &Path) -> (String, String) {
    ("/home/agent".to_owned(), work.join("host").display().to_string())
}

fn check(name: &str) {
    let work = Work(tempfile::tempdir().unwrap());
    let path = root().join("docs/how-to").join(name);
    let meanings = vec![agents_home(work.0.path())];
    Page::read(&path).check(&path, &mut Hosts::new(work.0.path(), meanings), |_| true);
}

#[test]
fn the_page_on_snapshots_says_what_happens() {
    check("snapshots.md");
}

#[test]
fn the_page_on_mounts_says_what_happens() {
    check("mounts.md");
}

/// The server is started with the options that the page names, at a port of its own.
#[test]
fn the_page_on_servers_says_what_happens() {
    let work = tempfile::tempdir().unwrap();
    let path = root().join("docs/how-to/http.md");
    let page = Page::read(&path);
    let home = work.path().join("host");
    fs::create_dir(&home).unwrap();
    let tokens = home.join("tokens.toml");
    fs::write(&tokens, "").unwrap();
    let server = Served::start(&Host::local(&home, &home.join("store")), &tokens);
    let started = page.steps().into_iter().find(|step| step.host == "server").expect("a server is started");
    assert_eq!(started.command, "pstore serve --listen 127.0.0.1:7070 --tokens tokens.toml");
    let meanings = vec![agents_home(work.path()), ("127.0.0.1:7070".to_owned(), server.address.clone())];
    page.check(&path, &mut Hosts::new(work.path(), meanings), |step| step.host != "server");
}

/// The words of a command of `pstore` up to what is no longer its own.
fn words(line: &str) -> Vec<String> {
    let mut own = Vec::new();
    for word in line.split_whitespace() {
        if ["--", "#", "|", "||", "&&", ">", ">>", "2>", "&", ";", "\\"].contains(&word) {
            break;
        }
        own.push(word.trim_matches(['\'', '"', '`', ',', ')']).trim_end_matches(';').to_owned());
    }
    own
}

/// Every command of pstore on a page: in a block of code, or in the text as code. One in capitals stands for any.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, part) in page.split("```").enumerate() {
        if at % 2 == 1 {
            let lines = part.lines().skip(1);
            let lines =
                lines.map(|line| line.split_once("$ ").map_or(line, |(_, command)| command).trim_start());
            found.extend(lines.filter_map(|line| line.strip_prefix("pstore ")));
        } else {
            let spans = part.split("`pstore ").skip(1).filter_map(|rest| Some(rest.split_once('`')?.0));
            found.extend(spans.filter(|span| span.starts_with(|c: char| c.is_ascii_lowercase())));
        }
    }
    found.into_iter().map(words).collect()
}

/// What `pstore VERB --help` says, asked once.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, Option<String>>);

impl Helps {
    fn of(&mut self, verbs: &[&str]) -> Option<&str> {
        let key: Vec<String> = verbs.iter().map(ToString::to_string).collect();
        let ask = || {
            let ended = Command::new(program()).args(verbs).arg("--help").output().unwrap();
            ended.status.success().then(|| String::from_utf8(ended.stdout).unwrap())
        };
        self.0.entry(key).or_insert_with(ask).as_deref()
    }

    /// What is wrong with a command.
    fn misfit(&mut self, words: &[String]) -> Option<String> {
        let plain: Vec<&str> =
            words.iter().map(String::as_str).take_while(|word| !word.starts_with('-')).collect();
        let verb = *plain.first()?;
        let mut help = self.of(&[verb]).map(ToOwned::to_owned);
        if help.is_none() {
            return Some(format!("there is no `pstore {verb}`"));
        }
        if let Some(second) = plain.get(1)
            && help.as_ref().is_some_and(|help| help.contains("Commands:"))
        {
            help = self.of(&[verb, second]).map(ToOwned::to_owned);
        }
        let help = help.unwrap_or_default();
        let known: BTreeSet<&str> = help
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with('-'))
            .collect();
        let flags = words.iter().filter(|word| word.starts_with('-') && word.len() > 1);
        let unknown = flags.map(|word| word.split('=').next().unwrap()).find(|flag| !known.contains(flag));
        unknown.map(|flag| format!("`pstore {}` knows no {flag}", plain[..plain.len().min(2)].join(" ")))
    }
}

fn pages(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

#[test]
fn every_command_in_the_documents_is_one_that_pstore_takes() {
    let (root, mut helps, mut wrong, mut seen) = (root(), Helps::default(), Vec::new(), 0);
    let folders = [
        "",
        "docs",
        "docs/how-to",
        "docs/runbooks",
        "format-spec",
        "deploy",
        "integrations",
        "clients/python",
    ];
    for page in folders.iter().flat_map(|folder| pages(&root.join(folder))) {
        let text = fs::read_to_string(&page).unwrap();
        for command in commands(&text) {
            seen += 1;
            if let Some(misfit) = helps.misfit(&command) {
                wrong.push(format!("{}: {misfit}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(seen > 400, "only {seen} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let mut helps = Helps::default();
    let page = "```\n$ pstore lost acme/alice\npstore list acme/alice --limitless\npstore lock show acme/alice --json\n```\n\
                `pstore show acme/alice --nothing` and `pstore COMMAND --help`\n";
    let found: Vec<Option<String>> = commands(page).iter().map(|words| helps.misfit(words)).collect();
    let said = |words: &str| found.iter().flatten().any(|misfit| misfit.contains(words));
    assert_eq!(found.len(), 4);
    assert!(said("no `pstore lost`") && said("knows no --limitless") && found[2].is_none(), "{found:?}");
    assert!(said("knows no --nothing"), "{found:?}");
}

#[test]
fn the_recording_shows_what_pstore_prints() {
    let ended =
        Command::new(root().join("scripts/record")).arg("--check").env("PSTORE", program()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
