//! `StoreObserver` is told of locks that are taken, refused and taken away, to count them.

use std::{fmt::Debug, time::Duration};

use crate::name::Lineage;

/// Hears what happens to the locks of a store. Called where the work is done; must be quick.
pub trait StoreObserver: Debug + Send + Sync {
    /// Something happened to the lock of `lineage`.
    fn lock(&self, lineage: &Lineage, event: LockEvent);
}

/// An event of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockEvent {
    /// Somebody took a free lock.
    Acquired,
    /// Somebody took a lock that its holder had let expire.
    ForcedExpired,
    /// Somebody did not get the lock, because another holds it.
    Conflict,
    /// Somebody has waited so long for the lock, whether or not he got it.
    Waited(Duration),
    /// A holder lost the lock.
    Evicted(EvictionReason),
}

/// Why a holder lost its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionReason {
    /// The holder had not renewed it in time.
    TtlExpired,
    /// The holder's process had ended, and its own machine noticed.
    HolderDead,
    /// An operator took it away.
    OperatorForce,
}

impl EvictionReason {
    /// The word that events and metrics have for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TtlExpired => "ttl_expired",
            Self::HolderDead => "holder_dead",
            Self::OperatorForce => "operator_force",
        }
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl StoreObserver for Unobserved {
    fn lock(&self, _: &Lineage, _: LockEvent) {}
}
