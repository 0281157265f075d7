//! `vectors` finds the format's vectors, and other files that are kept with the tests, by parts of their paths.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files of the format's vectors whose path contains this.
pub fn vectors(part: &str) -> Vec<Vec<u8>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors"), part)
}

/// The files below `root` whose path contains `part`, in the order of their names.
pub fn files(root: &Path, part: &str) -> Vec<Vec<u8>> {
    let (mut folders, mut found): (_, Vec<PathBuf>) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    let fitting = found.iter().filter(|path| path.to_str().unwrap().contains(part));
    fitting.map(|path| fs::read(path).unwrap()).collect()
}
