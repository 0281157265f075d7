//! These tests build the book and follow its links.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::root;

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// What stands between `name="` and the next quotation mark, everywhere in a page.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    html.split(begin.as_str()).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(normal.pop(), "{}", path.display()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The address of a link as its page has it, and the place in the book: `None` if it leads elsewhere.
fn target(page: &Path, link: &str) -> Option<(PathBuf, String)> {
    let foreign = ["http:", "https:", "mailto:", "data:", "javascript:"];
    if link.is_empty() || foreign.iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    let (address, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file =
        if address.is_empty() { page.to_owned() } else { normal(&page.parent().unwrap().join(address)) };
    Some((file, anchor.to_owned()))
}

/// The links of a book that lead nowhere.
fn lost_links(book: &Path) -> (usize, Vec<String>) {
    let pages: BTreeMap<PathBuf, String> = files(book)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "html"))
        // These repeat other pages, below other addresses.
        .filter(|file| !["print.html", "404.html"].iter().any(|name| file.ends_with(name)))
        .map(|file| (normal(&file), fs::read_to_string(&file).unwrap()))
        .collect();
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(page, html)| (page, attributes(html, "id").into_iter().collect())).collect();
    let (mut followed, mut lost) = (0, Vec::new());
    for (page, html) in &pages {
        for link in [attributes(html, "href"), attributes(html, "src")].concat() {
            let Some((file, anchor)) = target(page, link) else { continue };
            followed += 1;
            let is_there = match ids.get(&file) {
                Some(ids) => anchor.is_empty() || ids.contains(anchor.as_str()),
                None => file.is_file(),
            };
            if !is_there {
                lost.push(format!("{}: {link}", page.strip_prefix(book).unwrap().display()));
            }
        }
    }
    (followed, lost)
}

#[test]
fn the_book_is_built_and_every_link_in_it_leads_somewhere() {
    let root = root();
    let ended = Command::new(root.join("scripts/book")).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(!said.contains("WARN"), "{said}");
    let book = normal(&root.join("target/book/html"));
    let (followed, lost) = lost_links(&book);
    assert!(followed > 2000, "only {followed} links");
    assert!(lost.is_empty(), "these links lead nowhere:\n{}", lost.join("\n"));
    for name in ["index.html", "docs/concepts.html", "docs/reference/snapshot.html"] {
        assert!(book.join(name).is_file(), "no {name}");
    }
    let has_search = files(&book).iter().any(|file| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("searchindex") && name.ends_with(".js")
    });
    assert!(has_search, "the book has no search");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let book = tempfile::tempdir().unwrap();
    let page = "<h1 id=\"one\"></h1><a href=\"#one\"><a href=\"#two\"><a href=\"sub/b.html#x\"><a href=\"c.html\">\
                <a href=\"https://example.invalid/\"><img src=\"d.svg\">";
    fs::write(book.path().join("a.html"), page).unwrap();
    fs::create_dir(book.path().join("sub")).unwrap();
    fs::write(book.path().join("sub/b.html"), "<p id=\"x\"><a href=\"../a.html#one\">").unwrap();
    let (followed, lost) = lost_links(book.path());
    assert_eq!(followed, 6);
    assert_eq!(lost, ["a.html: #two", "a.html: c.html", "a.html: d.svg"]);
}
