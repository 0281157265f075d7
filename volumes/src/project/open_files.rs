//! `open_files` finds programs that have files of a project open.
//!
//! A restore in place removes the files of before. A program that has one open would write on into what is gone. The kernel
//! tells of each process which files it has open, if it is of the same user; root learns it of all.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use store::Error;

use super::{file::Project, metadata::Metadata, plan, processes::is_above, sqlite, volume::VolumeKind};

/// In the flags of an open file: it may be written to.
const ACCESS: u32 = 0b11;

/// A device, and the number of a file there.
type Identity = (u64, u64);

/// A program that has a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: i32,
    /// What it calls itself.
    pub command: String,
    /// The file, as it is called there.
    pub path: PathBuf,
}

/// The files that nobody may have open while a state is put in their place.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// These, and what lies below them.
    places: Vec<PathBuf>,
    /// What is known of databases: a program in a container calls them otherwise.
    names: BTreeSet<OsString>,
    identities: BTreeSet<Identity>,
}

impl Watched {
    /// What a restore of a state would replace.
    pub fn of(project: &Project, metadata: &Metadata) -> Result<Self, Error> {
        let _shared = sqlite::OPEN_FILES.blocking_read();
        let mut watched = Self::default();
        for (_, place) in plan::places(project, metadata) {
            watched.add(&place);
        }
        for (name, volume) in &project.volumes {
            let VolumeKind::Sqlite { files, .. } = &volume.kind else { continue };
            if !metadata.volume_manifests.contains_key(name) {
                continue;
            }
            let databases = match files.is_empty() {
                true => sqlite::find(&volume.path)?,
                false => files.iter().map(|file| volume.path.join(file)).collect(),
            };
            databases.iter().for_each(|database| watched.add_database(database));
        }
        Ok(watched)
    }

    fn add(&mut self, place: &Path) {
        // Nobody has open what is not there.
        self.places.extend(fs::canonicalize(place));
    }

    fn add_database(&mut self, database: &Path) {
        for file in [database.to_owned()].into_iter().chain(sqlite::sides(database)) {
            let Ok(found) = fs::metadata(&file) else { continue };
            self.add(&file);
            self.names.extend(file.file_name().map(ToOwned::to_owned));
            self.identities.insert((found.dev(), found.ino()));
        }
    }

    /// Somebody else who has one of them open to write. Who runs this is nobody else.
    pub fn holder(&self) -> Option<Holder> {
        let own = i32::try_from(std::process::id()).ok();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        numbers.filter(|pid| Some(*pid) != own && !is_above(*pid)).find_map(|pid| {
            let process = Path::new("/proc").join(pid.to_string());
            let opened = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            let path = opened.map(|opened| opened.path()).find_map(|opened| {
                let path = self.watched(&opened)?;
                is_open_to_write(&process, &opened).then_some(path)
            })?;
            let command = fs::read(process.join("comm")).unwrap_or_default();
            Some(Holder { pid, command: String::from_utf8_lossy(&command).trim_end().to_owned(), path })
        })
    }

    /// The path of an open file, which is a link of the kernel's, if it is watched.
    fn watched(&self, opened: &Path) -> Option<PathBuf> {
        let path = fs::read_link(opened).ok()?;
        let is_below = self.places.iter().any(|place| path.starts_with(place));
        let is_called_so = path.file_name().is_some_and(|name| self.names.contains(name));
        // Others are not even looked at: they may be on what does not answer.
        if !is_below && !is_called_so {
            return None;
        }
        let found = identity(opened).ok()?;
        // The same path may be another file for a program that sees other mounts, or one that was removed.
        let is_here = is_below && identity(&path).is_ok_and(|here| here == found);
        (is_here || self.identities.contains(&found)).then_some(path)
    }
}

/// Whether a process may write by one of its open files. What the kernel does not say counts.
fn is_open_to_write(process: &Path, opened: &Path) -> bool {
    let told = fs::read_to_string(process.join("fdinfo").join(opened.file_name().unwrap_or_default()));
    let flags = told.ok().and_then(|told| {
        let digits = told.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(digits.trim(), 8).ok()
    });
    flags.is_none_or(|flags| flags & ACCESS != 0)
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Opener(Child);

    impl Opener {
        /// A program that has a file open. It calls it by the name it has below `folder`.
        fn start(folder: &Path, name: &str) -> Self {
            Self::begin(folder, &format!("exec 9<>{name}; exec sleep 600"))
        }

        fn begin(folder: &Path, script: &str) -> Self {
            let child = Command::new("sh").args(["-c", script]).current_dir(folder).spawn().unwrap();
            let opened = format!("/proc/{}/fd/9", child.id());
            while fs::symlink_metadata(&opened).is_err() {
                std::thread::yield_now();
            }
            Self(child)
        }
    }

    impl Drop for Opener {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_program_that_has_a_file_open_is_found_and_one_beside_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, beside) = (folder.path().join("volume/inner"), folder.path().join("volume-2"));
        for folder in [&inner, &beside] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("file"), "x").unwrap();
        }
        let mut watched = Watched::default();
        watched.add(&folder.path().join("volume"));
        watched.add(&folder.path().join("absent"));
        let _beside = Opener::start(&beside, "file");
        assert_eq!(watched.holder(), None);
        let opener = Opener::start(&inner, "file");
        let found = watched.holder().unwrap();
        assert_eq!(found.pid, i32::try_from(opener.0.id()).unwrap());
        assert!(found.path.ends_with("volume/inner/file"), "{}", found.path.display());
        // Who only reads has what was there.
        drop(opener);
        let reader = Opener::begin(&inner, "exec 9<file; exec sleep 600");
        assert_eq!(watched.holder(), None);
        drop(reader);
        let _opener = Opener::start(&inner, "file");
        assert!(watched.holder().is_some());
        // It has what was there, and nothing of what is there now.
        fs::remove_file(inner.join("file")).unwrap();
        fs::write(inner.join("file"), "y").unwrap();
        assert_eq!(watched.holder(), None);
    }

    #[test]
    fn a_database_is_known_by_what_it_is_wherever_its_program_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        for folder in [&here, &there] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(here.join("app.db"), "x").unwrap();
        // As a container has it, in which another path leads there.
        fs::hard_link(here.join("app.db"), there.join("app.db")).unwrap();
        let mut watched = Watched::default();
        watched.add_database(&here.join("app.db"));
        assert_eq!(watched.holder(), None);
        let opener = Opener::start(&there, "app.db");
        assert_eq!(watched.holder().unwrap().pid, i32::try_from(opener.0.id()).unwrap());
    }
}
