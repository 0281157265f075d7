//! `SnapshotJob` stores a container under the lock of its snapshots: it copies it to this host while it rests, and stores the copy
//! when it goes on.
//!
//! Where the daemon keeps its files on this host, the changes of the container are read from there, and the daemon makes no
//! image. Of the layers below, those that the snapshot before has are taken over from it and not read at all.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{Engine, failure::Failure, foreign, threads};
use store::{
    Error, ErrorKind,
    catalog::lock::Hold,
    content::{TenantStore, workers::blocking},
    format::{
        event::Actor,
        record::{Reason, Record},
    },
    name::Lineage,
    ops::{
        archive::import::{self, Form, Imported},
        pointer_move,
        read::resolve,
        write::snapshot::About,
    },
    scratch::{Kind, Scratch},
};

use super::{
    base_image::BaseImage,
    compose::{self, VolumeCount},
    cutoff::Cutoff,
    description::{ContainerDescription, Said, Trigger},
    layer_writer::WrittenLayer,
    names,
    parts::{IMAGE_FILE, ImageParts, StoredLayers, TOP_FILE, parts, stored_layers},
    show,
    snapshot_request::ContainerSnapshotRequest,
    upper_layer::{sees_attributes_of_overlays, write_upper_layer},
};
use crate::docker::{Container, Docker, Notes, Rest, TemporaryImage, failure, spool, went_on};

/// The only driver whose folders are read: it keeps what a container has changed in one of its own.
const DRIVER: &str = "overlay2";
/// Where that driver says which folder that is.
const UPPER: &str = "UpperDir";
/// Ways to run a daemon in which the owners of files on its host are others than in its containers.
const MAPPED: [&str; 2] = ["name=userns", "name=rootless"];

/// The work on a snapshot.
pub(super) struct SnapshotJob<'a> {
    pub engine: &'a Engine,
    pub request: &'a ContainerSnapshotRequest,
    pub docker: &'a Docker,
    pub notes: &'a Notes,
    pub container: &'a Container,
    pub cutoff: &'a Cutoff<'a>,
    pub tenant: &'a TenantStore,
    pub lineage: Lineage,
    pub actor: Actor,
}

/// A snapshot that was stored.
pub(super) struct Stored {
    pub imported: Imported,
    pub description: ContainerDescription,
    pub counts: HashMap<String, VolumeCount>,
    pub paused: Duration,
    pub warnings: Vec<String>,
}

/// Where the changes of the container are on this host, and the image below them.
#[derive(Clone)]
struct OnThisHost {
    upper: PathBuf,
    image: BaseImage,
}

/// What was copied of the container while it rested.
struct Copied {
    image: CopiedImage,
    /// Each volume, and the file that has its content.
    volumes: Volumes,
    /// How many bytes all of that takes on this host.
    bytes: u64,
}

type Volumes = Vec<(String, PathBuf)>;

enum CopiedImage {
    /// The daemon has made one, which is to be read.
    Committed(Box<TemporaryImage>),
    /// The changes were written to a file.
    Written(Box<BaseImage>, WrittenLayer),
}

