//! `digest` computes the SHA-256 over the content of a tree, as format-spec/project.md defines it.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use store::{Error, error::IoContext};

/// How much of a file is read at once.
const READ_BYTES: usize = 1 << 20;

/// The content of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The digest, in hexadecimal digits.
    pub digest: String,
    /// How many bytes its regular files have.
    pub size: u64,
    /// How many entries it has.
    pub entries: u64,
}

/// The content of the trees `names` below `root`; one that is not there counts as none.
pub fn content(root: &Path, names: &[&str]) -> Result<Content, Error> {
    let mut paths = Vec::new();
    for name in names {
        let path = root.join(name);
        match fs::symlink_metadata(&path) {
            Ok(_) => collect(&path, &mut paths)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("cannot read", path, error)),
        }
    }
    of(root, paths)
}

/// The content of everything in `folder`.
pub fn of_folder(folder: &Path) -> Result<Content, Error> {
    let mut paths = Vec::new();
    below(folder, &mut paths)?;
    of(folder, paths)
}

fn collect(path: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    paths.push(path.to_owned());
    match fs::symlink_metadata(path).at("cannot read", path)?.is_dir() {
        true => below(path, paths),
        false => Ok(()),
    }
}

fn below(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).at("cannot read", folder)? {
        collect(&entry.at("cannot read", folder)?.path(), paths)?;
    }
    Ok(())
}

fn of(root: &Path, mut paths: Vec<PathBuf>) -> Result<Content, Error> {
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_owned();
    paths.sort_by_cached_key(|path| relative(path));
    let mut all = Sha256::new();
    let mut content = Content::default();
    for path in &paths {
        let metadata = fs::symlink_metadata(path).at("cannot read", path)?;
        let (kind, payload) = if metadata.is_dir() {
            (b'd', Vec::new())
        } else if metadata.is_symlink() {
            (b'l', fs::read_link(path).at("cannot read", path)?.as_os_str().as_bytes().to_owned())
        } else if metadata.is_file() {
            let (digest, size) = file(path).at("cannot read", path)?;
            content.size += size;
            (b'f', digest.into_bytes())
        } else {
            // A snapshot has no sockets, FIFOs and devices.
            continue;
        };
        content.entries += 1;
        all.update([kind]);
        all.update(relative(path));
        all.update([0]);
        all.update(payload);
        all.update([0]);
    }
    content.digest = hex(&all.finalize());
    Ok(content)
}

/// The digest of a file, and its length.
fn file(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut digest, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hex(&digest.finalize()), size)),
            count => {
                digest.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn sha256(bytes: &[u8]) -> String {
        hex(&Sha256::digest(bytes))
    }

    #[test]
    fn the_digest_is_that_of_the_lines_of_the_specification() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("files/a")).unwrap();
        fs::write(path("files/a/x"), "one").unwrap();
        fs::write(path("files/a.txt"), "").unwrap();
        symlink("a/x", path("files/link")).unwrap();
        fs::write(path("metadata.json"), "{}").unwrap();
        let lines = [
            "dfiles\0\0".to_owned(),
            "dfiles/a\0\0".to_owned(),
            format!("ffiles/a.txt\0{}\0", sha256(b"")),
            format!("ffiles/a/x\0{}\0", sha256(b"one")),
            "lfiles/link\0a/x\0".to_owned(),
        ];
        let found = content(folder.path(), &["files", "volumes"]).unwrap();
        let expected = Content { digest: sha256(lines.concat().as_bytes()), size: 3, entries: 5 };
        assert_eq!(found, expected);
        fs::write(path("files/a/x"), "two").unwrap();
        assert_ne!(content(folder.path(), &["files", "volumes"]).unwrap().digest, expected.digest);
    }
}
