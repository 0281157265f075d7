//! `parts` puts together what goes into a container's snapshot, from the files that were copied to this host.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::failure::Failure;
use serde_json::Value;
use store::{Error, ErrorKind};

use super::{
    compose::{LayerPart, Parts},
    description::ContainerDescription,
    image_archive::ImageArchive,
    top_layer,
};

/// All that goes into the snapshot, and the description with what is known of the image by now.
pub(super) fn parts(
    scratch: &Path,
    mut description: ContainerDescription,
    volumes: Vec<(String, PathBuf)>,
    captured_at_ms: u64,
) -> Result<(Parts, ContainerDescription), Failure> {
    let image = Arc::new(ImageArchive::open(&scratch.join("image.tar"))?);
    let bad = |told: &str| {
        Failure::new(ErrorKind::IntegrityFailed, format!("the daemon's image cannot be stored: {told}"))
    };
    let mut config: Value = serde_json::from_slice(&image.config)
        .map_err(|error| bad(&format!("its configuration cannot be read: {error}")))?;
    let digests = config.pointer_mut("/rootfs/diff_ids").and_then(Value::as_array_mut);
    let digests = digests.ok_or_else(|| bad("its configuration names no layers"))?;
    if digests.len() != image.layers.len() || digests.is_empty() {
        return Err(bad("its configuration and its layers do not fit together"));
    }
    let top = scratch.join("top-layer.tar");
    let last = image.layers[image.layers.len() - 1];
    let changed = top_layer::without_excluded(&image, last, &top)?;
    if let (Some(digest), Some(last)) = (&changed, digests.last_mut()) {
        *last = Value::String(format!("sha256:{digest}"));
    }
    description.image.layers =
        digests.iter().map(|digest| digest.as_str().unwrap_or_default().to_owned()).collect();
    let mut layers = Vec::new();
    for (number, (place, digest)) in image.layers.iter().zip(&description.image.layers).enumerate() {
        let place = *place;
        let name = layer_name(number, digest);
        let is_changed = number + 1 == image.layers.len() && changed.is_some();
        let (image, top) = (Arc::clone(&image), top.clone());
        layers.push(match is_changed {
            true => {
                let len =
                    std::fs::metadata(&top).map_err(|error| Error::io("cannot read", &top, error))?.len();
                let open = move || match std::fs::File::open(&top) {
                    Ok(file) => {
                        Ok(Box::new(io::BufReader::with_capacity(1 << 20, file)) as Box<dyn io::Read>)
                    }
                    Err(error) => Err(Error::io("cannot read", &top, error).into()),
                };
                LayerPart { name, len, content: Box::new(open) }
            }
            false => {
                let open = move || Ok(Box::new(image.content(place)?) as Box<dyn io::Read>);
                LayerPart { name, len: place.len, content: Box::new(open) }
            }
        });
    }
    let internal = |error: serde_json::Error| Failure::internal(error.to_string());
    let config = match changed {
        Some(_) => serde_json::to_vec(&config).map_err(internal)?,
        None => image.config.clone(),
    };
    let mut document = serde_json::to_vec_pretty(&description).map_err(internal)?;
    document.write_all(b"\n").map_err(|error| Error::io("cannot write", "container.json", error))?;
    Ok((Parts { description: document, config, layers, volumes, captured_at_ms }, description))
}

/// What a layer is called in the tree.
fn layer_name(number: usize, digest: &str) -> String {
    let digits: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
    format!("{number:04}-{digits}.tar")
}
