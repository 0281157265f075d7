//! `forecast` tells when a profile's first expected cookie lapses, by the findings of its last capture.

use futures::{StreamExt, stream};

use super::resolve;
use crate::{
    Error, ErrorKind, Result,
    catalog::expectations,
    content::TenantStore,
    format::record::Record,
    name::{Lineage, ProfileName},
};

const REQUESTS_AT_ONCE: usize = 16;

/// The known facts about one profile.
#[derive(Debug)]
pub struct Forecast {
    /// The profile.
    pub name: ProfileName,
    /// Whether anything is expected of it now.
    pub is_expected: bool,
    /// The current snapshot, if there is one of ours; its health has the findings of its capture.
    pub current: Option<(Lineage, Record)>,
}

/// The forecasts of these profiles, in their order.
pub async fn forecast(store: &TenantStore, names: Vec<ProfileName>) -> Result<Vec<Forecast>> {
    let looked = stream::iter(names).map(|name| look(store, name)).buffered(REQUESTS_AT_ONCE);
    let looked: Vec<Result<Forecast>> = looked.collect().await;
    looked.into_iter().collect()
}

async fn look(store: &TenantStore, name: ProfileName) -> Result<Forecast> {
    let (expected, current) = futures::join!(expectations::read(store, &name), current(store, &name));
    let is_expected = match expected {
        Err(error) if expectations::is_unreadable(&error) => true,
        expected => expected?.is_some_and(|expected| !expected.is_empty()),
    };
    Ok(Forecast { is_expected, current: current?, name })
}

/// A profile of which nothing can be told takes no other with it.
async fn current(store: &TenantStore, name: &ProfileName) -> Result<Option<(Lineage, Record)>> {
    let found = async {
        let (lineage, _) = resolve::lineage(store, name, None).await?;
        let record = resolve::snapshot(store, &lineage, None).await?;
        Ok((lineage, record))
    };
    match found.await {
        Ok(found) => Ok(Some(found)),
        Err(Error::Foreign { .. }) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
            tracing::warn!(%name, %error, "the current snapshot is not known");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
