//! `load` gives a stored image to a daemon, which may be another one than it came from.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use bollard::query_parameters::ImportImageOptions;
use engine::failure::Failure;
use futures::TryStreamExt;
use rustix::{
    fs::{Dir, Mode, OFlags},
    io::Errno,
};
use serde_json::json;
use sha2::{Digest, Sha256};
use store::{
    Error, ErrorKind,
    archive::{
        header::{Header, MemberKind},
        members::END,
        padding,
    },
    tree::root_dir::RootDir,
};

use super::{compose, top_layer::hex};
use crate::docker::{Docker, failure, stream_of};

/// Loads the image of the snapshot that was written to `directory`, and names it `repository:tag`. Says its id.
pub(super) async fn load(
    docker: &Docker,
    directory: &Path,
    (repository, tag): (&str, &str),
) -> Result<String, Failure> {
    let root = RootDir::open(directory)?;
    let mut config = Vec::new();
    let (mut file, _) = opened(&root, compose::CONFIG)?;
    file.read_to_end(&mut config).map_err(|error| Error::io("cannot read", compose::CONFIG, error))?;
    let digest: [u8; 32] = Sha256::digest(&config).into();
    let name = format!("{}.json", hex(&digest));
    let mut layers = Vec::new();
    let unread = |error: Errno| Error::io("cannot read", compose::LAYERS, std::io::Error::from(error));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let folder = root.open_at(compose::LAYERS.as_bytes(), flags, Mode::empty());
    let folder = folder.map_err(|error| Error::io("cannot read", compose::LAYERS, error))?;
    for entry in Dir::new(folder).map_err(unread)? {
        let name = entry.map_err(unread)?.file_name().to_string_lossy().into_owned();
        if !matches!(name.as_str(), "." | "..") {
            layers.push(format!("{}/{name}", compose::LAYERS));
        }
    }
    layers.sort_unstable();
    let layers: Vec<(File, u64)> =
        layers.iter().map(|layer| opened(&root, layer)).collect::<Result<_, _>>()?;
    let reference = format!("{repository}:{tag}");
    let listed: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    let manifest = json!([{ "Config": name, "RepoTags": [reference], "Layers": listed }]);
    let manifest = manifest.to_string().into_bytes();
    let body = stream_of(move |out| {
        member(out, &name, config.len() as u64, &mut config.as_slice())?;
        for ((mut file, len), listed) in layers.into_iter().zip(&listed) {
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

/// Opens a file of the snapshot, and says how long it is. What a snapshot holds may come from anybody: a link in it leads nowhere,
/// and what is no file is not waited for.
fn opened(root: &RootDir, path: &str) -> Result<(File, u64), Failure> {
    let opened = root.open_at(path.as_bytes(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    let file = opened.map(File::from).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => no_container(&format!("it has no {path}")),
        _ => Error::io("cannot read", path, error).into(),
    })?;
    let metadata = file.metadata().map_err(|error| Error::io("cannot read", path, error))?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(no_container(&format!("{path} is no file"))),
    }
}

fn no_container(problem: &str) -> Failure {
    let message = format!("this is no snapshot of a container: {problem}");
    Failure::new(ErrorKind::IntegrityFailed, message)
        .hint("`pstore container list` shows the snapshots of containers")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_link_in_a_snapshot_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("snapshot"), folder.path().join("outside"));
        fs::create_dir_all(inside.join("image/layers")).unwrap();
        fs::create_dir_all(outside.join("layers")).unwrap();
        for secret in ["secret", "layers/0000"] {
            fs::write(outside.join(secret), "mine").unwrap();
        }
        fs::write(inside.join("image/config.json"), "{}").unwrap();
        symlink(outside.join("secret"), inside.join("image/layers/0000-link.tar")).unwrap();
        symlink(&outside, inside.join("image/around")).unwrap();
        let root = RootDir::open(&inside).unwrap();
        assert_eq!(opened(&root, "image/config.json").unwrap().1, 2);
        for path in ["image/layers/0000-link.tar", "image/around/secret", "image/layers", "image/absent"] {
            opened(&root, path).unwrap_err();
        }
    }
}
