//! `gather` brings the state of a project together in a folder that can be stored.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use engine::failure::Failure;
use store::{content::workers::blocking, error::IoContext};
use tokio::sync::RwLockReadGuard;

use super::{
    FILES, VOLUMES,
    copy::Copier,
    digest,
    file::Project,
    metadata::{Consistency, PostgresDump, SqliteCopy, VolumeFormat, VolumeManifest},
    postgres, sqlite,
    volume::VolumeKind,
};

/// What was gathered of the volumes.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The copies of databases of SQLite by their volumes.
    pub sqlite: BTreeMap<String, Vec<SqliteCopy>>,
    /// The dumps of databases of Postgres by their volumes.
    pub postgres: BTreeMap<String, Vec<PostgresDump>>,
}

/// Copies files and generic volumes to `workspace`. A copy goes on after its save was given up, and shares
/// `sqlite::OPEN_FILES` for as long.
#[crate::boxed]
pub async fn folders(
    project: &Project,
    workspace: &Path,
    shared: RwLockReadGuard<'static, ()>,
) -> Result<(), Failure> {
    let (project, workspace) = (project.clone(), workspace.to_owned());
    let copying = blocking(move || {
        let _shared = shared;
        let volumes = workspace.join(VOLUMES);
        DirBuilder::new().mode(0o700).create(&volumes).at("cannot make", &volumes)?;
        let files = project.state.join(FILES);
        if fs::symlink_metadata(&files).is_ok() {
            Copier::default().folder(&files, &workspace.join(FILES), &|_| false)?;
        }
        for (name, volume) in &project.volumes {
            if let VolumeKind::Generic { .. } = volume.kind {
                Copier::default().folder(&volume.path, &volumes.join(name), &|_| false)?;
            }
        }
        Ok(())
    });
    Ok(copying.await?)
}

/// Copies and dumps databases to `workspace`, while those run who write to them: one that rests in the middle of a
/// transaction would keep a copy waiting.
#[crate::boxed]
pub async fn databases(project: &Project, workspace: &Path) -> Result<Gathered, Failure> {
    let mut gathered = Gathered::default();
    for (name, volume) in &project.volumes {
        let to = workspace.join(VOLUMES).join(name);
        match &volume.kind {
            VolumeKind::Generic { .. } => {}
            VolumeKind::Sqlite { files, wait } => {
                let (from, files, wait) = (volume.path.clone(), files.clone(), *wait);
                let no_links = project.no_links;
                let copying = move || sqlite::copy_volume(&from, &to, (&files, wait), no_links);
                let copies = blocking(copying).await?;
                gathered.sqlite.insert(name.clone(), copies);
            }
            VolumeKind::Postgres(server) => {
                gathered.postgres.insert(name.clone(), postgres::dump(project, server, &to).await?);
            }
        }
    }
    Ok(gathered)
}

/// Flushes what services have written to the file systems of a project.
#[crate::boxed]
pub async fn flush(project: &Project) -> Result<(), Failure> {
    let project = project.clone();
    let flushing = blocking(move || {
        let volumes = project.volumes.values().map(|volume| &volume.path);
        for path in [&project.state].into_iter().chain(volumes).filter(|path| path.exists()) {
            let folder = File::open(path).at("cannot open", path)?;
            rustix::fs::syncfs(&folder).at("cannot flush", path)?;
        }
        Ok(())
    });
    Ok(flushing.await?)
}

/// The manifests of the volumes, and the digest over all.
#[crate::boxed]
pub async fn manifests(
    project: &Project,
    workspace: &Path,
    gathered: Gathered,
) -> Result<(BTreeMap<String, VolumeManifest>, String), Failure> {
    let (project, workspace) = (project.clone(), workspace.to_owned());
    let computing = blocking(move || {
        let mut manifests = BTreeMap::new();
        for (name, volume) in &project.volumes {
            let content = digest::of_folder(&workspace.join(VOLUMES).join(name))?;
            let (consistency, format) = match volume.kind {
                VolumeKind::Sqlite { .. } => (Consistency::Sqlite, VolumeFormat::SqliteCopy),
                VolumeKind::Postgres(_) => (Consistency::Postgres, VolumeFormat::PgDump),
                VolumeKind::Generic { .. } => (Consistency::Generic, VolumeFormat::Tree),
            };
            let sqlite = gathered.sqlite.get(name).cloned().unwrap_or_default();
            let postgres = gathered.postgres.get(name).cloned().unwrap_or_default();
            let (size, digest) = (content.size, content.digest);
            let manifest = VolumeManifest { consistency, format, size, digest, sqlite, postgres };
            manifests.insert(name.clone(), manifest);
        }
        Ok((manifests, digest::content(&workspace, &[FILES, VOLUMES])?.digest))
    });
    Ok(computing.await?)
}
