//! `plan` says what of a restored state is moved where, and brings it near.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::syncfs;
use store::{Error, error::IoContext};

use super::{
    FILES, VOLUMES,
    copy::{self, Copier},
    file::Project,
    metadata::Metadata,
    note::{Made, Replaced},
    sqlite, swap,
    volume::VolumeKind,
};

/// A path beside another, of the same file system.
pub fn beside_of(place: &Path, kind: &str, nonce: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".pstore-{kind}-{name}-{nonce}"))
}

/// What a restore of a state may move, with words for each.
pub fn places(project: &Project, metadata: &Metadata) -> Vec<(String, PathBuf)> {
    let mut places = vec![(format!("the folder {FILES}"), project.state.join(FILES))];
    for (name, volume) in &project.volumes {
        let what = format!("volume {name:?}");
        match &volume.kind {
            _ if !metadata.volume_manifests.contains_key(name) => {}
            VolumeKind::Postgres(_) => {}
            VolumeKind::Sqlite { files, .. } if !files.is_empty() => {
                places.extend(files.iter().map(|file| (what.clone(), volume.path.join(file))));
            }
            _ => places.push((what, volume.path.clone())),
        }
    }
    places
}

/// The swaps, the names of the volumes among them, and warnings.
pub type Swaps = (Vec<Replaced>, Vec<String>, Vec<String>);

/// What is moved where, the names of what that replaces, and what it leaves alone.
pub fn swaps(
    project: &Project,
    metadata: &Metadata,
    staging: &Path,
    nonce: &str,
    databases: &[String],
) -> Swaps {
    let (mut places, mut names, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    if staging.join(FILES).exists() {
        places.push((project.state.join(FILES), Some(staging.join(FILES))));
        names.push(FILES.to_owned());
    }
    for (name, volume) in &project.volumes {
        let restored = staging.join(VOLUMES).join(name);
        if !metadata.volume_manifests.contains_key(name) {
            warnings.push(format!("the state has no volume {name}, which stays as it is"));
            continue;
        }
        names.push(name.clone());
        match &volume.kind {
            VolumeKind::Sqlite { files, .. } if !files.is_empty() => {
                for file in files {
                    let place = volume.path.join(file);
                    if !restored.join(file).exists() {
                        warnings.push(format!(
                            "the state has no database {} of volume {name}, which stays as it is",
                            file.display()
                        ));
                        continue;
                    }
                    // The log of the old database is not one of the new.
                    places.extend(sqlite::sides(&place).map(|side| (side, None)));
                    places.push((place, Some(restored.join(file))));
                }
            }
            VolumeKind::Postgres(_) => {
                names.pop();
                if !databases.contains(name) {
                    warnings.push(format!(
                        "the databases of volume {name} stay as they are; --into {name}=URL restores them into an empty server"
                    ));
                }
            }
            _ => places.push((volume.path.clone(), Some(restored))),
        }
    }
    for name in metadata.volume_manifests.keys().filter(|name| !project.volumes.contains_key(*name)) {
        warnings.push(format!("the project has no volume {name}, which is not restored"));
    }
    let swaps = places.into_iter().map(|(place, restored)| Replaced {
        old: beside_of(&place, "old", nonce),
        new: beside_of(&place, "new", nonce),
        was_there: fs::symlink_metadata(&place).is_ok(),
        made: Made::NotYet,
        place,
        restored,
    });
    (swaps.collect(), names, warnings)
}

/// Brings all that is to be moved to the file systems of their places, and says what each is from then on.
pub fn near(swaps: Vec<Replaced>) -> Result<Vec<Replaced>, Error> {
    let complete = |replaced: Replaced| {
        bring_near(&replaced)?;
        let made = if replaced.restored.is_some() { swap::made(&replaced.new)? } else { replaced.made };
        Ok(Replaced { made, ..replaced })
    };
    swaps.into_iter().map(complete).collect()
}

fn bring_near(swap: &Replaced) -> Result<(), Error> {
    let Replaced { new, restored: Some(restored), .. } = swap else { return Ok(()) };
    match fs::rename(restored, new) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            match fs::metadata(restored).is_ok_and(|found| found.is_dir()) {
                true => Copier::default().folder(restored, new, &|_| false)?,
                false => copy::file(restored, new)?,
            }
            // What was there before goes when this is in its place.
            let copied = File::open(new).at("cannot open", new)?;
            syncfs(&copied).map_err(io::Error::from).at("cannot flush", new)
        }
        renamed => renamed.at("cannot move", restored),
    }
}
