//! `ignored` finds the paths that the files `.gitignore` and `.pstoreignore` of a workspace exclude, by the rules of
//! `git`: the last pattern that matches decides, and nothing below an excluded directory is included again.
//!
//! Of one directory `.pstoreignore` comes after `.gitignore`, so it may want again what that ignores. No symbolic link is
//! followed. Names that are no text are never left out.

use std::{
    fs::File,
    io::{self, Read},
};

use rustix::{
    fs::{Dir, FileType, Mode, OFlags, fstat},
    io::Errno,
};
use store::{format::tree::TreePath, tree::root_dir::RootDir};

use super::compare::open_file;

const FILES: [&str; 2] = [".gitignore", ".pstoreignore"];
/// No more of such a file is read.
const MOST_BYTES: u64 = 1 << 20;

/// One line of such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    /// The directory that it is about, from the top of the workspace.
    folder: String,
    glob: Vec<Part>,
    is_wanted_again: bool,
    is_for_folders: bool,
    /// It says where the name is, and does not fit one anywhere below.
    is_anchored: bool,
}

/// A part of a path in a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `**`: any number of directories.
    Any,
    Name(String),
}

/// The paths that are ignored, without those below them.
pub(crate) fn ignored(root: &RootDir) -> io::Result<Vec<String>> {
    let (mut found, mut open) = (Vec::new(), vec![(String::new(), Vec::<Pattern>::new())]);
    while let Some((folder, mut patterns)) = open.pop() {
        for name in FILES {
            patterns.extend(read(root, &folder, name)?);
        }
        for (name, is_folder) in names(root, &folder)? {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            match is_ignored(&patterns, &path, is_folder) {
                true => found.push(path),
                false if is_folder => open.push((path, patterns.clone())),
                false => {}
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The names in a directory that are text, and which of them are directories.
fn names(root: &RootDir, folder: &str) -> io::Result<Vec<(String, bool)>> {
    let opened = match root.open_at(folder.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
        Ok(opened) => opened,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Unknown => {
                let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                let found = root.open_at(path.as_bytes(), OFlags::PATH, Mode::empty());
                let found = found.and_then(|fd| Ok(fstat(fd)?));
                found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
            }
            kind => kind == FileType::Directory,
        };
        names.push((name.to_owned(), is_folder));
    }
    Ok(names)
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP];
    error.raw_os_error().is_some_and(|code| gone.contains(&Errno::from_raw_os_error(code)))
}

fn read(root: &RootDir, folder: &str, name: &str) -> io::Result<Vec<Pattern>> {
    let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let Ok(path) = TreePath::new(path.into_bytes()) else { return Ok(Vec::new()) };
    let Some(file) = open_file(root, &path)? else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    File::take(file, MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(|line| pattern(folder, line)).collect())
}

/// The pattern of a line, if it is one.
fn pattern(folder: &str, line: &str) -> Option<Pattern> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let (is_wanted_again, mut rest) = match line.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    // Spaces at the end mean nothing unless a backslash says so.
    while let Some(shorter) = rest.strip_suffix(' ').filter(|shorter| !shorter.ends_with('\\')) {
        rest = shorter;
    }
    if rest.is_empty() || line.starts_with('#') {
        return None;
    }
    let (is_for_folders, rest) = match rest.strip_suffix('/') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let is_anchored = rest.contains('/');
    let parts = rest.strip_prefix('/').unwrap_or(rest).split('/');
    let glob = parts.map(|part| if part == "**" { Part::Any } else { Part::Name(part.to_owned()) }).collect();
    Some(Pattern { folder: folder.to_owned(), glob, is_wanted_again, is_for_folders, is_anchored })
}

fn is_ignored(patterns: &[Pattern], path: &str, is_folder: bool) -> bool {
    let last = patterns.iter().rev().find(|pattern| pattern.fits(path, is_folder));
    last.is_some_and(|pattern| !pattern.is_wanted_again)
}

impl Pattern {
    fn fits(&self, path: &str, is_folder: bool) -> bool {
        if self.is_for_folders && !is_folder {
            return false;
        }
        let below = match self.folder.as_str() {
            "" => Some(path),
            folder => path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
        };
        let Some(below) = below else { return false };
        let names: Vec<&str> = below.split('/').collect();
        match (self.is_anchored, self.glob.as_slice(), names.last()) {
            (true, glob, _) => fits_path(glob, &names),
            (false, [Part::Name(glob)], Some(name)) => fits_name(glob, name),
            (false, ..) => true,
        }
    }
}

/// Whether the parts of a pattern fit the names of a path.
fn fits_path(glob: &[Part], names: &[&str]) -> bool {
    match (glob.split_first(), names.split_first()) {
        (None, None) => true,
        // At the end it is all that is inside.
        (Some((Part::Any, [])), Some(_)) => true,
        (Some((Part::Any, rest)), _) => (0..=names.len()).any(|skipped| fits_path(rest, &names[skipped..])),
        (Some((Part::Name(part), rest)), Some((name, names))) => {
            fits_name(part, name) && fits_path(rest, names)
        }
        _ => false,
    }
}

/// Whether a pattern with `*`, `?` and `[…]` fits a name.
fn fits_name(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) =
        (glob.bytes().map(char::from).collect(), name.bytes().map(char::from).collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star is, and how much of the name it takes.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match glob.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
                continue;
            }
            None if of == name.len() => return true,
            None => None,
            Some(_) => name.get(of).and_then(|c| one(&glob[at..], *c)),
        };
        match (step, star) {
            (Some(length), _) => (at, of) = (at + length, of + 1),
            (None, Some((from, taken))) if taken < name.len() => {
                star = Some((from, taken + 1));
                (at, of) = (from + 1, taken + 1);
            }
            (None, _) => return false,
        }
    }
}

