//! `load` tells which snapshot a browser should start with, for callers that fetch it themselves.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    id::RecordId,
    name::{ChromeMajor, ProfileName},
    ops::{point_of_no_return::PointOfNoReturn, read::resolve::Reference},
    tree::write::Keeping,
};

use crate::{
    Engine,
    captures::CheckDepth,
    failure::Failure,
    loads::{LoadJob, LoadOptions},
    outcome::{LineageFields, LoadResult, Outcome},
};

/// Asks which snapshot a browser should start with.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// The profile.
    pub profile: ProfileName,
    /// The Chrome that will use it.
    pub chrome_major: ChromeMajor,
    /// The snapshot; the current one if none is named.
    pub reference: Option<Reference>,
    /// How it is loaded.
    pub options: LoadOptions,
}

/// Which snapshot a browser should start with; or that it should start with an empty profile, and why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadOutcome {
    /// How the load ended; with all but `success` the browser starts with an empty profile.
    pub outcome: LoadResult,
    /// Why the profile is empty, if it is.
    pub reason: Option<String>,
    /// The snapshot to start with.
    pub snapshot: Option<LoadedSnapshot>,
    /// Warnings, though it can be loaded.
    pub warnings: Vec<String>,
}

/// The snapshot to start with.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadedSnapshot {
    /// Whose it is: of an older Chrome, if this one has none yet and starts from that.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// Its record.
    pub record: RecordId,
    /// The first digits of its id, or of its archive's digest.
    pub sha256_prefix: String,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// The bytes of all its files.
    pub uncompressed_size_bytes: u64,
}

impl Outcome for LoadOutcome {}

impl Engine {
    /// Tells which snapshot a browser should start with. Nothing is written.
    #[crate::boxed]
    pub async fn judged_load(&self, request: &LoadRequest) -> Result<LoadOutcome, Failure> {
        request.options.check(Some(request.chrome_major))?;
        let job = LoadJob {
            profile: &request.profile,
            chrome_major: request.chrome_major,
            reference: request.reference.as_ref(),
            target: Path::new(""),
            force: false,
            keeping: Keeping::default(),
            check: CheckDepth::default(),
            point_of_no_return: PointOfNoReturn::default(),
            host_region: None,
        };
        let loaded = self.judge_load(&request.options, job).await?;
        let outcome = LoadResult::from(loaded.outcome);
        let record = loaded.record.filter(|_| outcome == LoadResult::Success);
        let snapshot = record.map(|record| LoadedSnapshot {
            sha256_prefix: record.sha256_prefix(),
            record: record.record,
            captured_at_ms: record.captured_at_ms,
            uncompressed_size_bytes: record.uncompressed_size_bytes,
            lineage: LineageFields {
                tenant_id: record.tenant_id,
                profile_id: record.profile_id,
                chrome_major_version: record.chrome_major_version,
            },
        });
        Ok(LoadOutcome { outcome, reason: loaded.reason, snapshot, warnings: loaded.warnings })
    }
}
