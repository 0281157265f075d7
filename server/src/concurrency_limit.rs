//! `ConcurrencyLimit` bounds how many requests, streams, jobs or connections there are at once. Nobody waits, and one
//! tenant, caller or address has at most half.

use std::{collections::HashMap, sync::Arc};

use axum::http::StatusCode;
use engine::failure::Failure;
use parking_lot::Mutex;
use store::{ErrorKind, name::Tenant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Refusal;

/// How much of a room everybody has who has some.
type Shares = Arc<Mutex<HashMap<String, usize>>>;

/// Bounds how many of something there are at once, of which one tenant, caller or address has at most half.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    what: &'static str,
    left: Arc<Semaphore>,
    most_of_one: usize,
    shares: Shares,
}

/// Room that was taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _share: Option<Share>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Share {
    whose: String,
    shares: Shares,
}

impl ConcurrencyLimit {
    pub(crate) fn new(what: &'static str, most: usize) -> Self {
        let most_of_one = most.div_ceil(2);
        Self { what, left: Arc::new(Semaphore::new(most)), most_of_one, shares: Arc::default() }
    }

    /// Takes room for a tenant, as [`Self::take_as`] does.
    pub(crate) fn take_for(&self, tenant: &Tenant) -> Result<Permit, Refusal> {
        self.take_as(format!("tenant {tenant}"))
    }

    /// Takes room for this caller; without room, or beyond its share, the caller is told to come back.
    pub(crate) fn take_as(&self, whose: String) -> Result<Permit, Refusal> {
        let taken = self.take()?;
        let mut shares = self.shares.lock();
        let share = shares.entry(whose.clone()).or_default();
        if *share >= self.most_of_one {
            return Err(full(&format!("{whose} has too many {}", self.what)));
        }
        *share += 1;
        Ok(Permit { _share: Some(Share { whose, shares: Arc::clone(&self.shares) }), ..taken })
    }

    /// Takes room for nobody in particular; if there is none, the caller is told to come back.
    pub(crate) fn take(&self) -> Result<Permit, Refusal> {
        let permit = Arc::clone(&self.left).try_acquire_owned();
        let permit = permit.map_err(|_| full(&format!("the server has too many {}", self.what)))?;
        Ok(Permit { _share: None, _permit: permit })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get_mut(&self.whose) {
            *share -= 1;
            if *share == 0 {
                shares.remove(&self.whose);
            }
        }
    }
}

fn full(message: &str) -> Refusal {
    let failure = Failure::new(ErrorKind::Unavailable, message).hint("try again in a few seconds");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_is_taken_is_refused_and_comes_back() {
        let room = ConcurrencyLimit::new("downloads", 2);
        let taken = [room.take().unwrap(), room.take().unwrap()];
        let refusal = room.take().unwrap_err();
        assert_eq!(refusal.status, 503);
        assert!(refusal.response("id").headers().contains_key("retry-after"));
        drop(taken);
        assert!(room.take().is_ok());
    }

    #[test]
    fn one_tenant_leaves_half_of_the_room_to_others() {
        let room = ConcurrencyLimit::new("archives", 4);
        let [acme, other] = ["acme", "other"].map(|tenant| tenant.parse::<Tenant>().unwrap());
        let taken = [room.take_for(&acme).unwrap(), room.take_for(&acme).unwrap()];
        let refusal = room.take_for(&acme).unwrap_err();
        assert_eq!(
            (refusal.status.as_u16(), refusal.failure.message.as_str()),
            (503, "tenant acme has too many archives")
        );
        let of_other = [room.take_for(&other).unwrap(), room.take_as("token acme".to_owned()).unwrap()];
        drop(taken);
        assert!(room.take_for(&acme).is_ok());
        drop(of_other);
        assert!(room.shares.lock().is_empty());
    }
}
