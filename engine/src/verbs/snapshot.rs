//! `snapshot` stores a directory as the next snapshot of its profile.

mod hot;

use std::{path::PathBuf, time::Duration};

use capture::chrome::profile::Facts;
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    ErrorKind,
    catalog::{
        lock::Terms,
        pointer::{self, VersionedPointer},
    },
    content::TenantStore,
    format::{pointer::Target, record::Reason},
    id::Nonce,
    name::{ChromeMajor, Lineage, ProfileName},
    ops::write::snapshot::{LockUse, Report},
};

use crate::{
    Engine,
    captures::{CaptureJob, CaptureMode, CaptureOptions, CapturedFields, ProfileToCapture},
    copies,
    failure::Failure,
    lineages::require_browser,
    observer::CaptureSource,
    outcome::Outcome,
};

/// Stores a directory as the next snapshot of a profile.
#[derive(Clone, Debug)]
pub struct SnapshotRequest {
    /// The directory, for Chrome its user-data-dir.
    pub directory: PathBuf,
    /// The profile of the snapshot.
    pub profile: ProfileName,
    /// The major version of the Chrome that wrote it; as the directory says if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// Store it as `chrome_major` says, though the directory says another Chrome; and a copy that a run has
    /// left, though others have stored a snapshot since.
    pub force: bool,
    /// How it is captured.
    pub capture: CaptureOptions,
    /// The token of the lock, if it is held already; that of the environment if it is not said.
    pub lock_token: Option<Nonce>,
    /// How long to wait for somebody else who holds the lock.
    pub wait: Duration,
}

impl SnapshotRequest {
    /// Stores `directory` as a snapshot of `profile`, checked, without waiting for anybody.
    pub fn new(directory: PathBuf, profile: ProfileName) -> Self {
        Self {
            directory,
            profile,
            chrome_major: None,
            force: false,
            capture: CaptureOptions::new(Reason::Manual),
            lock_token: None,
            wait: Duration::ZERO,
        }
    }
}

/// The snapshot that a directory became.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SnapshotOutcome {
    /// The snapshot, and what it took to store it.
    #[serde(flatten)]
    pub captured: CapturedFields,
    /// How long changes were delayed, if the browser ran.
    pub frozen_ms: Option<f64>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for SnapshotOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}

impl Engine {
    /// Stores a directory as the next snapshot of its profile.
    #[crate::boxed(?Send)]
    pub async fn snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotOutcome, Failure> {
        request.capture.check()?;
        require_browser(request.chrome_major)?;
        if request.capture.mode == CaptureMode::Hot {
            return self.snapshot_running(request).await;
        }
        let capture = self.capture_directory(request);
        let (lineage, report, remarks) = self
            .observe_capture(
                &request.profile,
                CaptureMode::Cold,
                CaptureSource::Directory,
                capture,
                |captured| &captured.1,
            )
            .await?;
        let captured = CapturedFields::of(&lineage, &report, remarks);
        captured.warnings.iter().for_each(|warning| self.warn(warning));
        let verdict = captured.verdict();
        Ok(SnapshotOutcome { captured, frozen_ms: None, verdict })
    }

    async fn capture_directory(
        &self,
        request: &SnapshotRequest,
    ) -> Result<(Lineage, Report, Vec<String>), Failure> {
        if !request.directory.is_dir() {
            let message = format!("there is no directory {}", request.directory.display());
            return Err(Failure::new(ErrorKind::NotFound, message));
        }
        self.location.keep_apart(&request.directory)?;
        let token = self.lock_token(request.lock_token)?;
        let profile = ProfileToCapture::stop(&request.directory, &request.capture).await?;
        let chrome_major = chrome_major(self, request, &profile.facts)?;
        let lineage = Lineage { name: request.profile.clone(), chrome_major };
        let remarks = profile.remarks();
        let mut actor = self.actor(&request.capture.actor);
        if token.is_some() && request.capture.actor.run_id.as_deref().unwrap_or_default().is_empty() {
            // The holder of the lock acts.
            actor.run_id.clear();
        }
        let tenant = self.writable_tenant(&lineage.name.tenant).await?;
        self.adopt_current(&tenant, &lineage).await;
        let job = CaptureJob {
            tenant: &tenant,
            lineage: lineage.clone(),
            directory: &request.directory,
            actor,
            lock: self.lock_use(request, &lineage, token),
            made_of: copies::made_of(self, &request.directory, &lineage).filter(|_| !request.force),
        };
        let is_copy = job.made_of.is_some();
        let captured = self.capture(&request.capture, job, profile, self.progress());
        let report = captured.await.map_err(|failure| passed_by(failure, is_copy, request, &lineage))?;
        self.prune(&tenant, &lineage, &report).await;
        Ok((lineage, report, remarks))
    }

