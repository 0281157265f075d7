//! `places` checks where the parts of a project lie: no part inside another, and none that is forgotten.

use std::{
    fs,
    path::{Path, PathBuf},
};

use engine::failure::Failure;
use store::{ErrorKind, error::IoContext};

use super::{
    FILES, VOLUMES,
    file::{Project, Service},
    fixed::{require_fixed, require_fixed_file},
    volume::VolumeKind,
};

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

/// Refuses parts that other users of this host could put links in the place of, and services whose processes they could
/// name.
pub fn require_fixed_places(project: &Project) -> Result<(), Failure> {
    require_fixed(&project.state)?;
    let files = project.state.join(FILES);
    if fs::symlink_metadata(&files).is_ok() {
        require_fixed(&files)?;
    }
    for (_, path) in folders(project) {
        require_fixed(path)?;
    }
    // Whoever writes such a file chooses which process is stopped.
    for service in project.services.values() {
        if let Service::Process { pid_file } = service {
            require_fixed_file(pid_file)?;
        }
    }
    Ok(())
}

/// Warnings of what stands among the project's volumes and is none, for a state that is saved: nothing here fails it.
pub fn left_out(project: &Project) -> Vec<String> {
    let told = |path: &PathBuf| {
        let path = path.display();
        format!("{path} belongs to no volume, and is not saved: write a table for it into the project file")
    };
    match forgotten(project) {
        Ok(paths) => paths.iter().map(told).collect(),
        Err(failure) => {
            vec![format!("whether something belongs to no volume is not known: {}", failure.message)]
        }
    }
}

/// What stands among the project's volumes, and is none.
fn forgotten(project: &Project) -> Result<Vec<PathBuf>, Failure> {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_service_whose_process_others_could_name_is_refused_for_callers() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let (state, pid_file) = (root.join("current"), root.join("current/web.pid"));
        fs::create_dir(&state).unwrap();
        mode(&state, 0o755);
        fs::write(&pid_file, "1234").unwrap();
        mode(&pid_file, 0o644);
        let text = "name = \"acme/shop\"\nstate = \"current\"\n\n[services.web]\npid_file = \"web.pid\"\n";
        let project = Project::parse(&root.join("shop.toml"), text).unwrap();
        require_fixed_places(&project).unwrap();
        mode(&pid_file, 0o666);
        let refused = require_fixed_places(&project).unwrap_err();
        assert!(refused.message.contains("web.pid is not followed for callers"), "{}", refused.message);
        mode(&pid_file, 0o644);
        mode(&state, 0o777);
        require_fixed_places(&project).unwrap_err();
    }
}
