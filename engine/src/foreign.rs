//! `foreign` finds archives that another program has stored, and takes them in as snapshots.

use std::sync::Arc;

use capture::{
    archive_inspector::ArchiveInspector,
    chrome::profile,
    examination::Isolation,
    examiner::{Policy, ProfileExaminer},
    marker,
    sqlite::Depth,
};
use store::{
    Error,
    catalog::foreign,
    content::TenantStore,
    format::{
        WRITER,
        event::Actor,
        manifest::Manifest,
        record::{CapturedBy, CapturedIn, Mode, Reason, Record},
    },
    name::{Lineage, Tenant},
    ops::{
        archive::import_foreign::Adoption,
        read::resolve::{self, Reference},
        write::snapshot::About,
    },
};

use crate::{Engine, engine::threads, failure::Failure, names::ActorName};

/// The snapshot or archive that a name means.
#[derive(Debug)]
pub enum IntendedFlip {
    /// A snapshot of ours.
    Ours(Box<Record>),
    /// An archive of another program.
    Anothers(Box<Manifest>),
}

impl Engine {
    /// The snapshot or the archive of another program that is meant; if nothing is said, the current one.
    #[crate::boxed]
    pub async fn named_snapshot(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        reference: Option<&Reference>,
    ) -> Result<IntendedFlip, Failure> {
        let prefix = match resolve::snapshot(tenant, lineage, reference).await {
            Ok(record) => return Ok(IntendedFlip::Ours(Box::new(record))),
            Err(Error::Foreign { sha256_prefix, .. }) => Some(sha256_prefix),
            Err(Error::NotFound { .. }) => match reference {
                Some(Reference::Digits(digits) | Reference::Word(digits)) => Some(digits.clone()),
                _ => None,
            },
            Err(_) => None,
        };
        let found = match prefix {
            Some(prefix) => foreign::find(tenant, lineage, &prefix).await?,
            None => None,
        };
        match found {
            Some(manifest) => Ok(IntendedFlip::Anothers(Box::new(manifest))),
            // Asked once more for what helps.
            None => self
                .resolve_snapshot(tenant, lineage, reference)
                .await
                .map(|record| IntendedFlip::Ours(Box::new(record))),
        }
    }

    /// Stores the archive of another program as a snapshot. The pointer stays.
    #[crate::boxed]
    pub async fn take_in(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        manifest: Manifest,
    ) -> Result<Record, Failure> {
        let prefix = manifest.archive_sha256.prefix();
        self.say(&format!("{prefix} is an archive of another program; taking it in"));
        let adoption = self.adoption(&lineage.name.tenant);
        Ok(adoption.take_in(tenant, lineage, manifest, self.progress()).await?)
    }

    /// On what terms an archive of another program is taken in.
    pub fn adoption(&self, tenant: &Tenant) -> Adoption {
        let nobody = ActorName::default();
        let actor = self.actor(&nobody);
        let settings = self.settings.tenant(tenant);
        let threads = threads();
        // It is the current one already: what is found about it is only written down.
        let policy = Policy {
            depth: Some(Depth::Full),
            isolation: Isolation::own_cell(),
            threads,
            max_shrink_percent: None,
            allow_damaged: true,
            allow_logged_out: true,
        };
        let judge = ArchiveInspector(ProfileExaminer {
            policy,
            mode: Mode::Cold,
            stopped: None,
            expected: Default::default(),
        });
        Adoption {
            about: about(&actor),
            actor,
            max_bytes: settings.max_profile_bytes,
            quota_bytes: settings.quota_bytes,
            threads,
            judge: Some((Arc::new(judge), std::env::temp_dir())),
        }
    }

    /// Stores the archive as a snapshot that another program has made the current one.
    #[crate::boxed]
    pub async fn adopt(&self, lineage: &Lineage) -> Result<Option<Record>, Failure> {
        let tenant = self.tenant_to_change(&lineage.name.tenant).await?;
        self.say(&format!("another program has moved the pointer of {lineage}; taking its archive in"));
        let adoption = self.adoption(&lineage.name.tenant);
        Ok(adoption.adopt(&tenant, lineage, self.progress()).await?)
    }
}

/// The facts for the record of an archive without a manifest.
pub fn about(actor: &Actor) -> About {
    About {
        captured_by: CapturedBy {
            host: actor.host.clone(),
            host_run_id: actor.host_run_id.clone(),
            writer_version: WRITER.to_owned(),
            unknown: Default::default(),
        },
        captured_in: Some(CapturedIn::default()),
        mode: Mode::Cold,
        reason: Reason::Import,
        labels: Default::default(),
        notes: String::new(),
        chrome_last_version: None,
        exit_type: None,
        chrome_uptime_seconds: 0,
        fallback: None,
        transforms: Vec::new(),
        exclusions: profile::EXCLUSIONS.iter().copied().chain([marker::NAME]).map(str::to_owned).collect(),
        in_progress: None,
    }
}
