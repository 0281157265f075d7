//! `play` has a file system and its model take the same steps.

use fuse::{
    fs::{Allocation, Fs, Must, Replace, SetAttributes},
    overlay::change::NewKind,
};

use super::{
    ME, Mounted, Step,
    model::{Model, Thing},
};
use crate::tree::noise;

/// Fails if an empty file system and the model of one are not the same after these steps, or
/// after a kill or a commit among them.
pub async fn play(mounted: Mounted, steps: &[Step]) {
    let mut play = Play { mounted, model: Model::new() };
    for step in steps {
        play.take(step).await;
    }
    play.compare().await;
    play.take(&Step::Checkpoint).await;
    play.take(&Step::Kill).await;
    play.take(&Step::Commit).await;
}

struct Play {
    mounted: Mounted,
    model: Model,
}

impl Play {
    async fn compare(&self) {
        self.mounted.assert_is(&self.model).await;
    }

    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Make { folder, name, folder_too: false } => self.make(folder, name, NewKind::File),
            Step::Make { folder, name, folder_too: true } => self.make(folder, name, NewKind::Directory),
            Step::Symlink { folder, name } => {
                self.make(folder, name, NewKind::Symlink { target: b"target".to_vec() });
            }
            Step::Link { file, folder, name } => self.link(file, folder, name),
            Step::Rename { what, folder, name, exchange } => self.rename(what, folder, name, exchange),
            Step::Remove { what } => self.remove(what),
            Step::Mark { what, value } => self.mark(what, value),
            Step::Write { file, .. }
            | Step::Truncate { file, .. }
            | Step::Zero { file, .. }
            | Step::Sync { file } => {
                if let Some(path) = self.model.file(file) {
                    self.change(&path, step);
                }
            }
            Step::Kill => {
                Box::pin(self.mounted.kill(true)).await;
                self.compare().await;
            }
            Step::Commit => {
                Box::pin(self.mounted.commit()).await;
                self.compare().await;
            }
            Step::Checkpoint => Box::pin(self.mounted.checkpoint()).await,
            Step::Compact => self.mounted.fs.compact(&self.mounted.session).unwrap(),
        }
    }

    fn make(&mut self, folder: usize, name: u8, kind: NewKind) {
        let path = join(&self.model.folder(folder), name);
        let (parent, name) = split(&path);
        let parent = self.mounted.ino(parent);
        let made = self.mounted.ask(|fs| fs.make(&fs.enter(), ME, parent, name, kind.clone(), 0o755));
        assert_eq!(made.is_ok(), !self.model.has(&path), "{path}");
        if made.is_err() {
            return;
        }
        match kind {
            NewKind::File => self.model.make_file(path),
            NewKind::Directory => drop(self.model.names.insert(path, Thing::Folder)),
            _ => self.model.make_link(path),
        }
    }

    fn link(&mut self, file: usize, folder: usize, name: u8) {
        let Some(file) = self.model.linkable(file) else { return };
        let path = join(&self.model.folder(folder), name);
        let (parent, name) = split(&path);
        let (ino, parent) = (self.mounted.ino(&file), self.mounted.ino(parent));
        let linked = self.mounted.ask(|fs| fs.link(&fs.enter(), ino, parent, name));
        assert_eq!(linked.is_ok(), !self.model.has(&path), "{file} as {path}");
        if linked.is_ok() {
            self.model.names.insert(path, self.model.names[&file]);
        }
    }

    fn rename(&mut self, what: usize, folder: usize, name: u8, exchange: bool) {
        let Some(from) = self.model.anything(what) else { return };
        let to = join(&self.model.folder(folder), name);
        let ((parent, old), (new_parent, new)) = (split(&from), split(&to));
        let replace = if exchange { Replace::Exchange } else { Replace::Yes };
        let (parent, new_parent) = (self.mounted.ino(parent), self.mounted.ino(new_parent));
        let renamed = self.mounted.ask(|fs| fs.rename(&fs.enter(), parent, old, new_parent, new, replace));
        let may = self.model.may_rename(&from, &to, exchange);
        assert_eq!(renamed.is_ok(), may, "{from} to {to}, {replace:?}: {renamed:?}");
        if may {
            self.model.rename(&from, &to, exchange);
        }
    }

    fn remove(&mut self, what: usize) {
        let Some(path) = self.model.anything(what) else { return };
        let (parent, name) = split(&path);
        let parent = self.mounted.ino(parent);
        let is_folder = self.model.names[&path] == Thing::Folder;
        let removed = self.mounted.ask(|fs| match is_folder {
            true => fs.remove_directory(&fs.enter(), parent, name),
            false => fs.unlink(&fs.enter(), parent, name),
        });
        assert_eq!(removed.is_ok(), !self.model.has_something_in(&path), "{path}");
        if removed.is_ok() {
            self.model.names.remove(&path);
        }
    }

    fn mark(&mut self, what: usize, value: u8) {
        let Some(path) = self.model.anything(what) else { return };
        let ino = self.mounted.ino(&path);
        let set = SetAttributes { mode: Some(0o600 + u32::from(value)), ..SetAttributes::default() };
        let link = matches!(self.model.names[&path], Thing::Link(_));
        let marked = self.mounted.ask(|fs| fs.set_attributes(&fs.enter(), ino, set));
        assert_eq!(marked.is_err(), link, "{path}");
        if !link {
            let set = |fs: &Fs| fs.set_xattr(&fs.enter(), ino, b"user.x", &[value], Must::Either);
            self.mounted.ask(set).unwrap();
        }
    }

    /// The effect of a step on the bytes of a file.
    fn change(&mut self, path: &str, step: &Step) {
        let (mounted, content) = (&self.mounted, self.model.content(path));
        let ino = mounted.ino(path);
        match *step {
            Step::Write { offset, len, seed, .. } => {
                let data = noise(len as usize, seed);
                let written = mounted.ask(|fs| fs.write(&fs.enter(), ino, offset.into(), &data));
                assert_eq!(written.unwrap(), data.len());
                let end = offset as usize + data.len();
                content.resize(content.len().max(end), 0);
                content[offset as usize..end].copy_from_slice(&data);
            }
            Step::Truncate { size, .. } => {
                let set = SetAttributes { size: Some(size.into()), ..SetAttributes::default() };
                mounted.ask(|fs| fs.set_attributes(&fs.enter(), ino, set)).unwrap();
                content.resize(size as usize, 0);
            }
            Step::Zero { offset, len, punch, .. } => {
                let what = if punch { Allocation::Punch } else { Allocation::Zero { keep_size: false } };
                let range = offset.into()..(offset + len).into();
                mounted.ask(|fs| fs.allocate(&fs.enter(), ino, range.clone(), what)).unwrap();
                let end = (offset + len) as usize;
                if !punch {
                    content.resize(content.len().max(end), 0);
                }
                let end = end.min(content.len());
                content[end.min(offset as usize)..end].fill(0);
            }
            _ => mounted.ask(|fs| fs.sync(&fs.enter(), ino)).unwrap(),
        }
    }
}

fn join(folder: &str, name: u8) -> String {
    let name = ["a", "b", "c", "d.db", "e", "f"][usize::from(name % Step::NAMES)];
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn split(path: &str) -> (&str, &[u8]) {
    match path.rsplit_once('/') {
        Some((folder, name)) => (folder, name.as_bytes()),
        None => ("", path.as_bytes()),
    }
}
