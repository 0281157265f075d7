//! `InotifyWatch` sees what happens in a workspace through inotify, and writes it into `session.db`.
//!
//! Directories are opened beneath the workspace and watched through their handles, so no symbolic link is followed. If the
//! kernel drops events, or allows no more watches, nothing is lost: the next checkpoint finds what differs.

use std::{
    collections::{HashMap, HashSet},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        Dir, FileType, Mode, OFlags, fstat,
        inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    },
    io::Errno,
};
use store::{ErrorKind, tree::root_dir::RootDir};

use crate::{
    failure::Failure,
    workspace::{
        folder::is_prepared,
        outcome::FileAction,
        session_db::{NewEvent, SessionDb},
    },
};

const BUFFER_BYTES: usize = 64 << 10;
/// Of what waits when events were dropped, so many buffers are passed over: somebody may write faster than we read.
const MOST_PASSED_OVER: usize = 1000;

/// What a kernel event says, without its buffer.
struct KernelEvent {
    watch: i32,
    flags: ReadFlags,
    name: Vec<u8>,
}

/// The watches of one workspace.
#[derive(Debug)]
pub(super) struct InotifyWatch {
    inotify: OwnedFd,
    root: RootDir,
    db: SessionDb,
    /// The directory behind each watch, from the top of the workspace.
    folders: HashMap<i32, Vec<u8>>,
    /// The files there are, as far as it is known.
    files: HashSet<Vec<u8>>,
    /// Paths whose events are somebody else's to tell.
    silenced: HashSet<Vec<u8>>,
    /// Whether all directories are watched.
    is_complete: bool,
}

impl InotifyWatch {
    /// Watches all directories that are there.
    pub fn open(directory: &Path, db: SessionDb) -> Result<Self, Failure> {
        let unwatched = |error: Errno| {
            Failure::new(ErrorKind::Io, format!("{} cannot be watched: {error}", directory.display())).hint(
                "`sysctl fs.inotify.max_user_instances` tells how many programs may watch; \
                 --no-watch takes checkpoints when they are asked for",
            )
        };
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(unwatched)?;
        let mut opened = Self {
            inotify,
            root: RootDir::open(directory)?,
            db,
            folders: HashMap::new(),
            files: HashSet::new(),
            silenced: HashSet::new(),
            is_complete: true,
        };
        opened.look_into(Vec::new(), &mut None);
        Ok(opened)
    }

    /// Becomes readable when something has happened.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Whether every directory is watched. What happens elsewhere is found at the next checkpoint.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// From now on tells nothing of these paths.
    pub fn silence(&mut self, paths: HashSet<Vec<u8>>) {
        self.silenced = paths;
    }

    /// Writes down what has happened so far.
    pub fn drain(&mut self) -> Result<(), Failure> {
        let mut events = Vec::new();
        loop {
            let seen = self.read();
            if seen.is_empty() {
                break;
            }
            self.understand_all(&seen, &mut events);
        }
        self.db.add(&self.in_one(events))
    }

