//! `mount` has the machinery of mounts: the sessions of this host, the mounts made of them, and the daemons
//! that serve them.

mod assembly;
mod autosave;
pub mod call;
pub(crate) mod checkpoint;
mod choice;
pub(crate) mod destination;
mod diverged;
pub mod live;
mod opening;
pub(crate) mod publication;
mod request;
pub(crate) mod rescue;
mod resume;
mod search;
pub mod serving;
pub mod sessions;
mod upkeep;
mod watch;
pub(crate) mod wip;
mod without_store;

pub use choice::Notes;
pub use destination::DestinationRequest;
pub use publication::{Published, publish};
pub use request::{MountRequest, OnDiverged, OnLockLost};
pub use rescue::RescueRequest;
pub use watch::until_done;
