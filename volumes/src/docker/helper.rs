//! `Helper` is a container of our own that is never started: through it the daemon reads and writes a volume.
//! `TemporaryImage` is the image of a container while it is read.
//!
//! Both have a name that only we give, and a note, so that neither stays behind a process that was killed.

use std::collections::HashMap;

use bollard::{
    models::{ContainerConfig, ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions},
    query_parameters::{
        CommitContainerOptionsBuilder, CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder,
        UploadToContainerOptionsBuilder,
    },
};
use bytes::Bytes;
use engine::failure::Failure;
use futures::Stream;
use store::id::{Nonce, random};

use super::{
    changes::{HELPER, MARK},
    connection::Docker,
    containers::Container,
    labels::OURS,
    notes::{HeldNote, Note, Notes, Undo},
    problem::failure,
};

/// What temporary images are called.
pub(super) const REPOSITORY: &str = "pstore-temporary";
/// Where a helper has the volume.
const PLACE: &str = "/pstore-volume";

/// A container that is never started, with one volume.
#[derive(Debug)]
pub struct Helper {
    docker: Docker,
    name: String,
    volume: String,
    note: HeldNote,
}

/// An image that was made of a container, and goes when it was read.
#[derive(Debug)]
pub struct TemporaryImage {
    docker: Docker,
    /// The image's id.
    pub id: String,
    tag: String,
    note: HeldNote,
}

impl Docker {
    /// Makes a helper of `image`, any that is there, with `volume` to read or to write.
    #[crate::boxed]
    pub async fn helper(&self, image: &str, volume: &str, notes: &Notes) -> Result<Helper, Failure> {
        let name = format!("pstore-helper-{}", Nonce::from_bytes(random()));
        let note = notes.write(Note {
            host: self.host.clone(),
            undo: Undo::Container { name: name.clone(), mark: None },
        })?;
        let helper = Helper { docker: self.clone(), name, volume: volume.to_owned(), note };
        match helper.create(image).await {
            Ok(()) => Ok(helper),
            Err(failure) => {
                helper.remove().await?;
                Err(failure)
            }
        }
    }

    /// Makes an image of a container as it is now; the caller has brought it to rest.
    #[crate::boxed]
    pub async fn commit(&self, container: &Container, notes: &Notes) -> Result<TemporaryImage, Failure> {
        let nonce = Nonce::from_bytes(random()).to_string();
        let tag = format!("{REPOSITORY}:{nonce}");
        let note = notes.write(Note { host: self.host.clone(), undo: Undo::Image { tag: tag.clone() } })?;
        let options = CommitContainerOptionsBuilder::default()
            .container(&container.id)
            .repo(REPOSITORY)
            .tag(&nonce)
            .pause(false)
            .build();
        let config = container.described.config.clone().unwrap_or_default();
        let mut config = ContainerConfig { image: None, ..config };
        // What the container's maker says of it is not said of the image. The daemon would add what is not there.
        if let (Some(labels), Some(of_image)) = (&mut config.labels, self.image_labels(container).await) {
            for (name, value) in labels {
                if name.starts_with(OURS) && !of_image.contains_key(name) {
                    value.clear();
                }
            }
        }
        match self.api.commit_container(options, config).await {
            Ok(made) => Ok(TemporaryImage { docker: self.clone(), id: made.id, tag, note }),
            Err(error) => {
                self.remove_temporary_image(&tag).await?;
                note.remove();
                Err(failure(&format!("cannot make an image of {}", container.name), &error))
            }
        }
    }
}

impl Docker {
    /// An image as `docker save` writes it.
    pub fn save_image(&self, id: &str) -> impl Stream<Item = Result<Bytes, Failure>> + use<> {
        let stream = self.api.export_image(id);
        futures::TryStreamExt::map_err(stream, |error| failure("cannot read the image", &error))
    }
}

impl Helper {
    /// What the volume's root is called in a stream to [`Self::write`].
    pub const ROOT: &str = "pstore-volume";

