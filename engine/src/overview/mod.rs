//! `overview` tells of many profiles at once which of them need somebody, who holds their locks, and how much they store.
//!
//! [`OverviewKeeper`] keeps a summary of every tenant in memory and brings it up to date with one listing for each.
//! All questions are answered from these summaries: no answer reads the store.

mod attention;
mod facts;
mod keeper;
mod locks;
mod page_of;
mod profiles;
mod usage;

pub use self::{
    attention::{Attention, AttentionKind, AttentionTally, AttentionTerms},
    facts::{TenantFacts, TenantOverview},
    keeper::{OverviewKeeper, OverviewScope},
    locks::{HeldLock, LockPage, OverviewLock},
    page_of::PageOf,
    profiles::{CurrentFields, ProfileOverview, ProfilePage, ProfilesQuery},
    usage::{TenantUsage, UsagePage, UsageQuery},
};
