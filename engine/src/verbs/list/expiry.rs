//! `expiry` lists when the first expected cookie of each profile lapses.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    catalog::records,
    name::{ChromeMajor, Profile, ProfileName, Tenant},
    ops::read::forecast::{self, Forecast},
};

use crate::{Engine, expectation::ExpectationFields, failure::Failure};

/// A profile and the end of its login.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExpiryRow {
    /// The profile.
    pub profile_id: Profile,
    /// The Chrome of the current snapshot.
    pub chrome_major_version: Option<ChromeMajor>,
    /// The first digits of the id of the current snapshot.
    pub sha256_prefix: Option<String>,
    /// When the current snapshot was captured.
    pub captured_at_ms: Option<u64>,
    /// Whether anything is expected of the profile now.
    pub expected: bool,
    /// Whether the current snapshot was compared with expectations when it was captured.
    pub judged: bool,
    /// The findings about the current snapshot.
    #[serde(flatten)]
    pub expectation: ExpectationFields,
}

/// The ends of expected cookies, the soonest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExpiryList {
    /// The tenant.
    pub tenant_id: Tenant,
    /// Each profile.
    pub expiry: Vec<ExpiryRow>,
}

pub(super) async fn list(
    engine: &Engine,
    tenant: &Tenant,
    profile: Option<&ProfileName>,
) -> Result<ExpiryList, Failure> {
    let store = engine.tenant(tenant).await?;
    let names = match profile {
        Some(name) => {
            engine.require_profile(&store, name).await?;
            vec![name.clone()]
        }
        None => records::profiles(&store).await?,
    };
    let forecasts = forecast::forecast(&store, names).await?;
    let mut rows: Vec<ExpiryRow> = forecasts.into_iter().map(ExpiryRow::from).collect();
    // Those that need somebody soonest come first.
    rows.sort_by_key(|row| {
        let first = row.expectation.first_lapse.as_ref().map_or(u64::MAX, |lapse| lapse.lapses_at_ms);
        (row.expectation.missing.is_empty(), first)
    });
    Ok(ExpiryList { tenant_id: tenant.clone(), expiry: rows })
}

impl From<Forecast> for ExpiryRow {
    fn from(forecast: Forecast) -> Self {
        let current = forecast.current.as_ref();
        let health = current.and_then(|(_, record)| record.health.as_ref());
        Self {
            profile_id: forecast.name.profile,
            chrome_major_version: current.map(|(lineage, _)| lineage.chrome_major),
            sha256_prefix: current.map(|(_, record)| record.sha256_prefix()),
            captured_at_ms: current.map(|(_, record)| record.captured_at_ms),
            expected: forecast.is_expected,
            judged: health.is_some_and(|health| health.expected.is_some()),
            expectation: current.map(|(_, record)| record.into()).unwrap_or_default(),
        }
    }
}
