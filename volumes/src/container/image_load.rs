//! `load` gives a stored image to a daemon, which may be another one than it came from.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use bollard::query_parameters::ImportImageOptions;
use engine::failure::Failure;
use futures::TryStreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};
use store::{
    Error, ErrorKind,
    archive::{
        header::{Header, MemberKind},
        members::END,
        padding,
    },
};

use super::{compose, top_layer::hex};
use crate::docker::{Docker, failure, stream_of};

/// Loads the image of the snapshot that was written to `directory`, and names it `repository:tag`. Says its id.
pub(super) async fn load(
    docker: &Docker,
    directory: &Path,
    (repository, tag): (&str, &str),
) -> Result<String, Failure> {
    let config = read(&directory.join(compose::CONFIG))?;
    let digest: [u8; 32] = Sha256::digest(&config).into();
    let name = format!("{}.json", hex(&digest));
    let mut layers = Vec::new();
    let folder = directory.join(compose::LAYERS);
    for entry in fs::read_dir(&folder).map_err(|error| Error::io("cannot read", &folder, error))? {
        layers.push(entry.map_err(|error| Error::io("cannot read", &folder, error))?.path());
    }
    layers.sort_unstable();
    let reference = format!("{repository}:{tag}");
    let listed: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    let manifest = json!([{ "Config": name, "RepoTags": [reference], "Layers": listed }]);
    let manifest = manifest.to_string().into_bytes();
    let body = stream_of(move |out| {
        member(out, &name, config.len() as u64, &mut config.as_slice())?;
        for (layer, listed) in layers.iter().zip(&listed) {
            let mut file = File::open(layer)?;
            let len = file.metadata()?.len();
            member(out, listed, len, &mut file)?;
        }
        member(out, "manifest.json", manifest.len() as u64, &mut manifest.as_slice())?;
        out.write_all(&END)
    });
    let options = ImportImageOptions { quiet: true, ..Default::default() };
    let doing = "cannot load the image of the snapshot";
    let answers = docker.api.import_image_stream(options, body, None);
    let loaded: Result<Vec<_>, _> = answers.try_collect().await;
    loaded.map_err(|error| failure(doing, &error))?;
    let found = docker.api.inspect_image(&reference).await.map_err(|error| failure(doing, &error))?;
    found.id.ok_or_else(|| Failure::internal("the daemon does not say the id of the image"))
}

fn member(out: &mut dyn Write, path: &str, size: u64, content: &mut dyn Read) -> io::Result<()> {
    let header = Header { mode: 0o644, size, ..Header::new(path.as_bytes(), MemberKind::File) };
    out.write_all(&header.encode())?;
    let copied = io::copy(&mut content.take(size), out)?;
    if copied != size {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    out.write_all(&[0; 512][..padding(size)])
}

/// A small file of the snapshot.
pub(super) fn read(path: &PathBuf) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Failure::new(
                ErrorKind::IntegrityFailed,
                format!("this is no snapshot of a container: it has no {name}"),
            )
            .hint("`pstore container list` shows the snapshots of containers")
        }
        _ => Error::io("cannot read", path, error).into(),
    })
}
