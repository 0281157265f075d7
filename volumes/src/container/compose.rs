//! `compose` writes the tree of a container's snapshot as one tar stream: `container.json`, the image, the volumes.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Write},
    path::{Path, PathBuf},
};

use engine::failure::Failure;
use sha2::{Digest, Sha256};
use store::{
    Error, ErrorKind,
    archive::{
        members::{self, Times},
        padding,
        reader::{Limits, Reader, What},
    },
    format::tree::{Entry, Kind, Meta, Time, TreePath},
};

use super::{image_archive::problem, top_layer::hex};

/// The document that describes the container.
pub(super) const DESCRIPTION: &str = "container.json";
/// The image's configuration.
pub(super) const CONFIG: &str = "image/config.json";
/// The image's layers, the lowest first.
pub(super) const LAYERS: &str = "image/layers";
/// The volumes, each in a directory of its name.
pub(super) const VOLUMES: &str = "volumes";

const ZEROS: [u8; 512] = [0; 512];

pub(super) type LayerContent = Box<dyn FnOnce() -> Result<Box<dyn Read>, Failure> + Send>;

/// All that goes into a snapshot.
pub(super) struct Parts {
    pub description: Vec<u8>,
    pub config: Vec<u8>,
    pub layers: Vec<LayerPart>,
    /// The name of each volume, and its content as the daemon sent it.
    pub volumes: Vec<(String, PathBuf)>,
    pub captured_at_ms: u64,
}

/// A layer on its way into a snapshot.
pub(super) struct LayerPart {
    pub path: String,
    pub len: u64,
    /// What the SHA-256 of its content must be, as `sha256:` and digits; `None` of what was written here a moment ago.
    pub digest: Option<String>,
    pub content: LayerContent,
}

/// What was left out of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VolumeCount {
    pub files: u64,
    pub bytes: u64,
    pub left_out: u64,
}

/// Writes all of it. Says what is in each volume.
pub(super) fn compose(parts: Parts, out: impl Write) -> Result<HashMap<String, VolumeCount>, Failure> {
    let time = Time { seconds: (parts.captured_at_ms / 1000) as i64, nanos: 0 };
    let mut tar = TarWriter { out };
    let meta = |mode| Meta { mode, mtime: time, ..Meta::default() };
    tar.directory("", meta(0o700))?;
    tar.file(DESCRIPTION, meta(0o600), parts.description.len() as u64, &mut parts.description.as_slice())?;
    tar.directory("image", meta(0o700))?;
    tar.file(CONFIG, meta(0o600), parts.config.len() as u64, &mut parts.config.as_slice())?;
    tar.directory(LAYERS, meta(0o700))?;
    for layer in parts.layers {
        tar.layer(layer, meta(0o600))?;
    }
    tar.directory(VOLUMES, meta(0o700))?;
    let mut counts = HashMap::new();
    for (name, spooled) in parts.volumes {
        let count = tar.volume(&name, &spooled)?;
        counts.insert(name, count);
    }
    tar.out.write_all(&members::END).and_then(|()| tar.out.flush()).map_err(cut_short)?;
    Ok(counts)
}

struct TarWriter<W> {
    out: W,
}

impl<W: Write> TarWriter<W> {
    fn directory(&mut self, path: &str, meta: Meta) -> Result<(), Failure> {
        self.head(&Entry { path: tree_path(path.as_bytes())?, meta, kind: Kind::Directory })
    }

    fn file(&mut self, path: &str, meta: Meta, size: u64, content: &mut dyn Read) -> Result<(), Failure> {
        let kind = Kind::File { size, extents: Vec::new() };
        self.head(&Entry { path: tree_path(path.as_bytes())?, meta, kind })?;
        self.content(path, size, content)
    }

    /// A layer is taken over by later snapshots by its digest alone. So that is checked.
    fn layer(&mut self, layer: LayerPart, meta: Meta) -> Result<(), Failure> {
        let content = (layer.content)()?;
        let Some(expected) = layer.digest else {
            return self.file(&layer.path, meta, layer.len, &mut { content });
        };
        let mut content = Hashed { content, hasher: Sha256::new() };
        self.file(&layer.path, meta, layer.len, &mut content)?;
        let found: [u8; 32] = content.hasher.finalize().into();
        match format!("sha256:{}", hex(&found)) == expected {
            true => Ok(()),
            false => {
                let message =
                    format!("the daemon's image cannot be stored: a layer is not {expected}, as it is named");
                Err(Failure::new(ErrorKind::IntegrityFailed, message)
                    .hint("`docker pull` gets a damaged image again"))
            }
        }
    }

    /// A volume, whose content comes from anybody: every path is checked, and put below the volume's directory.
    fn volume(&mut self, name: &str, spooled: &Path) -> Result<VolumeCount, Failure> {
        let file = File::open(spooled).map_err(|error| Error::io("cannot read", spooled, error))?;
        let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file), Limits::of(u64::MAX));
        let root = format!("{VOLUMES}/{name}");
        let (mut count, mut has_root) = (VolumeCount::default(), false);
        let below = |path: &TreePath| match path.is_root() {
            true => tree_path(root.as_bytes()),
            false => tree_path(&[root.as_bytes(), b"/", path.as_bytes()].concat()),
        };
        while let Some(member) = reader.next_member().map_err(problem)? {
            let path = below(&member.path)?;
            has_root |= member.path.is_root();
            let kind = match member.what {
                What::File { size, .. } => Kind::File { size, extents: Vec::new() },
                What::Directory => Kind::Directory,
                What::Symlink { target } => Kind::Symlink { target },
                What::HardLink { target } => Kind::HardLink { target: below(&target)? },
                What::Fifo | What::Device => {
                    count.left_out += 1;
                    continue;
                }
            };
            let size = match &kind {
                Kind::File { size, .. } => Some(*size),
                _ => None,
            };
            let shown = path.to_string();
            self.head(&Entry { path, meta: member.meta, kind })?;
            if let Some(size) = size {
                count.files += 1;
                count.bytes += size;
                self.content(&shown, size, &mut reader.content())?;
            }
        }
        if !has_root {
            self.directory(&root, Meta { mode: 0o755, ..Meta::default() })?;
        }
        Ok(count)
    }

    fn head(&mut self, entry: &Entry) -> Result<(), Failure> {
        let Some(head) = members::head(entry, &entry.meta, Times::Exact) else { return Ok(()) };
        self.out.write_all(&head).map_err(cut_short)
    }

    fn content(&mut self, path: &str, size: u64, content: &mut dyn Read) -> Result<(), Failure> {
        let copied = io::copy(&mut content.take(size), &mut self.out).map_err(cut_short)?;
        if copied != size {
            let message = format!("{path} has {copied} bytes, and was to have {size}");
            return Err(Failure::new(ErrorKind::IntegrityFailed, message));
        }
        self.out.write_all(&ZEROS[..padding(size)]).map_err(cut_short)
    }
}

struct Hashed {
    content: Box<dyn Read>,
    hasher: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.content.read(buffer)?;
        self.hasher.update(&buffer[..got]);
        Ok(got)
    }
}

fn tree_path(path: &[u8]) -> Result<TreePath, Failure> {
    TreePath::new(path.to_vec()).map_err(|error| {
        let shown = path[..path.len().min(256)].escape_ascii();
        Failure::new(ErrorKind::IntegrityFailed, format!("{shown} cannot be stored: {error}"))
    })
}

fn cut_short(error: io::Error) -> Failure {
    Error::io("cannot hand on", "the tree of the snapshot", error).into()
}
