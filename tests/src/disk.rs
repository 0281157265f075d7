//! `SmallDisk` is a disk that is soon full, or may not be written to.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use tempfile::TempDir;

/// A file system of its own, of so many bytes, which goes with the value.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
    options: String,
}

impl SmallDisk {
    pub fn new(bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={bytes},mode=755");
        mount("pstore-test", folder.path(), "tmpfs", MountFlags::empty(), &*cstring(&options)).unwrap();
        Self { folder, options }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves room for no more than so many bytes.
    pub fn fill_but(&self, left: u64) {
        let mut ballast = fs::File::create(self.ballast()).unwrap();
        // What others have removed makes room a moment later.
        for _ in 0..25 {
            while ballast.write_all(&[0; 4096]).is_ok() {}
            thread::sleep(Duration::from_millis(20));
        }
        let full = ballast.metadata().unwrap().len();
        ballast.set_len(full.saturating_sub(left)).unwrap();
    }

    /// There is room again.
    pub fn relieve(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    pub fn make_read_only(&self, read_only: bool) {
        let flags = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        mount_remount(self.path(), flags, &*cstring(&self.options)).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whoever still uses it keeps it; nobody else finds it.
        unmount(self.path(), UnmountFlags::DETACH).ok();
    }
}

fn cstring(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).unwrap()
}