    /// Takes in an archive that another program has made the current snapshot, if it can be: the new snapshot
    /// is built on it and compared with it.
    async fn adopt_current(&self, tenant: &TenantStore, lineage: &Lineage) {
        let is_foreign = |read: &Option<VersionedPointer>| {
            read.as_ref().is_some_and(|read| matches!(read.pointer.target(), Target::Foreign(_)))
        };
        if pointer::read(tenant, lineage).await.is_ok_and(|read| is_foreign(&read))
            && let Err(failure) = self.adopt(lineage).await
        {
            self.warn(&format!("the current snapshot cannot be built on: {}", failure.message));
        }
    }

    /// The caller's lock if there is a token, else one of our own.
    fn lock_use(&self, request: &SnapshotRequest, lineage: &Lineage, token: Option<Nonce>) -> LockUse {
        match token {
            Some(token) => LockUse::Held(token),
            None => {
                let settings = self.settings.tenant(&lineage.name.tenant);
                let terms = Terms { ttl: settings.lock_ttl, with_process: true };
                let patience = self.patience(&lineage.name, request.wait);
                LockUse::Take { terms, renew_every: settings.lock_renew, patience }
            }
        }
    }
}

/// Others have stored a snapshot since a run made the copy that is to be stored now.
fn passed_by(failure: Failure, is_copy: bool, request: &SnapshotRequest, lineage: &Lineage) -> Failure {
    if !is_copy || failure.kind != ErrorKind::PointerMoved {
        return failure;
    }
    let (directory, Lineage { name, chrome_major }) = (request.directory.display(), lineage);
    failure.hint(format!(
        "`pstore snapshot {directory} {name} --chrome-major {chrome_major} --force` replaces what is current; \
         `pstore snapshot {directory} {}/ANOTHER --chrome-major {chrome_major}` stores it as another profile",
        name.tenant
    ))
}

/// The Chrome that is said, or the one that the directory says.
fn chrome_major(engine: &Engine, request: &SnapshotRequest, facts: &Facts) -> Result<ChromeMajor, Failure> {
    match (request.chrome_major, facts.major()) {
        (Some(given), Some(found)) if given != found && !request.force => {
            let (directory, name) = (request.directory.display(), &request.profile);
            let message =
                format!("{directory} was last used by Chrome {found}, and is not stored as Chrome {given}");
            Err(Failure::new(ErrorKind::VersionMismatch, message).hint(format!(
                "`pstore snapshot {directory} {name} --chrome-major {found}` stores it as what it is; --force stores it as Chrome {given}"
            )))
        }
        (Some(given), Some(found)) if given != found => {
            engine.warn(&format!(
                "the directory was last used by Chrome {found}, but is stored as Chrome {given}"
            ));
            Ok(given)
        }
        (Some(given), _) => Ok(given),
        (None, Some(found)) => {
            engine.say(&format!("taking Chrome {found} from the directory's `Last Version`"));
            Ok(found)
        }
        (None, None) => {
            let message = format!("which Chrome wrote {} is not known", request.directory.display());
            Err(Failure::usage(message).hint("say it with --chrome-major, for example --chrome-major 131"))
        }
    }
}
