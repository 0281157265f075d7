//! Pins a snapshot for a reader without a lock, so that nobody deletes or collects it meanwhile.
//!
//! A reader reads the record, writes a pin with the generation found ([`Placed::on`]), and reads
//! the record again ([`Placed::confirm`]): still live and of the same generation, or it starts
//! over. A process that deletes or moves a snapshot changes its record first and looks for pins after,
//! and a collection reads records first and pins second; so one of the two always sees the
//! other. If the second look finds the record as it was, everything it names stays for as long
//! as the pin is kept.
//!
//! A renewal is a new pin and then the same look again, so it is right however long its owner
//! slept, and even if the old pin is gone meanwhile; no clock is asked.

mod keeper;
mod list;
mod place;
#[cfg(test)]
pub(crate) mod tests;

pub use keeper::PinKeeper;
pub use list::{FoundPin, pinned, read};
pub use place::{Pinned, Placed, Renewal};

use std::time::Duration;

/// How long a pin holds after it was written.
pub const DEFAULT_TTL: Duration = Duration::from_secs(900);
/// How often it is renewed.
pub const DEFAULT_RENEW_EVERY: Duration = Duration::from_secs(240);
