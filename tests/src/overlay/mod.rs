//! `overlay` plays the file system of a mount, without a kernel, beside a model of one: both take the same steps,
//! through commits and the sudden end of the daemon, and both must be the same after.

mod checkpoint;
mod model;
mod mounted;
mod play;
mod step;

pub use mounted::{ME, Mounted, Pending, Room};
pub use play::play;
pub use step::Step;
