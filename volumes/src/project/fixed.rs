//! `require_fixed` refuses folders that a user of this host could put something else in the place of.
//!
//! A caller of a server is not the one who wrote the project file. If an app of its tenant may rename a folder above a
//! volume, it can put a link there, and have read what the server's user may read and it may not.

use std::{
    fs::{self, Metadata},
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

/// Whether nobody else may rename what was found in the folder `above`.
fn stays(above: &Metadata, found: &Metadata) -> bool {
    let is_trusted = |metadata: &Metadata| [0, geteuid().as_raw()].contains(&metadata.uid());
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
}
