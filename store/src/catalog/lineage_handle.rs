//! `LineageHandle` holds one lineage's pointer and lock in the hands of one actor.
//!
//! Everything that changes them follows one principle: read what will be replaced, then
//! check what entitles you to replace it, then replace the very version you read. If the
//! check succeeds, any takeover comes later and changes that version.

use super::{
    clock::{self, HostClock},
    rules::Rules,
};
use crate::{
    content::TenantStore,
    format::event::{Actor, Event, EventKind},
    name::Lineage,
};

/// One lineage's pointer and lock, as one actor works on them.
#[derive(Clone, Debug)]
pub struct LineageHandle {
    pub(super) store: TenantStore,
    pub(super) lineage: Lineage,
    pub(super) actor: Actor,
    pub(super) clock: HostClock,
    pub(super) rules: Rules,
}

impl LineageHandle {
    /// Acts on `lineage` in the name of `actor`.
    pub fn new(store: TenantStore, lineage: Lineage, actor: Actor) -> Self {
        Self { store, lineage, actor, clock: HostClock::default(), rules: Rules::ALL }
    }

    /// On a host whose clock is wrong.
    #[cfg(any(test, feature = "test-support"))]
    pub fn with_clock(self, clock: HostClock) -> Self {
        Self { clock, ..self }
    }

    /// Without some of the rules, to show their purpose.
    #[cfg(any(test, feature = "test-support"))]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// The lineage that this handle moves.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The tenant whose lineage it is.
    pub fn store(&self) -> &TenantStore {
        &self.store
    }

    /// In whose name it acts.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// This host's time, for people.
    pub fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    pub(super) fn event(&self, kind: EventKind) -> Event {
        let at_ms = self.clock.unix_ms();
        Event::new(clock::new_event_id(at_ms), kind, at_ms, self.actor.clone())
    }
}