    fn understand_all(&mut self, seen: &[KernelEvent], events: &mut Vec<(FileAction, Vec<u8>)>) {
        for one in seen {
            if one.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                return self.begin_anew();
            }
            self.understand(one, events);
        }
    }

    /// The kernel has dropped events: looks at everything again. What has waited until now may be older than what is found,
    /// and what would complete it may be missing, so it is passed over.
    fn begin_anew(&mut self) {
        tracing::info!("too much happened at once; the next checkpoint finds what was not seen");
        for _ in 0..MOST_PASSED_OVER {
            if self.read().is_empty() {
                break;
            }
        }
        self.folders.clear();
        self.files.clear();
        self.look_into(Vec::new(), &mut None);
    }

    /// What the kernel has waiting, up to a bufferful.
    fn read(&self) -> Vec<KernelEvent> {
        let mut buffer = vec![MaybeUninit::<u8>::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => seen.push(KernelEvent {
                    watch: event.wd(),
                    flags: event.events(),
                    name: event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default(),
                }),
                Err(Errno::INTR) => continue,
                Err(_) => return seen,
            }
            if reader.is_buffer_empty() {
                return seen;
            }
        }
    }

    fn understand(&mut self, seen: &KernelEvent, events: &mut Vec<(FileAction, Vec<u8>)>) {
        if seen.flags.contains(ReadFlags::IGNORED) {
            self.folders.remove(&seen.watch);
            return;
        }
        let Some(folder) = self.folders.get(&seen.watch) else { return };
        if seen.name.is_empty() {
            return;
        }
        let mut path = folder.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&seen.name);
        if is_prepared(&path) {
            return;
        }
        let is_folder = seen.flags.contains(ReadFlags::ISDIR);
        let appears = seen.flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let goes = seen.flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
        match (is_folder, appears, goes) {
            (true, true, _) => self.look_into(path, &mut Some(events)),
            (true, _, true) => {
                self.forget(&path, events);
                // It may be there again, and may have been looked into already: that watch has gone with the old one.
                self.look_into(path, &mut Some(events));
            }
            (false, true, _) => {
                let action = match self.files.insert(path.clone()) {
                    true => FileAction::Created,
                    false => FileAction::Modified,
                };
                events.push((action, path));
            }
            (false, _, true) if self.files.remove(&path) => events.push((FileAction::Deleted, path)),
            (false, false, false) if seen.flags.contains(ReadFlags::MODIFY) => {
                self.files.insert(path.clone());
                events.push((FileAction::Modified, path));
            }
            _ => {}
        }
    }

    /// A directory has gone, or has another name: its files are gone, and those of the new name are new.
    fn forget(&mut self, folder: &[u8], events: &mut Vec<(FileAction, Vec<u8>)>) {
        let is_in = |path: &[u8]| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"));
        let mut gone: Vec<Vec<u8>> = self.files.iter().filter(|path| is_in(path)).cloned().collect();
        gone.sort();
        for path in gone {
            self.files.remove(&path);
            events.push((FileAction::Deleted, path));
        }
        let stale = |path: &[u8]| path == folder || is_in(path);
        let watches: Vec<i32> =
            self.folders.iter().filter(|(_, path)| stale(path)).map(|(watch, _)| *watch).collect();
        for watch in watches {
            self.folders.remove(&watch);
            // One that was deleted has no watch any more.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    /// Watches a directory and those below it, and notes their files. What is found is told as new, if somebody wants it.
    fn look_into(&mut self, top: Vec<u8>, told: &mut Option<&mut Vec<(FileAction, Vec<u8>)>>) {
        let mut open = vec![top];
        while let Some(path) = open.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            // Gone again, or a link now.
            let Ok(folder) = self.root.open_at(&path, flags, Mode::empty()) else { continue };
            self.watch(&folder, &path);
            let Ok(entries) = Dir::read_from(&folder) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let mut inner = path.clone();
                if !inner.is_empty() {
                    inner.push(b'/');
                }
                inner.extend_from_slice(name);
                if is_prepared(&inner) {
                    continue;
                }
                match self.kind(entry.file_type(), &inner) {
                    FileType::Directory => open.push(inner),
                    FileType::RegularFile | FileType::Symlink => {
                        if self.files.insert(inner.clone())
                            && let Some(events) = told
                        {
                            events.push((FileAction::Created, inner));
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// What an entry is; some file systems do not say it in a listing.
    fn kind(&self, listed: FileType, path: &[u8]) -> FileType {
        if listed != FileType::Unknown {
            return listed;
        }
        let found = self.root.open_at(path, OFlags::PATH, Mode::empty());
        let stat = found.ok().and_then(|fd| fstat(fd).ok());
        stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
    }

    fn watch(&mut self, folder: &OwnedFd, path: &[u8]) {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        let handle = format!("/proc/self/fd/{}", folder.as_raw_fd());
        match inotify::add_watch(&self.inotify, handle, flags) {
            Ok(watch) => drop(self.folders.insert(watch, path.to_vec())),
            Err(error) => {
                if self.is_complete {
                    tracing::warn!(%error, "not every directory can be watched; checkpoints find what was not seen");
                }
                self.is_complete = false;
            }
        }
    }

    /// What is written down: one event for what is the same, with the size that the file has now.
    fn in_one(&self, events: Vec<(FileAction, Vec<u8>)>) -> Vec<NewEvent> {
        let mut last: HashMap<Vec<u8>, FileAction> = HashMap::new();
        let mut kept = Vec::new();
        for (action, path) in events {
            if self.silenced.contains(&path) {
                continue;
            }
            let before = last.insert(path.clone(), action);
            let is_more_of_it = action == FileAction::Modified
                && matches!(before, Some(FileAction::Created | FileAction::Modified));
            match is_more_of_it {
                // What it was stays what it was.
                true => drop(before.and_then(|before| last.insert(path, before))),
                false => kept.push((action, path)),
            }
        }
        let event = |(action, path): (FileAction, Vec<u8>)| {
            let size = (action != FileAction::Deleted).then(|| self.size(&path)).flatten();
            (action, path, size)
        };
        kept.into_iter()
            .filter(|(action, path)| *action == FileAction::Deleted || !self.is_special(path))
            .map(event)
            .map(|(action, path, size)| NewEvent {
                action,
                path: String::from_utf8_lossy(&path).into_owned(),
                size,
            })
            .collect()
    }

    /// A FIFO, a socket or a device: no checkpoint has those.
    fn is_special(&self, path: &[u8]) -> bool {
        let found = self.root.open_at(path, OFlags::PATH, Mode::empty());
        let stat = found.ok().and_then(|fd| fstat(fd).ok());
        stat.is_some_and(|stat| {
            !matches!(
                FileType::from_raw_mode(stat.st_mode),
                FileType::RegularFile | FileType::Symlink | FileType::Directory
            )
        })
    }

    fn size(&self, path: &[u8]) -> Option<u64> {
        let found = self.root.open_at(path, OFlags::PATH, Mode::empty()).ok()?;
        let stat = fstat(found).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| stat.st_size.max(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Scene {
        folder: tempfile::TempDir,
        watch: InotifyWatch,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("workspace/folder/inner")).unwrap();
            let db = SessionDb::open(&folder.path().join("session.db")).unwrap();
            let watch = InotifyWatch::open(&folder.path().join("workspace"), db).unwrap();
            Self { folder, watch }
        }

        fn path(&self, below: &str) -> std::path::PathBuf {
            self.folder.path().join("workspace").join(below)
        }

        /// What the kernel says of the directory at the top.
        fn said(&self, flags: ReadFlags, name: &str) -> KernelEvent {
            let top = self.watch.folders.iter().find(|(_, path)| path.is_empty());
            KernelEvent { watch: *top.unwrap().0, flags: flags | ReadFlags::ISDIR, name: name.into() }
        }

        fn is_told(&mut self, path: &str) -> bool {
            self.watch.drain().unwrap();
            let events = self.watch.db.events((0, i64::MAX as u64), 1000).unwrap();
            events.iter().any(|event| event.path == path)
        }
    }

    #[test]
    fn a_folder_that_was_removed_and_made_again_is_watched() {
        let mut scene = Scene::new();
        for round in 0..20 {
            let name = format!("folder/inner/{round}");
            fs::remove_dir_all(scene.path("folder")).unwrap();
            if round % 3 == 0 {
                fs::create_dir(scene.path("folder")).unwrap();
                scene.watch.drain().unwrap();
            }
            fs::create_dir_all(scene.path("folder/inner")).unwrap();
            scene.watch.drain().unwrap();
            fs::write(scene.path(&name), "x").unwrap();
            assert!(scene.is_told(&name), "{name}");
        }
    }

    /// The kernel drops the events that come while its queue is full, and says so once. What it told before that somebody
    /// was to read it is old by the time that everything is looked at again.
    #[test]
    fn what_the_kernel_has_told_before_a_new_look_ends_no_watch() {
        let mut scene = Scene::new();
        let gone = scene.said(ReadFlags::DELETE, "folder");
        // That the folder was made again is not told.
        scene.watch.understand(&gone, &mut Vec::new());
        fs::write(scene.path("folder/inner/file"), "x").unwrap();
        assert!(scene.is_told("folder/inner/file"));

        let mut scene = Scene::new();
        let gone = scene.said(ReadFlags::DELETE, "folder");
        let overflow = KernelEvent { watch: -1, flags: ReadFlags::QUEUE_OVERFLOW, name: Vec::new() };
        fs::write(scene.path("folder/old"), "x").unwrap();
        let mut events = Vec::new();
        scene.watch.understand_all(&[overflow, gone], &mut events);
        assert!(events.is_empty(), "nothing has gone");
        fs::write(scene.path("folder/inner/file"), "x").unwrap();
        assert!(scene.is_told("folder/inner/file"));
    }
}