impl SnapshotJob<'_> {
    pub async fn store(&self, hold: &Arc<Hold>) -> Result<Stored, Failure> {
        let root = self.engine.cache_root.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = Scratch::make(&root, Kind::Import)?;
        let said = Said {
            trigger: self.request.trigger,
            description: &self.request.description,
            run_id: self.request.actor.run_id.as_deref().filter(|id| !id.is_empty()),
        };
        let looked_at = async {
            let description = ContainerDescription::of(self.docker, self.container, said).await?;
            Ok::<_, Failure>((description, self.on_this_host().await?, self.base().await?))
        };
        let (description, on_this_host, (base, stored)) =
            self.cutoff.before_rest(Box::pin(looked_at)).await?;
        let warnings = description.warnings();
        let resting = self.docker.rest(self.container, Rest::Pause, self.notes, self.request.wait);
        let resting = self.cutoff.limited(resting).await?;
        let rests = Instant::now();
        // Another command may have had it at rest until now.
        let description = description.found_as(&resting.found);
        self.engine.step("the container rests");
        let copied =
            self.cutoff.limited(Box::pin(self.copy(&description, on_this_host, scratch.path()))).await;
        let has_rested = resting.resume().await?;
        let paused = rests.elapsed();
        self.engine.step("the container goes on");
        let Copied { image, volumes, bytes } = copied?;
        if !has_rested {
            if let CopiedImage::Committed(image) = image {
                image.remove().await?;
            }
            return Err(went_on(&self.container.name));
        }
        let captured_at_ms = hold.handle().now_ms();
        let place = (scratch.path(), bytes);
        let read = self.read_image(&image, &description, &stored, place, captured_at_ms);
        let read = self.cutoff.limited(Box::pin(read)).await;
        if let CopiedImage::Committed(image) = image {
            image.remove().await?;
            let (parts, _) = read?;
            let storing = self.import(hold, base, (parts, description, volumes), captured_at_ms);
            let (imported, description, counts) = self.cutoff.limited(Box::pin(storing)).await?;
            return Ok(Stored { imported, description, counts, paused, warnings });
        }
        let (parts, takes_over) = read?;
        let told = (parts, description.clone(), volumes.clone());
        let storing = self.import(hold, base.clone(), told, captured_at_ms);
        let (imported, description, counts) = match self.cutoff.limited(Box::pin(storing)).await {
            Err(failure) if takes_over && failure.kind == ErrorKind::Damaged => {
                // What the snapshot before has of layers cannot be taken over: the daemon has them, too.
                tracing::warn!(error = failure.message, "the layers of the container are read once more");
                let none = StoredLayers::new();
                let read = self.read_image(&image, &description, &none, place, captured_at_ms);
                let (parts, _) = self.cutoff.limited(Box::pin(read)).await?;
                let storing = self.import(hold, base, (parts, description, volumes), captured_at_ms);
                self.cutoff.limited(Box::pin(storing)).await?
            }
            stored => stored?,
        };
        Ok(Stored { imported, description, counts, paused, warnings })
    }

    /// Where the daemon keeps the changes of the container, if that can be read here.
    async fn on_this_host(&self) -> Result<Option<OnThisHost>, Failure> {
        let driver = self.container.described.graph_driver.as_ref().filter(|driver| driver.name == DRIVER);
        let Some(upper) = driver.and_then(|driver| driver.data.get(UPPER)) else { return Ok(None) };
        let Some(root) = self.docker.keeps_here(&self.container.id).await? else { return Ok(None) };
        let info = self.docker.api.info().await;
        let info = info.map_err(|error| failure("cannot ask Docker how it runs", &error))?;
        let options = info.security_options.unwrap_or_default();
        let is_mapped = options.iter().any(|option| MAPPED.iter().any(|mapped| option.starts_with(mapped)));
        if is_mapped || !sees_attributes_of_overlays() {
            return Ok(None);
        }
        let Some(upper) = root.folder(upper) else { return Ok(None) };
        let image = BaseImage::of(self.docker, self.container).await?;
        Ok(image.map(|image| OnThisHost { upper, image }))
    }

    /// The snapshot before, and its layers.
    async fn base(&self) -> Result<(Option<Record>, StoredLayers), Failure> {
        let base = match resolve::snapshot(self.tenant, &self.lineage, None).await {
            Ok(record) => record,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                return Ok((None, StoredLayers::new()));
            }
            Err(error) => return Err(error.into()),
        };
        let stored = match show::description(self.tenant, &base).await {
            Ok(description) => stored_layers(&description),
            Err(failure) => {
                tracing::warn!(error = failure.message, "the layers of the snapshot before are not known");
                StoredLayers::new()
            }
        };
        Ok((Some(base), stored))
    }

    async fn copy(
        &self,
        description: &ContainerDescription,
        on_this_host: Option<OnThisHost>,
        to: &Path,
    ) -> Result<Copied, Failure> {
        let written = match on_this_host {
            Some(OnThisHost { upper, image }) => {
                let (file, most) = (to.join(TOP_FILE), self.most_bytes());
                let written = on_a_thread(move || write_upper_layer(&upper, &file, most)).await?;
                written.map(|layer| CopiedImage::Written(Box::new(image), layer))
            }
            None => None,
        };
        let image = match written {
            Some(written) => written,
            None => CopiedImage::Committed(Box::new(self.docker.commit(self.container, self.notes).await?)),
        };
        let (id, mut bytes) = match &image {
            CopiedImage::Committed(image) => (&image.id, 0),
            CopiedImage::Written(image, layer) => (&image.id, layer.len),
        };
        let mut volumes = Vec::new();
        for (number, name) in description.volumes().into_iter().enumerate() {
            let spooled = to.join(format!("volume-{number}.tar"));
            let helper = self.docker.helper(id, &name, self.notes).await?;
            let what = format!("the volume {name}");
            let read = spool(helper.read(), &spooled, (&what, self.room_beside(bytes))).await;
            helper.remove().await?;
            bytes += read?;
            volumes.push((name, spooled));
        }
        Ok(Copied { image, volumes, bytes })
    }

    /// Asks the daemon for what neither a file nor the snapshot before has. Says whether anything is taken over from that.
    async fn read_image(
        &self,
        image: &CopiedImage,
        description: &ContainerDescription,
        stored: &StoredLayers,
        (scratch, bytes): (&Path, u64),
        created_at_ms: u64,
    ) -> Result<(ImageParts, bool), Failure> {
        let (file, folder) = (scratch.join(IMAGE_FILE), scratch.to_owned());
        let room = self.room_beside(bytes);
        let what = ("the image", room);
        match image {
            CopiedImage::Committed(image) => {
                spool(image.read(), &file, what).await?;
                self.engine.step("the daemon's image was read");
                Ok((on_a_thread(move || ImageParts::committed((&folder, room))).await?, false))
            }
            CopiedImage::Written(image, top) => {
                if !image.layers.iter().all(|digest| stored.contains_key(digest)) && !file.exists() {
                    spool(self.docker.save_image(&image.id), &file, what).await?;
                    self.engine.step("the daemon's image was read");
                }
                let digests = image.layers.iter().chain([&top.digest]);
                let takes_over = digests.into_iter().any(|digest| stored.contains_key(digest));
                let config = image.with_layer(&top.digest, &description.config, created_at_ms)?;
                let (image, top, stored) = (image.clone(), top.clone(), stored.clone());
                let parts = on_a_thread(move || {
                    ImageParts::written((&folder, room), (&image, config), &top, &stored)
                });
                Ok((parts.await?, takes_over))
            }
        }
    }

    fn most_bytes(&self) -> u64 {
        self.engine.settings.tenant(&self.lineage.name.tenant).max_profile_bytes
    }

    /// How many bytes the daemon may send beside so many that are here. Only the bytes of files are limited in the end; in a tar
    /// stream, headers and padding of small files may take as much again.
    fn room_beside(&self, bytes: u64) -> u64 {
        self.most_bytes().saturating_mul(2).saturating_sub(bytes)
    }

    async fn import(
        &self,
        hold: &Arc<Hold>,
        base: Option<Record>,
        (image, description, volumes): (ImageParts, ContainerDescription, Volumes),
        captured_at_ms: u64,
    ) -> Result<(Imported, ContainerDescription, HashMap<String, VolumeCount>), Failure> {
        let (parts, carried, description) = parts(image, description, volumes, captured_at_ms)?;
        let (reader, writer) = io::pipe().map_err(|error| Error::io("cannot make", "a pipe", error))?;
        let composing = tokio::task::spawn_blocking(move || {
            compose::compose(parts, io::BufWriter::with_capacity(256 << 10, writer))
        });
        let settings = self.engine.settings.tenant(&self.lineage.name.tenant);
        let request = import::Request {
            lineage: self.lineage.clone(),
            name: format!("the container {}", self.container.name),
            form: Form::Tar,
            source: ("container", self.container.name.clone()),
            manifest: None,
            about: self.about(&description),
            max_bytes: settings.max_profile_bytes,
            quota_bytes: settings.quota_bytes,
            threads: threads(),
            handle: None,
            judge: None,
            carried,
        };
        let imported =
            import::import(self.tenant, request, base, Box::new(reader), self.engine.progress()).await;
        let counts = composing.await.map_err(|error| Failure::internal(error.to_string()))?;
        let (imported, counts) = match (imported, counts) {
            (Ok(imported), Ok(counts)) => (imported, counts),
            // The writer met a closed pipe because the reader had failed.
            (Err(error), Err(failure)) if failure.kind == ErrorKind::Io => return Err(error.into()),
            (_, Err(failure)) => return Err(failure),
            (Err(error), Ok(_)) => return Err(error.into()),
        };
        let flip_id = hold.handle().new_flip_id();
        let record: Record = imported.record.clone();
        let (record, _) = pointer_move::flip(hold, record, flip_id, None, self.engine.progress()).await?;
        Ok((Imported { record, ..imported }, description, counts))
    }

    fn about(&self, description: &ContainerDescription) -> About {
        let mut labels: BTreeMap<String, String> = self.request.labels.iter().cloned().collect();
        labels.insert(names::CONTAINER.to_owned(), description.name.clone());
        labels.insert(names::IMAGE.to_owned(), description.image.reference.clone());
        labels.insert(names::TRIGGER.to_owned(), description.trigger.word().to_owned());
        labels.extend(description.run_id.clone().map(|id| (names::RUN_ID.to_owned(), id)));
        About {
            reason: Reason::from(match description.trigger {
                Trigger::BeforeRestore => "before-restore".to_owned(),
                trigger => trigger.word().to_owned(),
            }),
            labels,
            notes: self.request.description.clone(),
            exclusions: Vec::new(),
            ..foreign::about(&self.actor)
        }
    }
}

/// On a thread that may block, where errors are failures.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    blocking(move || Ok(work())).await?
}
