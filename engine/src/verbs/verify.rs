//! `verify` checks that stored snapshots are whole, and repairs damage.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    ErrorKind,
    catalog::clock,
    format::record::Record,
    name::{ChromeMajor, Lineage, Profile, Tenant},
    ops::{
        read::resolve::Reference,
        verify::{self, Damage, Looked, Options, Report, Sample},
    },
};

use crate::{
    Engine,
    each_tenant::{EachTenant, FailedTurn},
    failure::Failure,
    names::{SnapshotChoice, SnapshotName, Subject},
    outcome::{LineageFields, Outcome},
    text::size,
};

/// Checks snapshots.
#[derive(Clone, Debug)]
pub struct VerifyRequest {
    /// A tenant, one of its profiles, or one snapshot; all tenants if nothing is named.
    pub subject: Option<Subject>,
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// The first digits of the snapshot's id, said apart from the name.
    pub sha: Option<Reference>,
    /// Whether content is read, and not only looked for in its place.
    pub reads_content: bool,
    /// Reads one of so many parts of the content, another one each day; all of it if it is not said.
    pub parts: Option<u64>,
    /// Whether to repair damage, and to mark the snapshots that have lost something.
    pub repair: bool,
}

/// The words for what a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifyState {
    /// There is no damage.
    Whole,
    /// There was damage, and there is none any more.
    Repaired,
    /// There is damage.
    Damaged,
}

impl VerifyState {
    const fn of(damage: usize, repaired: usize) -> Self {
        match (damage, repaired) {
            (0, 0) => Self::Whole,
            (0, _) => Self::Repaired,
            _ => Self::Damaged,
        }
    }
}

/// The part of the content that was read.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SampleFields {
    /// The number of the part.
    pub part: u64,
    /// How many parts there are.
    pub of: u64,
}

/// One damaged object.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DamageFields {
    /// The object.
    pub object: String,
    /// The problem.
    pub reason: String,
    /// The snapshots that need the object.
    pub snapshots: Vec<String>,
    /// Files that cannot be restored because of it, at most a few.
    pub files: Vec<String>,
    /// How many more files there are.
    pub more_files: u64,
}

/// A profile that was checked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VerifiedProfile {
    /// The profile whose snapshots were checked.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// Whether there is damage.
    pub outcome: VerifyState,
    /// How many snapshots it has.
    pub snapshots: u64,
}

/// The part of a store that was to be checked.
#[derive(Clone, Debug)]
pub enum VerifyScope {
    /// A profile as one Chrome writes it, or the snapshot of it with these first digits.
    Lineage {
        /// The profile.
        lineage: Lineage,
        /// The first digits of the snapshot's id.
        sha256_prefix: Option<String>,
    },
    /// A tenant.
    Tenant(Tenant),
    /// All tenants, of which there are so many.
    All(usize),
}

/// The findings of a check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VerifyOutcome {
    /// Whether there is damage.
    pub outcome: VerifyState,
    /// The tenant that was checked, if it was one.
    pub tenant_id: Option<Tenant>,
    /// The profile that was checked, if it was one.
    pub profile_id: Option<Profile>,
    /// The Chrome that wrote the profile.
    pub chrome_major_version: Option<ChromeMajor>,
    /// Whether content was read.
    pub read_data: bool,
    /// The part of the content that was read, if it was not all.
    pub sample: Option<SampleFields>,
    /// How many snapshots were checked.
    pub snapshots: u64,
    /// How many packs were checked.
    pub packs: u64,
    /// How many chunks were checked.
    pub chunks: u64,
    /// How many bytes were read.
    pub read_bytes: u64,
    /// The damage that is left.
    pub damage: Vec<DamageFields>,
    /// The damage that was repaired.
    pub repaired: Vec<DamageFields>,
    /// The snapshots that are marked as damaged.
    pub marked: Vec<String>,
    /// The profiles that were checked.
    pub profiles: Vec<VerifiedProfile>,
    /// Tenants that failed.
    pub failed: Vec<FailedTurn>,
    /// The profile, tenant or store that was to be checked.
    #[serde(skip)]
    pub scope: VerifyScope,
    /// Whether a repair was asked for.
    #[serde(skip)]
    pub is_repair: bool,
    /// How it ends because tenants failed.
    #[serde(skip)]
    passed_over: Option<Failure>,
}

