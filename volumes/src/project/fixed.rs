//! `require_fixed` refuses folders that a user of this host could put something else in the place of.
//!
//! A caller of a server is not the one who wrote the project file. If an app of its tenant may rename a folder above a
//! volume, it can put a link there, and have read what the server's user may read and it may not.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use rustix::process::geteuid;
use store::{Error, error::IoContext};

/// May be written by others than the owner.
const WRITTEN_BY_OTHERS: u32 = 0o022;
/// In a folder: only the owner of an entry renames it.
const STICKY: u32 = 0o1000;

/// Refuses a folder if its path has a link, or if any user but root and that of this process could rename a part of it.
/// From then on the path leads to the same folder. What lies in the folder is not looked at.
pub fn require_fixed(folder: &Path) -> Result<(), Error> {
    let mut place = PathBuf::from("/");
    let mut above = fs::symlink_metadata(&place).at("cannot read", &place)?;
    if !folder.is_absolute() {
        return Err(refused(folder, folder));
    }
    for part in folder.components() {
        match part {
            Component::Normal(name) => place.push(name),
            // What stands before it is no link.
            Component::ParentDir => {
                place.pop();
                above = fs::symlink_metadata(&place).at("cannot read", &place)?;
                continue;
            }
            _ => continue,
        }
        let found = fs::symlink_metadata(&place).at("cannot read", &place)?;
        if !found.is_dir() || !stays(&above, &found) {
            return Err(refused(folder, &place));
        }
        above = found;
    }
    Ok(())
}

/// Refuses a file if its path has a link, or if any user but root and that of this process could write the file, or put
/// another one in its place. One that is absent is taken where nobody else could make it.
pub fn require_fixed_file(file: &Path) -> Result<(), Error> {
    let refused = |place: &Path| Error::InvalidInput {
        what: format!(
            "{} is not followed for callers: {} is a link, or other users may write it. Only root or the server's user may own and write the file and the folders above it; `pstore project save` on the host takes any",
            file.display(),
            place.display()
        ),
    };
    if !file.is_absolute() {
        return Err(refused(file));
    }
    // What is absent could be made in the innermost folder that is there.
    let mut folder = file.parent().unwrap_or(Path::new("/"));
    while let Some(above) = folder.parent().filter(|_| is_absent(folder)) {
        folder = above;
    }
    require_fixed(folder).map_err(|error| match error {
        Error::InvalidInput { .. } => refused(folder),
        error => error,
    })?;
    if !is_trusted_alone(&fs::symlink_metadata(folder).at("cannot read", folder)?) {
        return Err(refused(folder));
    }
    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => match found.at("cannot read", file)? {
            found if found.is_file() && is_trusted_alone(&found) => Ok(()),
            _ => Err(refused(file)),
        },
    }
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn is_trusted(found: &Metadata) -> bool {
    [0, geteuid().as_raw()].contains(&found.uid())
}

/// Whether nobody else may write it.
fn is_trusted_alone(found: &Metadata) -> bool {
    is_trusted(found) && found.mode() & WRITTEN_BY_OTHERS == 0
}

/// Whether nobody else may rename what was found in the folder `above`.
fn stays(above: &Metadata, found: &Metadata) -> bool {
    let is_shared = above.mode() & WRITTEN_BY_OTHERS != 0;
    let is_kept = above.mode() & STICKY != 0 && is_trusted(found);
    is_trusted(above) && (!is_shared || is_kept)
}

fn refused(folder: &Path, place: &Path) -> Error {
    let what = format!(
        "{} is not saved for callers: {} is a link, or lies where other users may rename it. Only root or the server's user may own and write the folders above a volume; `pstore project save` on the host takes any",
        folder.display(),
        place.display()
    );
    Error::InvalidInput { what }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_others_could_replace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let inner = root.join("above/volume");
        fs::create_dir_all(&inner).unwrap();
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&root.join("above"), 0o755);
        require_fixed(&inner).unwrap();
        require_fixed(&root.join("above/../above/volume")).unwrap();
        // The folder itself may be an app's, for what lies in it is not followed.
        mode(&inner, 0o777);
        require_fixed(&inner).unwrap();
        mode(&root.join("above"), 0o777);
        require_fixed(&inner).unwrap_err();
        mode(&root.join("above"), 0o1777);
        require_fixed(&inner).unwrap();
        mode(&root.join("above"), 0o755);
        symlink(root.join("above"), root.join("link")).unwrap();
        require_fixed(&root.join("link/volume")).unwrap_err();
        require_fixed(Path::new("volume")).unwrap_err();
    }

    #[test]
    fn a_file_that_others_could_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("run/pid");
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        // Nobody else could make the folder.
        require_fixed_file(&file).unwrap();
        fs::create_dir(root.join("run")).unwrap();
        mode(&root.join("run"), 0o755);
        require_fixed_file(&file).unwrap();
        fs::write(&file, "1234").unwrap();
        mode(&file, 0o644);
        require_fixed_file(&file).unwrap();
        require_fixed_file(&root.join("run/../run/pid")).unwrap();
        for shared in [0o664, 0o646] {
            mode(&file, shared);
            require_fixed_file(&file).unwrap_err();
        }
        mode(&file, 0o644);
        for shared in [0o777, 0o1777] {
            mode(&root.join("run"), shared);
            require_fixed_file(&file).unwrap_err();
            // Others could make one.
            require_fixed_file(&root.join("run/absent")).unwrap_err();
            require_fixed_file(&root.join("run/absent/pid")).unwrap_err();
        }
        mode(&root.join("run"), 0o755);
        symlink(&file, root.join("link")).unwrap();
        require_fixed_file(&root.join("link")).unwrap_err();
        require_fixed_file(Path::new("pid")).unwrap_err();
        require_fixed_file(&root.join("run")).unwrap_err();
    }

    /// As root, as whom tests run.
    #[test]
    fn a_file_of_an_app_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().canonicalize().unwrap().join("pid");
        fs::write(&file, "1234").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::chown(&file, Some(1234), None).unwrap();
        let refused = require_fixed_file(&file).unwrap_err().to_string();
        assert!(refused.contains("is not followed for callers"), "{refused}");
    }
}
