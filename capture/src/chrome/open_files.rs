//! `OpenFiles` lists the files that a process has open below a directory.
//!
//! It names only files that the process could still write to: another reader, such as a second capture or an indexer,
//! cannot spoil a copy.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenFiles {
    /// Any file, for reading or writing.
    pub(super) any: bool,
    pub(super) writable: Vec<PathBuf>,
}

impl OpenFiles {
    /// Looks for files below any of `names`. Fails where looking is not permitted.
    pub(super) fn of(pid: u32, names: &[PathBuf]) -> io::Result<Self> {
        let mut found = Self::default();
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let Ok(entry) = entry else { break };
            // It may have been closed, or the process may have ended, since.
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            if !below(&target, names) || !fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            found.any = true;
            if opened_for_writing(pid, &entry.file_name().to_string_lossy()) {
                found.writable.push(target);
            }
        }
        found.add_maps(pid, names);
        found.writable.sort();
        found.writable.dedup();
        Ok(found)
    }

    /// A file can be closed and still be written to through memory.
    fn add_maps(&mut self, pid: u32, names: &[PathBuf]) {
        let Ok(file) = fs::File::open(format!("/proc/{pid}/maps")) else { return };
        for line in BufReader::new(file).split(b'\n') {
            let Ok(line) = line else { break };
            // address permissions offset device inode path, where the path may have spaces.
            let Some(at) = line.iter().position(|byte| *byte == b'/') else { continue };
            let path = PathBuf::from(std::ffi::OsString::from_vec(line[at..].to_vec()));
            if below(&path, names) {
                self.any = true;
                let mut fields = line.split(|byte| *byte == b' ');
                let permissions = fields.nth(1).unwrap_or_default();
                if permissions.get(1) == Some(&b'w') && permissions.get(3) == Some(&b's') {
                    self.writable.push(path);
                }
            }
        }
    }
}

fn below(target: &Path, names: &[PathBuf]) -> bool {
    // The kernel's mark: such a file is in no directory any more.
    !target.as_os_str().as_bytes().ends_with(b" (deleted)")
        && names.iter().any(|name| target != name && target.starts_with(name))
}

fn opened_for_writing(pid: u32, descriptor: &str) -> bool {
    const ACCESS_MODE: u32 = 0o3;
    const READ_ONLY: u32 = 0;
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS_MODE != READ_ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_directory_count_and_only_writers_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let look = || OpenFiles::of(std::process::id(), std::slice::from_ref(&root)).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        let _directory = fs::File::open(root.join("sub")).unwrap();
        assert_eq!(look(), OpenFiles::default());

        fs::write(root.join("read"), "").unwrap();
        let _reader = fs::File::open(root.join("read")).unwrap();
        assert_eq!(look(), OpenFiles { any: true, writable: vec![] });

        let writer = fs::File::create(root.join("sub/wri ten")).unwrap();
        assert_eq!(look().writable, [root.join("sub/wri ten")]);
        fs::remove_file(root.join("sub/wri ten")).unwrap();
        assert!(look().writable.is_empty());
        drop(writer);
    }
}