impl Outcome for VerifyOutcome {
    const HAS_VERDICT: bool = true;

    /// Damage that is left comes before tenants that nobody could look at, and both are told.
    fn verdict(&self) -> Option<Failure> {
        let findings = |found: &[DamageFields]| size::plural(found.len() as u64, "finding", "findings");
        let named = match &self.scope {
            VerifyScope::Lineage { lineage, .. } => lineage.to_string(),
            VerifyScope::Tenant(tenant) => tenant.to_string(),
            VerifyScope::All(_) => "the store".to_owned(),
        };
        let passed_over = self.passed_over.as_ref();
        let found = match (&self.damage[..], &self.repaired[..]) {
            ([], _) if passed_over.is_some() => None,
            ([], []) => None,
            ([], repaired) => {
                let message = format!("{named} was damaged and is whole again: {}", findings(repaired));
                Some((ErrorKind::Repaired, message))
            }
            (damage, _) => Some((ErrorKind::Damaged, format!("{named} is damaged: {}", findings(damage)))),
        };
        match (found, passed_over) {
            (Some((kind, found)), Some(Failure { message, .. })) => {
                Some(Failure::new(kind, format!("{found}; {message}")))
            }
            (Some((kind, found)), None) => Some(Failure::new(kind, found)),
            (None, passed_over) => passed_over.map(|failure| Failure::new(failure.kind, &*failure.message)),
        }
    }
}

impl Engine {
    /// Checks snapshots.
    #[crate::boxed(?Send)]
    pub async fn verify(&self, request: &VerifyRequest) -> Result<VerifyOutcome, Failure> {
        match &request.subject {
            Some(Subject::Snapshot(name)) => self.verify_profile(name, request).await.map_err(without_verify),
            Some(Subject::Tenant(tenant)) => self.verify_tenants(Some(tenant), request).await,
            None => self.verify_tenants(None, request).await,
        }
    }

    async fn verify_profile(
        &self,
        name: &SnapshotName,
        request: &VerifyRequest,
    ) -> Result<VerifyOutcome, Failure> {
        let snapshot = SnapshotChoice {
            name: name.clone(),
            chrome_major: request.chrome_major,
            sha: request.sha.clone(),
        };
        let reference = snapshot.named()?;
        if let Some(reference) = reference.filter(|_| request.repair) {
            let message = format!("--repair looks at all snapshots, and @{reference} names one");
            let hint = format!("`pstore verify {} --repair`", name.profile);
            return Err(Failure::usage(message).hint(hint));
        }
        let (tenant, lineage) = match request.repair {
            true => self.lineage_to_change(&snapshot.lineage()).await?,
            false => self.lineage(&snapshot.lineage()).await?,
        };
        let chosen = match reference {
            Some(reference) => Some(self.resolve_snapshot(&tenant, &lineage, Some(reference)).await?),
            None => None,
        };
        let options = options(request, chosen.as_ref());
        let report = verify::verify(&tenant, &lineage, options, self.progress()).await?;
        let sha256_prefix = chosen.as_ref().map(Record::sha256_prefix);
        Ok(outcome(VerifyScope::Lineage { lineage, sha256_prefix }, options, report, None))
    }

    async fn verify_tenants(
        &self,
        named: Option<&Tenant>,
        request: &VerifyRequest,
    ) -> Result<VerifyOutcome, Failure> {
        if let Some((flag, tenant)) = of_one_profile(request).zip(named) {
            let message = format!("{flag} is about one profile, and {tenant} is a tenant");
            return Err(Failure::usage(message).hint(format!(
                "`pstore verify {tenant}/PROFILE {flag} …`; `pstore list {tenant}` names its profiles"
            )));
        }
        let options = options(request, None);
        let mut turns = EachTenant::of(self, named, "verify").await?;
        let mut report = Report::default();
        for tenant in turns.tenants() {
            let looked = self.verify_tenant(&tenant, options).await.map_err(without_verify);
            let Some(looked) = turns.took(&tenant, looked)? else { continue };
            add(&mut report, looked);
        }
        let scope = match named {
            Some(tenant) => VerifyScope::Tenant(tenant.clone()),
            None => VerifyScope::All(turns.tenants().len()),
        };
        Ok(outcome(scope, options, report, Some(turns)))
    }

