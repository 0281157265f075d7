//! `BaseImage` is the image that a container was made of, as its daemon describes it.

use bollard::models::ImageInspect;
use engine::failure::Failure;
use serde_json::{Value, json};
use store::{ErrorKind, error::utc};

use crate::docker::{Container, Docker, OURS, failure};

/// What of a container's configuration is about the container alone, and no image has.
const OF_THE_CONTAINER: [&str; 4] = ["Hostname", "Domainname", "Image", "MacAddress"];

/// The image of a container.
#[derive(Clone, Debug)]
pub(super) struct BaseImage {
    /// Its id at the daemon.
    pub id: String,
    /// The digests of its layers, the lowest first.
    pub layers: Vec<String>,
    described: ImageInspect,
}

impl BaseImage {
    /// `None` if the daemon does not have it any more, or does not name its layers.
    pub async fn of(docker: &Docker, container: &Container) -> Result<Option<Self>, Failure> {
        let Some(id) = container.described.image.clone() else { return Ok(None) };
        let described = match docker.api.inspect_image(&id).await {
            Ok(described) => described,
            Err(error) => {
                let failure = failure("cannot look at the image of the container", &error);
                return if failure.kind == ErrorKind::NotFound { Ok(None) } else { Err(failure) };
            }
        };
        let layers = described.root_fs.as_ref().and_then(|root| root.layers.clone());
        Ok(layers.map(|layers| Self { id, layers, described }))
    }

    /// The configuration of the image that has one more layer, and the configuration of a container.
    pub fn with_layer(&self, digest: &str, config: &Value, created_at_ms: u64) -> Result<Vec<u8>, Failure> {
        let mut config = config.clone();
        if let Some(fields) = config.as_object_mut() {
            fields.retain(|name, _| !OF_THE_CONTAINER.contains(&name.as_str()));
        }
        let of_image = self.described.config.as_ref().and_then(|config| config.labels.as_ref());
        if let Some(labels) = config.get_mut("Labels").and_then(Value::as_object_mut) {
            // What the container's maker says of it is not said of the image.
            labels.retain(|name, _| {
                !name.starts_with(OURS) || of_image.is_some_and(|of_image| of_image.contains_key(name))
            });
        }
        let digests: Vec<&str> = self.layers.iter().map(String::as_str).chain([digest]).collect();
        let mut whole = json!({
            "architecture": self.described.architecture,
            "os": self.described.os,
            // To the millisecond: two snapshots of a container that has not changed are two.
            "created": format!("{}.{:03}Z", utc(created_at_ms).replace(' ', "T"), created_at_ms % 1000),
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": digests },
        });
        if let (Some(variant), Some(fields)) = (&self.described.variant, whole.as_object_mut()) {
            fields.insert("variant".to_owned(), json!(variant));
        }
        serde_json::to_vec(&whole).map_err(|error| Failure::internal(error.to_string()))
    }
}
