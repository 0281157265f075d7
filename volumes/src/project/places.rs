//! `places` checks where the parts of a project lie: no part inside another, and none that is forgotten.

use std::{
    fs,
    path::{Path, PathBuf},
};

use engine::failure::Failure;
use store::{ErrorKind, error::IoContext};

use super::{FILES, VOLUMES, file::Project, fixed::require_fixed, volume::VolumeKind};

/// Refuses parts of which one lies inside the other: it would be saved twice, and a restore could not put both back.
pub fn require_apart(project: &Project) -> Result<(), Failure> {
    let mut parts = Vec::new();
    let files = project.state.join(FILES);
    if files.exists() {
        parts.push((format!("{}/{FILES}", project.state.display()), real(&files)?));
    }
    for (name, path) in folders(project) {
        parts.push((format!("volume {name:?}"), real(path)?));
    }
    for (at, (inner, path)) in parts.iter().enumerate() {
        for (other, (outer, around)) in parts.iter().enumerate() {
            if at != other && path.starts_with(around) {
                let message = format!("{inner} lies inside {outer}: {}", path.display());
                return Err(Failure::new(ErrorKind::InvalidInput, message).hint(format!(
                    "all of {outer} is saved with it; move {inner} elsewhere, or remove its table from {}",
                    project.file.display()
                )));
            }
        }
    }
    Ok(())
}

/// Refuses parts that other users of this host could put links in the place of.
pub fn require_fixed_places(project: &Project) -> Result<(), Failure> {
    require_fixed(&project.state)?;
    let files = project.state.join(FILES);
    if fs::symlink_metadata(&files).is_ok() {
        require_fixed(&files)?;
    }
    for (_, path) in folders(project) {
        require_fixed(path)?;
    }
    Ok(())
}

/// What stands among the project's volumes, and is none.
pub fn forgotten(project: &Project) -> Result<Vec<PathBuf>, Failure> {
    let folder = project.state.join(VOLUMES);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let known = folders(project).map(|(_, path)| real(path)).collect::<Result<Vec<_>, _>>()?;
    let mut forgotten = Vec::new();
    for entry in fs::read_dir(&folder).at("cannot read", &folder)? {
        let path = entry.at("cannot read", &folder)?.path();
        // A link that leads nowhere, or to itself, is where it is.
        let found = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let is_left_over =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".pstore-"));
        if !is_left_over && !known.iter().any(|known| known.starts_with(&found)) {
            forgotten.push(path);
        }
    }
    forgotten.sort_unstable();
    Ok(forgotten)
}

/// The volumes that are folders.
fn folders(project: &Project) -> impl Iterator<Item = (&String, &Path)> {
    let is_folder = |kind: &VolumeKind| !matches!(kind, VolumeKind::Postgres(_));
    let volumes = project.volumes.iter().filter(move |(_, volume)| is_folder(&volume.kind));
    volumes.map(|(name, volume)| (name, volume.path.as_path()))
}

fn real(path: &Path) -> Result<PathBuf, Failure> {
    // A link that leads nowhere is where it is.
    match fs::canonicalize(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(path.to_owned()),
        found => Ok(found.at("cannot find", path)?),
    }
}