    async fn verify_tenant(&self, tenant: &Tenant, options: Options) -> Result<Report, Failure> {
        let store = match options.repair {
            true => self.tenant_to_change(tenant).await?,
            false => self.tenant(tenant).await?,
        };
        Ok(verify::verify_tenant(&store, options, self.progress()).await?)
    }
}

fn options(request: &VerifyRequest, chosen: Option<&Record>) -> Options {
    let parts = request.parts.filter(|parts| *parts > 1);
    Options {
        only: chosen.map(|record| record.record),
        read_data: request.reads_content,
        sample: parts.map(|parts| Sample::of_day(parts, clock::unix_ms())),
        repair: request.repair,
        memory_bytes: verify::DEFAULT_MEMORY_BYTES,
    }
}

fn outcome(scope: VerifyScope, options: Options, report: Report, turns: Option<EachTenant>) -> VerifyOutcome {
    let (tenant_id, lineage) = match &scope {
        VerifyScope::Lineage { lineage, .. } => (Some(lineage.name.tenant.clone()), Some(lineage)),
        VerifyScope::Tenant(tenant) => (Some(tenant.clone()), None),
        VerifyScope::All(_) => (None, None),
    };
    VerifyOutcome {
        outcome: VerifyState::of(report.damage.len(), report.repaired.len()),
        tenant_id,
        profile_id: lineage.map(|lineage| lineage.name.profile.clone()),
        chrome_major_version: lineage.map(|lineage| lineage.chrome_major),
        read_data: options.read_data,
        sample: options.sample.map(|Sample { part, of }| SampleFields { part, of }),
        snapshots: report.snapshots,
        packs: report.packs,
        chunks: report.chunks,
        read_bytes: report.read_bytes,
        damage: report.damage.into_iter().map(DamageFields::from).collect(),
        repaired: report.repaired.into_iter().map(DamageFields::from).collect(),
        marked: report.marked,
        profiles: report.lineages.iter().map(VerifiedProfile::from).collect(),
        scope,
        is_repair: options.repair,
        passed_over: turns.as_ref().and_then(EachTenant::verdict),
        failed: turns.map(EachTenant::into_failed).unwrap_or_default(),
    }
}

/// The option that says something of one profile.
fn of_one_profile(request: &VerifyRequest) -> Option<&'static str> {
    match (request.chrome_major, &request.sha) {
        (Some(_), _) => Some("--chrome-major"),
        (None, Some(_)) => Some("--sha"),
        (None, None) => None,
    }
}

/// Tenants share nothing.
fn add(all: &mut Report, one: Report) {
    all.snapshots += one.snapshots;
    all.packs += one.packs;
    all.chunks += one.chunks;
    all.read_bytes += one.read_bytes;
    all.damage.extend(one.damage);
    all.repaired.extend(one.repaired);
    all.marked.extend(one.marked);
    all.lineages.extend(one.lineages);
}

/// The reader of this has run `pstore verify` already.
fn without_verify(failure: Failure) -> Failure {
    match &failure.hint {
        Some(hint) if failure.kind == ErrorKind::Damaged && hint.contains("`pstore verify ") => failure
            .hint("bring the object back from a backup of the store; without it nothing more can be checked"),
        _ => failure,
    }
}

impl From<Damage> for DamageFields {
    fn from(Damage { object, reason, snapshots, files, more_files }: Damage) -> Self {
        Self { object, reason, snapshots, files, more_files }
    }
}

impl From<&Looked> for VerifiedProfile {
    fn from(Looked { lineage, snapshots, damage, repaired }: &Looked) -> Self {
        Self {
            lineage: lineage.into(),
            outcome: VerifyState::of(*damage as usize, *repaired as usize),
            snapshots: *snapshots,
        }
    }
}
