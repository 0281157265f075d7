//! `Model` is a file system as its users see it.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) struct Model {
    /// By path; the root is the empty path.
    pub(super) names: BTreeMap<String, Thing>,
    pub(super) contents: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    Folder,
    File(u64),
    Link(u64),
}

impl Model {
    pub(super) fn new() -> Self {
        let names = BTreeMap::from([(String::new(), Thing::Folder)]);
        Self { names, contents: BTreeMap::new(), next: 0 }
    }

    fn pick(&self, at: usize, fits: impl Fn(&str, Thing) -> bool) -> Option<String> {
        let fitting: Vec<&String> =
            self.names.iter().filter(|(path, thing)| fits(path, **thing)).map(|(path, _)| path).collect();
        (!fitting.is_empty()).then(|| fitting[at % fitting.len()].clone())
    }

    pub(super) fn folder(&self, at: usize) -> String {
        self.pick(at, |_, thing| thing == Thing::Folder).unwrap()
    }

    pub(super) fn file(&self, at: usize) -> Option<String> {
        self.pick(at, |_, thing| matches!(thing, Thing::File(_)))
    }

    /// A file or a symbolic link.
    pub(super) fn linkable(&self, at: usize) -> Option<String> {
        self.pick(at, |_, thing| thing != Thing::Folder)
    }

    pub(super) fn anything(&self, at: usize) -> Option<String> {
        self.pick(at, |path, _| !path.is_empty())
    }

    pub(super) fn content(&mut self, path: &str) -> &mut Vec<u8> {
        let Thing::File(id) = self.names[path] else { panic!("{path} is no file") };
        self.contents.get_mut(&id).unwrap()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.names.contains_key(path)
    }

    /// How many names a file or a link has.
    pub(super) fn links(&self, of: Thing) -> usize {
        self.names.values().filter(|thing| **thing == of).count()
    }

    pub(super) fn has_something_in(&self, folder: &str) -> bool {
        self.names.keys().any(|path| is_in(path, folder))
    }

    pub(super) fn make_file(&mut self, path: String) {
        self.contents.insert(self.next, Vec::new());
        self.names.insert(path, Thing::File(self.next));
        self.next += 1;
    }

    pub(super) fn make_link(&mut self, path: String) {
        self.names.insert(path, Thing::Link(self.next));
        self.next += 1;
    }

    /// Whether `from` may be renamed to `to`, as `rename(2)` has it.
    pub(super) fn may_rename(&self, from: &str, to: &str, exchange: bool) -> bool {
        let (thing, there) = (self.names[from], self.names.get(to));
        match there {
            _ if is_in(to, from) => false,
            Some(_) if exchange => !is_in(from, to),
            None => !exchange,
            Some(_) if from == to => true,
            Some(Thing::Folder) => thing == Thing::Folder && !self.has_something_in(to),
            Some(_) => thing != Thing::Folder,
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, exchange: bool) {
        let (thing, there) = (self.names[from], self.names.get(to));
        if from == to || thing != Thing::Folder && there == Some(&thing) {
            return;
        }
        if exchange {
            self.move_all(from, "aside");
            self.move_all(to, from);
            self.move_all("aside", to);
        } else {
            self.names.remove(to);
            self.move_all(from, to);
        }
    }

    fn move_all(&mut self, from: &str, to: &str) {
        let moved: Vec<String> =
            self.names.keys().filter(|path| *path == from || is_in(path, from)).cloned().collect();
        for path in moved {
            let thing = self.names.remove(&path).unwrap();
            self.names.insert(format!("{to}{}", &path[from.len()..]), thing);
        }
    }
}

fn is_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}
