//! `parts` puts together what goes into a container's snapshot, from the files that were copied to this host and from the
//! snapshot before.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::failure::Failure;
use serde_json::Value;
use store::{Error, ErrorKind, format::tree::TreePath, ops::archive::import::Carried};

use super::{
    base_image::BaseImage,
    compose::{LAYERS, LayerPart, Parts},
    description::ContainerDescription,
    image_archive::{ImageArchive, Layer},
    layer_writer::WrittenLayer,
    top_layer,
};

/// Where the image is that the daemon has sent.
pub(super) const IMAGE_FILE: &str = "image.tar";
/// Where the layer of the container's own changes is, if it was written here.
pub(super) const TOP_FILE: &str = "top-layer.tar";

/// The layers of the snapshot before, by their digests, with the paths that they have there.
pub(super) type StoredLayers = HashMap<String, TreePath>;

/// An image with the layers that make it up.
#[derive(Clone)]
pub(super) struct ImageParts {
    /// Its configuration.
    config: Vec<u8>,
    /// Its layers by their digests, the lowest first.
    layers: Vec<(String, LayerSource)>,
}

/// Where the content of a layer is.
#[derive(Clone)]
enum LayerSource {
    /// In the snapshot before, at this path.
    Stored(TreePath),
    /// In what the daemon has sent.
    Sent(Arc<ImageArchive>, Layer),
    /// In a file that was written here, with this length.
    Written(PathBuf, u64),
}

/// The layers of a snapshot that has this description.
pub(super) fn stored_layers(description: &ContainerDescription) -> StoredLayers {
    let paths = description.image.layers.iter().enumerate().filter_map(|(number, digest)| {
        Some((digest.clone(), TreePath::new(layer_path(number, digest).into_bytes()).ok()?))
    });
    paths.collect()
}

impl ImageParts {
    /// The image of a container that the daemon has made and sent, whose layers have no more than `most` bytes. What is not
    /// stored is left out of its last layer.
    pub fn committed((scratch, most): (&Path, u64)) -> Result<Self, Failure> {
        let image = Arc::new(ImageArchive::open(&scratch.join(IMAGE_FILE), most)?);
        let mut config: Value = serde_json::from_slice(&image.config)
            .map_err(|error| bad(&format!("its configuration cannot be read: {error}")))?;
        let digests = config.pointer_mut("/rootfs/diff_ids").and_then(Value::as_array_mut);
        let digests = digests.ok_or_else(|| bad("its configuration names no layers"))?;
        if digests.len() != image.layers.len() || digests.is_empty() {
            return Err(bad("its configuration and its layers do not fit together"));
        }
        let top = scratch.join(TOP_FILE);
        let changed = top_layer::without_excluded(&image, &image.layers[image.layers.len() - 1], &top)?;
        if let (Some(digest), Some(last)) = (&changed, digests.last_mut()) {
            *last = Value::String(format!("sha256:{digest}"));
        }
        let named = digests.iter().map(|digest| digest.as_str().unwrap_or_default().to_owned());
        let places = image.layers.iter().map(|layer| LayerSource::Sent(Arc::clone(&image), layer.clone()));
        let mut layers: Vec<_> = named.zip(places).collect();
        let config = match changed {
            Some(_) => {
                let len = fs::metadata(&top).map_err(|error| Error::io("cannot read", &top, error))?.len();
                if let Some((_, last)) = layers.last_mut() {
                    *last = LayerSource::Written(top, len);
                }
                serde_json::to_vec(&config).map_err(|error| Failure::internal(error.to_string()))?
            }
            None => image.config.clone(),
        };
        Ok(Self { config, layers })
    }

    /// The image of a container whose own changes were written here. The layers below are in the snapshot before, or in what
    /// the daemon has sent.
    pub fn written(
        (scratch, most): (&Path, u64),
        (image, config): (&BaseImage, Vec<u8>),
        top: &WrittenLayer,
        stored: &StoredLayers,
    ) -> Result<Self, Failure> {
        let sent = match image.layers.iter().all(|digest| stored.contains_key(digest)) {
            true => None,
            false => Some(Arc::new(ImageArchive::open(&scratch.join(IMAGE_FILE), most)?)),
        };
        if sent.as_ref().is_some_and(|sent| sent.layers.len() != image.layers.len()) {
            return Err(bad("its layers are not those that the daemon has named"));
        }
        let mut layers = Vec::new();
        for (number, digest) in image.layers.iter().enumerate() {
            let source = match (stored.get(digest), &sent) {
                (Some(path), _) => LayerSource::Stored(path.clone()),
                (None, Some(sent)) => LayerSource::Sent(Arc::clone(sent), sent.layers[number].clone()),
                (None, None) => return Err(bad("a layer is missing")),
            };
            layers.push((digest.clone(), source));
        }
        // Also of a container that has not changed since.
        let source = match stored.get(&top.digest) {
            Some(path) => LayerSource::Stored(path.clone()),
            None => LayerSource::Written(scratch.join(TOP_FILE), top.len),
        };
        layers.push((top.digest.clone(), source));
        Ok(Self { config, layers })
    }
}

/// All that goes into the snapshot, what it takes over from the one before, and the description with what is known of the
/// image by now.
pub(super) fn parts(
    image: ImageParts,
    mut description: ContainerDescription,
    volumes: Vec<(String, PathBuf)>,
    captured_at_ms: u64,
) -> Result<(Parts, Vec<Carried>, ContainerDescription), Failure> {
    description.image.layers = image.layers.iter().map(|(digest, _)| digest.clone()).collect();
    let (mut layers, mut carried) = (Vec::new(), Vec::new());
    for (number, (digest, source)) in image.layers.into_iter().enumerate() {
        let path = layer_path(number, &digest);
        layers.push(match source {
            LayerSource::Stored(from) => {
                let path = TreePath::new(path.into_bytes()).map_err(|error| bad(&error.to_string()))?;
                carried.push(Carried { from, path });
                continue;
            }
            LayerSource::Sent(image, layer) => {
                let len = layer.len();
                let content = move || image.content(&layer);
                LayerPart { path, len, digest: Some(digest), content: Box::new(content) }
            }
            LayerSource::Written(file, len) => {
                let content = move || match fs::File::open(&file) {
                    Ok(file) => {
                        Ok(Box::new(io::BufReader::with_capacity(1 << 20, file)) as Box<dyn io::Read>)
                    }
                    Err(error) => Err(Error::io("cannot read", &file, error).into()),
                };
                LayerPart { path, len, digest: None, content: Box::new(content) }
            }
        });
    }
    let internal = |error: serde_json::Error| Failure::internal(error.to_string());
    let mut document = serde_json::to_vec_pretty(&description).map_err(internal)?;
    document.write_all(b"\n").map_err(|error| Error::io("cannot write", "container.json", error))?;
    let parts = Parts { description: document, config: image.config, layers, volumes, captured_at_ms };
    Ok((parts, carried, description))
}

/// Where a layer is in the tree.
fn layer_path(number: usize, digest: &str) -> String {
    let digits: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
    format!("{LAYERS}/{number:04}-{digits}.tar")
}

fn bad(told: &str) -> Failure {
    Failure::new(ErrorKind::IntegrityFailed, format!("the daemon's image cannot be stored: {told}"))
}
