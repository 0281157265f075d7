//! `container` stores Docker containers: their file system, their configuration and their named volumes.

mod base_image;
mod compose;
mod create;
mod cutoff;
mod delete;
mod description;
mod image_archive;
mod image_load;
mod keep;
mod layer_writer;
mod list;
mod names;
mod parts;
mod restore;
mod restore_outcome;
mod restore_plan;
mod show;
mod snapshot;
mod snapshot_job;
mod snapshot_request;
mod stats;
mod top_layer;
mod upper_layer;
mod verify;
mod volume_content;

pub use delete::delete;
pub use description::{ContainerDescription, ImageFields, MountKind, MountRow, Trigger};
pub use list::{ContainerListOutcome, ContainerSnapshotRow, list};
pub use names::default_name;
pub use restore::restore;
pub use restore_outcome::{
    ContainerRestoreOutcome, ContainerRestoreRequest, RestoreMode, RestoreResult, RestoredVolume,
};
pub use show::{ContainerShowOutcome, show};
pub use snapshot::{ContainerSnapshotOutcome, SnapshotResult, StoredVolume, goes_on_without, snapshot};
pub use snapshot_request::ContainerSnapshotRequest;
pub use stats::{ContainerStatsOutcome, ContainerTotals, LimitFields, stats};
