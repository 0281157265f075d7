//! These tests compare the pages of the reference with the program: they are its help, and the schemas of its documents.

use std::{collections::BTreeMap, env, fmt::Write as _, fs, process::Command};

use serde_json::Value;
use tests::binary::program;

use crate::root;

/// Set, the pages are written instead of being compared.
const WRITE: &str = "PSTORE_WRITE_PAGES";
const MADE: &str = "<!-- Made from the program: PSTORE_WRITE_PAGES=1 cargo nextest run --workspace --test integrations reference -->";

/// What a command says of itself, the same on every host; nothing if there is no such command.
fn help(words: &[&str]) -> Option<String> {
    let mut command = Command::new(program());
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["AWS_", "PSTORE_", "XDG_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let ended =
        command.args(words).arg("--help").env("COLUMNS", "88").env("HOME", "/home/agent").output().unwrap();
    if !ended.status.success() {
        return None;
    }
    let text = String::from_utf8(ended.stdout).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    Some(format!("{}\n", lines.join("\n").trim_end()))
}

/// A help without the options that every command has, and those.
fn parted(help: &str) -> (String, String) {
    let common = |block: &&str| block.starts_with("Options of every command:");
    let blocks: Vec<&str> = help.trim_end().split("\n\n").collect();
    // What follows until the next heading is of that block too: clap puts blank lines between options.
    let Some(begin) = blocks.iter().position(common) else {
        return (help.to_owned(), String::new());
    };
    let is_option = |block: &&&str| block.starts_with(' ');
    let end = begin + 1 + blocks[begin + 1..].iter().take_while(is_option).count();
    let own = [&blocks[..begin], &blocks[end..]].concat();
    (format!("{}\n", own.join("\n\n")), format!("{}\n", blocks[begin..end].join("\n\n")))
}

/// Every command of one word.
fn verbs() -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(program()).arg("man").arg(folder.path()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let pages =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = pages.filter_map(|page| Some(page.strip_prefix("pstore-")?.strip_suffix(".1")?.to_owned()));
    // The others are of commands of commands: `lock-show`.
    let mut verbs: Vec<String> = names.filter(|name| help(&[name]).is_some()).collect();
    verbs.sort();
    verbs
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    // What is said of one goes on in lines that begin further right.
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty());
    names.filter(|name| *name != "help").map(ToOwned::to_owned).collect()
}

/// The type of a field, in a word or two.
fn kind(schema: &Value) -> String {
    let word = |name: &str| if name == "null" { "`null`".to_owned() } else { name.to_owned() };
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(options) = ["oneOf", "anyOf"].iter().find_map(|key| schema[key].as_array()) {
        let words: Vec<String> = options
            .iter()
            .map(|option| option["const"].as_str().map_or_else(|| kind(option), |word| format!("`{word}`")))
            .collect();
        return words.join(", ");
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().map(|word| format!("`{}`", word.as_str().unwrap_or("null"))).collect();
        return words.join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("array of {}", kind(&schema["items"])),
        Value::String(name) => word(name),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(word).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

fn fields(page: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in properties {
        let optional = if required.contains(&name.as_str()) { "" } else { "; not always there" };
        let meaning = cell(field["description"].as_str().unwrap_or(""));
        writeln!(page, "| `{name}` | {}{optional} | {meaning} |", cell(&kind(field))).unwrap();
    }
}

fn document(page: &mut String, name: &str, schema: &Value) {
    let title = schema["title"].as_str().unwrap_or(name);
    let about = schema["description"].as_str().unwrap_or("");
    writeln!(page, "\n## {}\n\n{} [Schema](../schemas/{name}.json).\n", title, cell(about)).unwrap();
    fields(page, schema);
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        writeln!(
            page,
            "\n### {name} of {}\n\n{}\n",
            schema["title"]
                .as_str()
                .unwrap_or("it")
                .replace("What ", "")
                .replace(" prints", "")
                .replace('`', ""),
            cell(part["description"].as_str().unwrap_or(""))
        )
        .unwrap();
        fields(page, part);
    }
}

/// Every page by the name of its file.
fn made() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let (whole, _) = parted(&help(&[]).unwrap());
    let mut common = String::new();
    let mut first = format!(
        "# Commands\n\n{MADE}\n\nEvery command with its options, and the document that it prints with `--json`.\n\n| command | |\n|---|---|\n"
    );
    let mut schemas = BTreeMap::new();
    for entry in fs::read_dir(root().join("docs/schemas")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        schemas.insert(name, serde_json::from_str::<Value>(&fs::read_to_string(&path).unwrap()).unwrap());
    }
    for verb in &verbs() {
        let (own, more) = parted(&help(&[verb]).unwrap());
        if common.is_empty() {
            common = more;
        }
        writeln!(first, "| [`pstore {verb}`]({verb}.md) | {} |", cell(own.lines().next().unwrap())).unwrap();
        let mut page = format!("# pstore {verb}\n\n{MADE}\n\n```text\n{own}```\n");
        for sub in commands(&own) {
            let (text, _) = parted(&help(&[verb, &sub]).unwrap());
            write!(page, "\n## pstore {verb} {sub}\n\n```text\n{text}```\n").unwrap();
        }
        for (name, schema) in &schemas {
            if name == verb || name.strip_prefix(verb.as_str()).is_some_and(|rest| rest.starts_with('-')) {
                document(&mut page, name, schema);
            }
        }
        pages.insert(format!("{verb}.md"), page);
    }
    write!(first, "\nA command that fails prints [an error](../json.md), and ends with [a code](../exit-codes.md).\n\n```text\n{whole}```\n\n```text\n{common}```\n").unwrap();
    pages.insert("README.md".to_owned(), first);
    pages
}

#[test]
fn the_reference_is_what_the_program_says() {
    let folder = root().join("docs/reference");
    let made = made();
    assert!(made.len() > 30, "only {} pages", made.len());
    if env::var_os(WRITE).is_some() {
        fs::remove_dir_all(&folder).ok();
        fs::create_dir(&folder).unwrap();
        for (name, page) in &made {
            fs::write(folder.join(name), page).unwrap();
        }
        return;
    }
    let kept: BTreeMap<String, String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    let names = |pages: &BTreeMap<String, String>| pages.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&kept), names(&made), "with {WRITE}=1 this test writes docs/reference");
    for (name, page) in &made {
        assert!(
            kept[name] == *page,
            "docs/reference/{name} is stale; with {WRITE}=1 this test writes it:\n{page}"
        );
    }
}