    async fn create(&self, image: &str) -> Result<(), Failure> {
        let mount = Mount {
            target: Some(PLACE.to_owned()),
            source: Some(self.volume.clone()),
            typ: Some(MountType::VOLUME),
            // Else the daemon would fill an empty volume with what the image has there.
            volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..Default::default() }),
            ..Default::default()
        };
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            cmd: Some(vec!["never-started".to_owned()]),
            labels: Some(HashMap::from([(HELPER.to_owned(), self.volume.clone())])),
            host_config: Some(HostConfig {
                mounts: Some(vec![mount]),
                network_mode: Some("none".to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        };
        let options = CreateContainerOptionsBuilder::default().name(&self.name).build();
        let created = self.docker.api.create_container(Some(options), body).await;
        created.map(drop).map_err(|error| {
            failure(&format!("cannot make a helper container for the volume {}", self.volume), &error)
        })
    }

    /// What the volume holds, as a tar stream.
    pub fn read(&self) -> impl Stream<Item = Result<Bytes, Failure>> + use<> {
        let options = DownloadFromContainerOptionsBuilder::default().path(&format!("{PLACE}/.")).build();
        let stream = self.docker.api.download_from_container(&self.name, Some(options));
        let doing = format!("cannot read the volume {}", self.volume);
        futures::TryStreamExt::map_err(stream, move |error| failure(&doing, &error))
    }

    /// Unpacks a tar stream into the volume, whose root is [`Self::ROOT`] in the stream: a link that leads out of the
    /// directory to which a stream is unpacked is refused, and one out of a volume is nobody's harm.
    pub async fn write(
        &self,
        tar: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<(), Failure> {
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let body = bollard::body_try_stream(tar);
        let written = self.docker.api.upload_to_container(&self.name, Some(options), body).await;
        written.map_err(|error| failure(&format!("cannot write the volume {}", self.volume), &error))
    }

    /// Removes it; the volume stays.
    #[crate::boxed]
    pub async fn remove(self) -> Result<(), Failure> {
        self.docker.remove_container(&self.name).await?;
        self.note.remove();
        Ok(())
    }
}

/// Tells what one command has made at a daemon from what others give the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(pub(super) String);

impl Mark {
    /// A mark that nothing has yet.
    pub fn unused() -> Self {
        Self(Nonce::from_bytes(random()).to_string())
    }

    /// The label to give.
    pub fn label(&self) -> (String, String) {
        (MARK.to_owned(), self.0.clone())
    }

    /// Whether something that has these labels has the mark.
    pub fn is_on(&self, labels: &HashMap<String, String>) -> bool {
        labels.get(MARK) == Some(&self.0)
    }
}

/// Something that was made at the daemon, and goes again unless it is kept.
#[derive(Debug)]
#[must_use = "it goes unless it is kept"]
pub struct Provisional {
    docker: Docker,
    note: HeldNote,
}

impl Docker {
    /// A container of this name and mark is about to be made.
    pub fn provisional_container(
        &self,
        name: &str,
        mark: &Mark,
        notes: &Notes,
    ) -> Result<Provisional, Failure> {
        self.provisional(Undo::Container { name: name.to_owned(), mark: Some(mark.0.clone()) }, notes)
    }

    /// An image of this name is about to be made.
    pub fn provisional_image(&self, tag: &str, notes: &Notes) -> Result<Provisional, Failure> {
        self.provisional(Undo::Image { tag: tag.to_owned() }, notes)
    }

    /// A volume of this name and mark is about to be made.
    pub fn provisional_volume(&self, name: &str, mark: &Mark, notes: &Notes) -> Result<Provisional, Failure> {
        self.provisional(Undo::Volume { name: name.to_owned(), mark: Some(mark.0.clone()) }, notes)
    }

    fn provisional(&self, undo: Undo, notes: &Notes) -> Result<Provisional, Failure> {
        let note = notes.write(Note { host: self.host.clone(), undo })?;
        Ok(Provisional { docker: self.clone(), note })
    }
}

impl Provisional {
    /// It stays.
    pub fn keep(self) {
        self.note.remove();
    }

    /// Removes it.
    #[crate::boxed]
    pub async fn undo(self) -> Result<(), Failure> {
        self.docker.undo(&self.note.note.undo).await?;
        self.note.remove();
        Ok(())
    }
}

impl TemporaryImage {
    /// The image as `docker save` writes it.
    pub fn read(&self) -> impl Stream<Item = Result<Bytes, Failure>> + use<> {
        self.docker.save_image(&self.id)
    }

    /// Removes it.
    #[crate::boxed]
    pub async fn remove(self) -> Result<(), Failure> {
        self.docker.remove_temporary_image(&self.tag).await?;
        self.note.remove();
        Ok(())
    }
}
