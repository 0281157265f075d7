//! `labels` reads an image's labels, to distinguish them from those that the container's maker set.
//!
//! A daemon gives a container all labels of its image. An image may come from anybody.

use std::collections::HashMap;

use super::{connection::Docker, containers::Container};

/// How the names of labels begin that mean something to pstore.
pub const OURS: &str = "pstore.";

impl Docker {
    /// The labels of the image that a container was made of; `None` if the daemon cannot tell.
    pub async fn image_labels(&self, container: &Container) -> Option<HashMap<String, String>> {
        let image = container.described.image.as_deref()?;
        let described = self.api.inspect_image(image).await.ok()?;
        Some(described.config.and_then(|config| config.labels).unwrap_or_default())
    }
}
