//! `fork` makes a workspace of its own from a checkpoint, and gives what became of it back to the first one.
//!
//! A directory gets the files of the checkpoint. A mount of it has them already: such a fork takes as long whatever its size.

use std::path::{Path, PathBuf};

use fuse::mount::info::Mode;
use store::{
    ErrorKind,
    catalog::records,
    name::ProfileName,
    ops::{point_of_no_return::PointOfNoReturn, read::restore},
    tree::write::Keeping,
};

use super::{
    folder::WorkspaceFolder,
    life::wanted_of,
    outcome::{ForkOutcome, RevertOutcome},
    queries::{profile_word, told},
    request::{CheckpointRequest, ForkRequest, PromoteRequest, RevertRequest, StartRequest, Trigger},
    session_db::SessionDb,
    slots::Kept,
};
use crate::{Engine, engine::threads, failure::Failure};

/// The files of a fork.
struct Made {
    files: u64,
    bytes: u64,
    mounted: bool,
}

impl Engine {
    /// Makes a workspace of its own from a checkpoint. The events up to there come along.
    #[crate::boxed]
    pub async fn workspace_fork(&self, request: &ForkRequest) -> Result<ForkOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let lock = folder.lock().await?;
        let kept = folder.checkpoint(&folder.slots()?, request.from.as_deref())?;
        let profile = match &request.profile {
            Some(profile) => profile.clone(),
            None => self.fork_name(&folder, request)?,
        };
        if profile.tenant != folder.settings.profile.tenant {
            let message = format!("a fork of {} stays with its tenant", folder.settings.profile);
            return Err(
                Failure::usage(message).hint(format!("name it {}/PROFILE", folder.settings.profile.tenant))
            );
        }
        if profile == folder.settings.profile {
            let message = format!("{profile} is the workspace that is forked");
            return Err(Failure::usage(message).hint("name another profile, or none"));
        }
        let tenant = self.tenant_to_change(&profile.tenant).await?;
        let lineages = records::lineages(&tenant, &profile).await?;
        if lineages.iter().any(|lineage| lineage.chrome_major == store::name::ChromeMajor::WORKSPACE) {
            let message = format!("{profile} is a workspace already");
            return Err(Failure::new(ErrorKind::TargetExists, message).hint("name another profile"));
        }
        let made = match self.mounted_fork(&folder, &kept, &request.target)? {
            Some(mounted) => mounted,
            None => self.restored_fork(&folder, &kept, request.target.clone()).await?,
        };
        let fork = self.begin_workspace(&StartRequest {
            directory: request.target.clone(),
            profile: Some(profile),
            auto_max: Some(folder.settings.auto_max),
            manual_max: Some(folder.settings.manual_max),
            auto_interval: Some(folder.settings.auto_interval),
            ignore_files: folder.settings.ignore_files,
            without_watcher: true,
        })?;
        let db = SessionDb::open(&folder.session_db())?;
        let (_, stop) = db.range(kept.slot)?;
        db.copy_until(&fork.session_db(), stop)?;
        let from = told(&db, &kept)?;
        drop(lock);
        let lock = fork.lock().await?;
        let wanted = wanted_of(&CheckpointRequest {
            trigger: Trigger::RunStart,
            description: format!("forked from {} of {}", from.checkpoint, folder.settings.profile),
            ..CheckpointRequest::manual(fork.directory().to_owned(), None)
        })?;
        self.take_checkpoint(&fork, &lock, &wanted).await?;
        Ok(ForkOutcome {
            from,
            workspace: self.told_of_workspace(&fork)?,
            files: made.files,
            bytes: made.bytes,
            mounted: made.mounted,
        })
    }

    /// The fork that is a mount of the checkpoint, if it is one.
    fn mounted_fork(
        &self,
        folder: &WorkspaceFolder,
        kept: &Kept,
        target: &Path,
    ) -> Result<Option<Made>, Failure> {
        let Ok(target) = std::fs::canonicalize(target) else { return Ok(None) };
        let Some(live) = self.mount_on(&target, &folder.settings.profile) else { return Ok(None) };
        if live.info.record == Some(kept.record) && live.info.mode == Mode::Fork {
            return Ok(Some(Made { files: kept.files_count, bytes: kept.bytes, mounted: true }));
        }
        let (shown, profile) = (target.display(), &folder.settings.profile);
        let message = format!("{shown} is no fork of cp-{} of {profile}", kept.slot);
        Err(Failure::new(ErrorKind::TargetExists, message).hint(format!(
            "`pstore mount {profile}@{} ANOTHER-DIRECTORY --fork --chrome-major 65535` makes one",
            kept.tag
        )))
    }

    async fn restored_fork(
        &self,
        folder: &WorkspaceFolder,
        kept: &Kept,
        target: PathBuf,
    ) -> Result<Made, Failure> {
        let tenant = self.tenant(&folder.settings.profile.tenant).await?;
        let (record, _) = records::get(&tenant, &folder.lineage(), kept.record).await?;
        let restoring = restore::Request {
            paths: Vec::new(),
            target,
            force: false,
            keeping: Keeping { owner: false, special: true },
            threads: threads(),
            inspector: None,
            point_of_no_return: PointOfNoReturn::default(),
        };
        let report = restore::restore(&tenant, &record, &restoring, self.progress()).await?;
        Ok(Made { files: report.files, bytes: report.bytes, mounted: false })
    }

    /// Makes a workspace what a fork of it has become. Both stay: the fork gets a checkpoint, and what the workspace was is in
    /// `before-restore`.
    #[crate::boxed]
    pub async fn workspace_promote(&self, request: &PromoteRequest) -> Result<RevertOutcome, Failure> {
        let (fork, folder) =
            (WorkspaceFolder::open(self, &request.fork)?, WorkspaceFolder::open(self, &request.directory)?);
        let (profile, tenant) = (&fork.settings.profile, &folder.settings.profile.tenant);
        if fork.path == folder.path || profile.tenant != *tenant {
            let message = format!("{} is no fork of {}", request.fork.display(), request.directory.display());
            return Err(
                Failure::usage(message).hint("name the fork first, then the workspace that becomes like it")
            );
        }
        let wanted = wanted_of(&CheckpointRequest {
            trigger: Trigger::RunEnd,
            description: format!("promoted to {}", folder.settings.profile),
            ..CheckpointRequest::manual(fork.directory().to_owned(), None)
        })?;
        let lock = fork.lock().await?;
        let kept = self.take_checkpoint(&fork, &lock, &wanted).await?.kept;
        drop(lock);
        self.workspace_revert(&RevertRequest {
            directory: request.directory.clone(),
            path: None,
            to: Some(format!("cp-{}", kept.slot)),
            of: Some(fork.directory().to_owned()),
            preview: request.preview,
        })
        .await
    }

    fn fork_name(&self, folder: &WorkspaceFolder, request: &ForkRequest) -> Result<ProfileName, Failure> {
        let ProfileName { tenant, profile } = &folder.settings.profile;
        let target = std::path::absolute(&request.target).unwrap_or_else(|_| request.target.clone());
        let name = format!("{tenant}/{}.{}", profile.as_str(), profile_word(&target));
        name.parse().map_err(|error: store::name::InvalidName| {
            Failure::usage(format!("no profile can be named after {}: {error}", request.target.display()))
                .hint(format!("name one: {tenant}/PROFILE"))
        })
    }
}