/// How much of a pattern one character fits; `None` if it does not.
fn one(glob: &[char], c: char) -> Option<usize> {
    match glob {
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let (is_not, rest) = match rest {
                ['!' | '^', rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            // The first may be the bracket itself.
            let end = rest.iter().skip(1).position(|c| *c == ']')? + 1;
            let is_in = class(&rest[..end], c);
            (is_in != is_not).then_some(1 + usize::from(is_not) + end + 1)
        }
        ['\\', escaped, ..] => (*escaped == c).then_some(2),
        [plain, ..] => (*plain == c).then_some(1),
        [] => None,
    }
}

/// Whether a character is one of `a`, `a-z` and so on.
fn class(mut set: &[char], c: char) -> bool {
    while let [first, rest @ ..] = set {
        match rest {
            ['-', last, rest @ ..] => {
                if (*first..=*last).contains(&c) {
                    return true;
                }
                set = rest;
            }
            _ => {
                if *first == c {
                    return true;
                }
                set = rest;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    /// Everything below `root`, but for `.git`, in the way git names it.
    fn all(root: &std::path::Path) -> Vec<(String, bool)> {
        let (mut found, mut open) = (Vec::new(), vec![String::new()]);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(root.join(&folder)).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if path != ".git" {
                    let is_folder = entry.file_type().unwrap().is_dir();
                    if is_folder {
                        open.push(path.clone());
                    }
                    found.push((path, is_folder));
                }
            }
        }
        found
    }

    #[test]
    fn what_is_ignored_is_what_git_ignores() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(root).args(words).env("GIT_CONFIG_GLOBAL", "/dev/null");
            git.output().unwrap()
        };
        assert!(git(&["init", "-q"]).status.success());
        for path in [
            "a.o",
            "b.c",
            "keep.o",
            "target/deep/x",
            "src/target/y",
            "src/main.rs",
            "src/a.o",
            "doc/one.txt",
            "doc/two.html",
            "doc/in/one.txt",
            "logs/1.log",
            "logs/keep/2.log",
            "x1",
            "x9",
            "xa",
            "#hash",
            "!bang",
            "deep/a/b/c/file",
            "deep/file",
            "build",
            "sub/build/z",
            "trail ",
            "star*",
            "node_modules/m/index.js",
            "sub/node_modules/n.js",
            "sub/own.tmp",
            "sub/kept.tmp",
            "other.tmp",
            "sub/deeper/own.tmp",
            "[x]",
            "é.txt",
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let top = "# a comment\n\n*.o\n!keep.o\n/target/\nnode_modules\ndoc/*.txt\nlogs/**\n!logs/keep/\nx[0-9]\n\
                   \\#hash\n\\!bang\ndeep/**/file\nbuild/\ntrail\\ \nstar\\*\n*.tmp\n[[]x[]]\n?.txt\r\n";
        fs::write(root.join(".gitignore"), top).unwrap();
        fs::write(root.join("sub/.gitignore"), "!kept.tmp\n/own.tmp\n").unwrap();
        let found = ignored(&RootDir::open(root).unwrap()).unwrap();
        let is_ours =
            |path: &str| found.iter().any(|top| path == top || path.starts_with(&format!("{top}/")));
        for (path, is_folder) in all(root) {
            let asked = if is_folder { format!("{path}/") } else { path.clone() };
            let is_theirs = git(&["check-ignore", "-q", "--no-index", &asked]).status.success();
            assert_eq!(is_ours(&path), is_theirs, "{path}: {found:?}");
        }
        assert!(is_ours("a.o") && !is_ours("keep.o") && is_ours("target"), "{found:?}");
        // The file of ours comes after git's.
        fs::write(root.join(".pstoreignore"), "!a.o\nbuild\n").unwrap();
        let found = ignored(&RootDir::open(root).unwrap()).unwrap();
        assert!(!found.contains(&"a.o".to_owned()) && found.contains(&"build".to_owned()), "{found:?}");
    }
}
