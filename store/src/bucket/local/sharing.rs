//! Decides which users may read stored objects.
//!
//! Profiles hold secrets, so files and folders are their owner's alone, under any umask
//! and however open the directory is that somebody has made for the store. There is one way to
//! share: a directory that its group may write to, or that nobody outside of the group may use,
//! was made so for the group, and the group gets what it has there. All others never get anything.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

const GROUP: u32 = 0o070;
const GROUP_WRITES: u32 = 0o020;
const OTHERS: u32 = 0o007;
const SET_GROUP_ID: u32 = 0o2000;

/// The group's rights to files made in this folder: its bits of a folder's mode.
fn of_group(folder: &Path) -> u32 {
    let mode = fs::metadata(folder).map_or(0, |metadata| metadata.mode());
    let is_meant = mode & GROUP_WRITES != 0 || mode & OTHERS == 0;
    if is_meant { mode & (GROUP | SET_GROUP_ID) } else { 0 }
}

/// Opens a file in `folder` with `options`; a new one is for the group, if the folder is.
pub(super) fn open(options: &mut OpenOptions, folder: &Path, path: &Path) -> io::Result<File> {
    let group = of_group(folder) & 0o060;
    let file = options.mode(0o600 | group).open(path)?;
    let metadata = file.metadata()?;
    // Somebody else's is as its owner made it.
    if group & !metadata.mode() != 0 && metadata.uid() == rustix::process::geteuid().as_raw() {
        file.set_permissions(Permissions::from_mode(0o600 | group))?;
    }
    Ok(file)
}

/// Makes a folder with the rights of its parent's group.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    let group = of_group(folder.parent().unwrap_or(folder));
    DirBuilder::new().mode(0o700 | group).create(folder)?;
    if group != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700 | group))?;
    }
    Ok(())
}
