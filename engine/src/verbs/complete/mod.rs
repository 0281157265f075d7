//! `complete` offers names that complete a word.
//!
//! It never fails and never waits long: names come from the cache of this host, and if that is old, from the store,
//! within a time that nobody notices.

mod remembered;

use std::time::Duration;

use store::{
    catalog::records,
    name::{LATEST, ProfileName, Tenant},
    ops::read::{profiles, resolve},
};

use self::remembered::Remembered;
use crate::{Engine, failure::Failure, location::Purpose, names::LineageName};

/// The environment variable that says how many milliseconds somebody who types may be kept waiting.
pub const COMPLETION_MS: &str = "PSTORE_COMPLETION_MS";
const MOST_TIME: Duration = Duration::from_millis(800);
/// Of more names than this it is not asked which were deleted: each takes a request.
const MOST_LOOKED_AT: usize = 200;
/// How many snapshots are offered, the newest first.
const MOST_SNAPSHOTS: usize = 50;

/// Asks for names.
#[derive(Clone, Debug)]
pub enum CompleteRequest {
    /// The tenants of the store.
    Tenants,
    /// The profiles of a tenant, each with its tenant.
    Profiles(Tenant),
    /// The words for snapshots of a profile: of the current one, then tags, then digits, the newest first.
    Snapshots(ProfileName),
}

/// How long somebody who types may be kept waiting.
pub fn most_time() -> Duration {
    let said = std::env::var(COMPLETION_MS).ok().and_then(|said| said.parse().ok());
    said.map_or(MOST_TIME, Duration::from_millis)
}

impl CompleteRequest {
    /// The name of the question.
    fn question(&self) -> String {
        match self {
            Self::Tenants => "tenants".to_owned(),
            Self::Profiles(tenant) => format!("profiles of {tenant}"),
            Self::Snapshots(profile) => format!("snapshots of {profile}"),
        }
    }
}

impl Engine {
    /// Names as this host remembers them or the store has them.
    #[crate::boxed(?Send)]
    pub async fn complete(&self, request: &CompleteRequest) -> Vec<String> {
        let store = self.location.shown();
        let remembered = Remembered::new(self.cache_root.as_deref(), &store, &request.question());
        remembered.or_ask(self.stored_names(request)).await
    }

    async fn stored_names(&self, request: &CompleteRequest) -> Result<Vec<String>, Failure> {
        match request {
            CompleteRequest::Tenants => {
                let store = self.store(Purpose::Read).await?;
                let mut tenants = store.tenants().await?;
                if tenants.len() <= MOST_LOOKED_AT {
                    let deleted = profiles::deleted_tenants(&store, &tenants).await;
                    tenants.retain(|tenant| !deleted.iter().any(|(gone, _)| gone == tenant));
                }
                Ok(tenants.iter().map(ToString::to_string).collect())
            }
            CompleteRequest::Profiles(tenant) => {
                let tenant = self.tenant(tenant).await?;
                let mut names = records::profiles(&tenant).await?;
                if names.len() <= MOST_LOOKED_AT {
                    let deleted = profiles::deleted(&tenant, &names).await;
                    names.retain(|name| !deleted.contains(name));
                }
                Ok(names.iter().map(ToString::to_string).collect())
            }
            CompleteRequest::Snapshots(profile) => {
                let asked = LineageName { profile: profile.clone(), chrome_major: None };
                let (tenant, lineage) = self.lineage(&asked).await?;
                let records = resolve::list(&tenant, &lineage).await?.records;
                let newest = || records.iter().rev().take(MOST_SNAPSHOTS);
                let tags = newest().flat_map(|record| record.tags.keys().cloned());
                let words = [LATEST.to_owned(), format!("{LATEST}~1")].into_iter().chain(tags);
                Ok(words.chain(newest().map(|record| record.sha256_prefix())).collect())
            }
        }
    }
}
