//! `life` starts and ends workspaces, and takes and deletes their checkpoints: in this process, or in the watcher.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use store::ErrorKind;

use super::{
    folder::{FolderLock, WorkspaceFolder, WorkspaceSettings, canonical},
    outcome::{
        CheckpointOutcome, CheckpointResult, DeletedCheckpointOutcome, Origin, RevertOutcome, WatchState,
        WorkspaceOutcome,
    },
    queries::told,
    request::{
        CheckpointRequest, DeleteCheckpointRequest, RevertRequest, StartRequest, StatusRequest, StopRequest,
        Trigger,
    },
    session_db::SessionDb,
    slots::{self, Ending},
    wanted::Wanted,
    watcher::client::{self, Verb},
};
use crate::{Engine, failure::Failure};

/// How long a watcher that was asked to end is waited for.
const LAST_BREATH: Duration = Duration::from_secs(60);
/// How long a trigger waits for a watcher or a store that does not answer, for somebody else who changes the workspace, and
/// for somebody else's lock of the lineage.
const TRIGGER_PATIENCE: Duration = Duration::from_secs(2);

impl Engine {
    /// Makes a directory a workspace, or goes on with one, and has it watched. `launch` starts a process that calls
    /// [`Self::watch_workspace`] with the same request, and waits until it says that it watches.
    pub async fn workspace_start<L>(
        &self,
        request: &StartRequest,
        launch: impl FnOnce() -> L,
    ) -> Result<WorkspaceOutcome, Failure>
    where
        L: Future<Output = Result<WorkspaceOutcome, Failure>>,
    {
        let folder = self.begin_workspace(request)?;
        if client::pid(&folder).is_some() {
            let shown = folder.directory().display();
            return Err(Failure::new(ErrorKind::InUse, format!("{shown} is watched already"))
                .hint(format!("`pstore workspace stop {shown}` ends the watcher")));
        }
        // Before anybody changes anything there is a state to go back to.
        let lock = folder.lock().await?;
        let wanted = wanted_of(&CheckpointRequest {
            trigger: Trigger::RunStart,
            description: "the workspace was started".to_owned(),
            ..CheckpointRequest::manual(folder.directory().to_owned(), None)
        })?;
        self.take_checkpoint(&folder, &lock, &wanted).await?;
        if let Err(failure) = self.end_lost_checkpoints(&folder, &lock).await {
            tracing::warn!(error = %failure.message, "what a process that was killed has left stays for now");
        }
        drop(lock);
        match request.without_watcher {
            true => self.told_of_workspace(&folder),
            false => launch().await,
        }
    }

    /// What a start fixes: what is asked for, else what was fixed before, else what the settings say.
    pub(crate) fn begin_workspace(&self, request: &StartRequest) -> Result<WorkspaceFolder, Failure> {
        let directory = canonical(&request.directory)?;
        self.location.keep_apart(&directory)?;
        let found = fs::metadata(&directory)
            .map_err(|error| Failure::new(ErrorKind::Io, format!("{}: {error}", directory.display())))?;
        let earlier = WorkspaceFolder::earlier(self, &directory)?;
        let shown = directory.display();
        let profile = match (&request.profile, &earlier) {
            (Some(asked), Some(earlier)) if *asked != earlier.profile => {
                let message = format!("{shown} is a workspace of {}, and not of {asked}", earlier.profile);
                return Err(Failure::new(ErrorKind::Conflict, message).hint(format!(
                    "`pstore workspace start {shown}` goes on with {}; `pstore workspace fork {shown} \
                     ANOTHER-DIRECTORY` makes a workspace with a profile of its own",
                    earlier.profile
                )));
            }
            (Some(asked), _) => asked.clone(),
            (None, Some(earlier)) => earlier.profile.clone(),
            (None, None) => {
                return Err(Failure::usage(format!("{shown} is no workspace yet, and has no profile"))
                    .hint(format!("`pstore workspace start {shown} TENANT/PROFILE`")));
            }
        };
        let pools = self.settings.workspace_pools();
        let fixed = |asked: Option<u64>, of: fn(&WorkspaceSettings) -> u64, default, what| match (
            asked,
            earlier.as_ref().map(of),
        ) {
            (Some(asked), Some(earlier)) if asked != earlier => {
                Err(Failure::usage(format!("{what} of {shown} is {earlier}: it is fixed at the first start"))
                    .hint("a fork, or another directory, may have another"))
            }
            (asked, earlier) => Ok(earlier.or(asked).unwrap_or(default)),
        };
        let settings = WorkspaceSettings {
            version: 1,
            device: found.dev(),
            inode: found.ino(),
            profile,
            store: self.location.shown(),
            auto_max: fixed(request.auto_max, |earlier| earlier.auto_max, pools.0, "auto_max")?,
            manual_max: fixed(request.manual_max, |earlier| earlier.manual_max, pools.1, "manual_max")?,
            auto_interval: fixed(request.auto_interval, |it| it.auto_interval, pools.2, "auto_interval")?,
            ignore_files: request.ignore_files
                || earlier.as_ref().is_some_and(|earlier| earlier.ignore_files),
            directory: directory.clone(),
        };
        if settings.auto_max < 2 || settings.auto_interval == 0 {
            // A revert takes one, and must not overwrite the one that it goes back to.
            return Err(Failure::usage("the ring needs two slots, and an interval of a second at least"));
        }
        if let Some(earlier) = earlier.filter(|earlier| earlier.store != settings.store) {
            let message = format!("the checkpoints of {shown} are in {}", earlier.store);
            return Err(Failure::usage(message).hint(format!("use --store {}", earlier.store)));
        }
        WorkspaceFolder::make(self, settings)
    }

    /// Ends the watcher, which stores what has changed first.
    #[crate::boxed]
    pub async fn workspace_stop(&self, request: &StopRequest) -> Result<WorkspaceOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let Some(pid) = client::pid(&folder) else {
            let shown = folder.directory().display();
            return Err(Failure::new(ErrorKind::NotFound, format!("nobody watches {shown}"))
                .hint(format!("`pstore workspace start {shown}` has it watched")));
        };
        client::end(pid)?;
        let began = Instant::now();
        while client::pid(&folder).is_some() {
            if began.elapsed() > LAST_BREATH {
                let message = format!("the watcher, process {pid}, does not end");
                return Err(
                    Failure::new(ErrorKind::InUse, message).hint(format!("`kill -9 {pid}` loses nothing"))
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.told_of_workspace(&folder)
    }

    /// How a workspace is.
    #[crate::boxed]
    pub async fn workspace_status(&self, request: &StatusRequest) -> Result<WorkspaceOutcome, Failure> {
        self.told_of_workspace(&WorkspaceFolder::open(self, &request.directory)?)
    }

    pub(crate) fn told_of_workspace(&self, folder: &WorkspaceFolder) -> Result<WorkspaceOutcome, Failure> {
        let slots = folder.slots()?;
        let watcher_pid = client::pid(folder);
        let settings = &folder.settings;
        Ok(WorkspaceOutcome {
            directory: settings.directory.clone(),
            tenant_id: settings.profile.tenant.clone(),
            profile_id: settings.profile.profile.clone(),
            store: settings.store.clone(),
            state: if watcher_pid.is_some() { WatchState::Watched } else { WatchState::Stopped },
            watcher_pid,
            method: self.method_of(folder),
            auto_max: settings.auto_max,
            manual_max: settings.manual_max,
            auto_interval: settings.auto_interval,
            auto_used: slots.used(Origin::Auto),
            manual_used: slots.used(Origin::Manual),
            failed_checkpoints: slots.failed,
            last_failure: slots.last_failure.clone(),
            ignore_files: settings.ignore_files,
            session_db: folder.session_db(),
        })
    }

    /// Takes a checkpoint, or has the watcher take it. One that a trigger asks for never fails, and keeps nobody waiting for
    /// somebody else: what went wrong is told, and counted if that can be done.
    #[crate::boxed]
    pub async fn workspace_checkpoint(
        &self,
        request: &CheckpointRequest,
    ) -> Result<CheckpointOutcome, Failure> {
        let wanted = wanted_of(request)?;
        match self.checkpoint_asked_for(request, &wanted).await {
            Err(failure) if wanted.origin == Origin::Auto => Ok(CheckpointOutcome::failed(&failure)),
            ended => ended,
        }
    }

    async fn checkpoint_asked_for(
        &self,
        request: &CheckpointRequest,
        wanted: &Wanted,
    ) -> Result<CheckpointOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        if wanted.origin == Origin::Manual {
            return match client::ask(&folder, Verb::Checkpoint, request, Duration::MAX).await {
                Some(answer) => answer,
                None => self.checkpoint_here(&folder, &folder.lock().await?, wanted).await,
            };
        }
        if !self.settings.has_workspace_trigger(wanted.trigger.word()) {
            return Ok(CheckpointOutcome::nothing(self.method_of(&folder), CheckpointResult::SwitchedOff));
        }
        if is_too_soon(&folder, wanted.trigger)? {
            return Ok(CheckpointOutcome::nothing(self.method_of(&folder), CheckpointResult::TooSoon));
        }
        match client::ask(&folder, Verb::Checkpoint, request, TRIGGER_PATIENCE).await {
            Some(Err(failure)) => {
                if let Some(lock) = folder.try_lock()? {
                    self.count_failure(&folder, &lock, wanted.trigger, &failure)?;
                }
                Err(failure)
            }
            Some(answer) => answer,
            None => {
                let began = Instant::now();
                let lock = folder.lock_within(TRIGGER_PATIENCE).await?;
                let wanted = wanted.clone().within(TRIGGER_PATIENCE.saturating_sub(began.elapsed()));
                self.checkpoint_here(&folder, &lock, &wanted).await
            }
        }
    }

    /// Takes a checkpoint in this process.
    pub(crate) async fn checkpoint_here(
        &self,
        folder: &WorkspaceFolder,
        lock: &FolderLock,
        wanted: &Wanted,
    ) -> Result<CheckpointOutcome, Failure> {
        match self.checkpoint_or_fail(folder, lock, wanted).await {
            Err(failure) if wanted.origin == Origin::Auto => {
                // On a full disk even that may fail; the agent's work goes on all the same.
                if let Err(uncounted) = self.count_failure(folder, lock, wanted.trigger, &failure) {
                    tracing::warn!(error = uncounted.message, "a failed checkpoint was not counted");
                }
                Ok(CheckpointOutcome {
                    method: self.method_of(folder),
                    ..CheckpointOutcome::failed(&failure)
                })
            }
            ended => ended,
        }
    }

    async fn checkpoint_or_fail(
        &self,
        folder: &WorkspaceFolder,
        lock: &FolderLock,
        wanted: &Wanted,
    ) -> Result<CheckpointOutcome, Failure> {
        let began = Instant::now();
        if wanted.origin == Origin::Auto && is_too_soon(folder, wanted.trigger)? {
            return Ok(CheckpointOutcome::nothing(self.method_of(folder), CheckpointResult::TooSoon));
        }
        let taken = match wanted.patience_ms {
            None => self.take_checkpoint(folder, lock, wanted).await?,
            Some(_) => tokio::select! {
                taken = self.take_checkpoint(folder, lock, wanted) => taken?,
                silence = self.silence_of_the_store(TRIGGER_PATIENCE) => return Err(silence),
            },
        };
        if wanted.origin == Origin::Auto && wanted.trigger != Trigger::Interval {
            let mut slots = folder.slots()?;
            slots.last_trigger_ms = slots::now_ms();
            folder.keep_slots(&slots, lock)?;
        }
        Ok(CheckpointOutcome {
            outcome: if taken.is_new { CheckpointResult::Created } else { CheckpointResult::Unchanged },
            checkpoint: Some(told(&SessionDb::open(&folder.session_db())?, &taken.kept)?),
            method: taken.stored.method,
            read_files: taken.stored.read_files,
            stored_bytes: taken.stored.stored_bytes,
            elapsed_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            pause_ms: taken.stored.pause_ms,
            warning: taken.stored.warning,
        })
    }

    /// Counts a checkpoint that failed. A trigger asks again an interval later: what failed slowly must not slow the agent
    /// down at each of its steps.
    pub(crate) fn count_failure(
        &self,
        folder: &WorkspaceFolder,
        lock: &FolderLock,
        trigger: Trigger,
        failure: &Failure,
    ) -> Result<(), Failure> {
        let mut slots = folder.slots()?;
        slots.failed += 1;
        slots.last_failure = Some(failure.message.clone());
        match trigger {
            Trigger::Interval => slots.last_auto_ms = slots::now_ms(),
            _ => slots.last_trigger_ms = slots::now_ms(),
        }
        folder.keep_slots(&slots, lock)
    }

    /// Gives files back as a checkpoint has them.
    #[crate::boxed]
    pub async fn workspace_revert(&self, request: &RevertRequest) -> Result<RevertOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        if let Some(path) = &request.path {
            super::compare::tree_path(folder.directory(), path)?;
        }
        // What the watcher has begun goes on, whatever becomes of this process.
        if !request.preview && client::pid(&folder).is_some() && !self.interrupt.point_of_no_return().make() {
            return Err(Failure::new(ErrorKind::Interrupted, "interrupted before anything was changed"));
        }
        if let Some(answer) = client::ask(&folder, Verb::Revert, request, Duration::MAX).await {
            return answer;
        }
        let lock = folder.lock().await?;
        self.revert_here(&folder, &lock, request, |_| ()).await
    }

    /// Deletes a checkpoint.
    #[crate::boxed]
    pub async fn workspace_delete(
        &self,
        request: &DeleteCheckpointRequest,
    ) -> Result<DeletedCheckpointOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let lock = folder.lock().await?;
        let mut slots = folder.slots()?;
        let kept = folder.checkpoint(&slots, Some(&request.checkpoint))?;
        let deleted = told(&SessionDb::open(&folder.session_db())?, &kept)?;
        let tenant = self.tenant_to_change(&folder.settings.profile.tenant).await?;
        slots.kept.remove(&kept.slot);
        slots.ending.push(Ending { record: kept.record, tag: kept.tag });
        folder.keep_slots(&slots, &lock)?;
        let snapshot_deleted = self.end_checkpoints(&folder, &lock, &tenant, &mut slots).await?;
        Ok(DeletedCheckpointOutcome { deleted, snapshot_deleted })
    }
}

/// Whether less than an interval has passed: for the timer since any automatic checkpoint, for a trigger since the last one
/// that a trigger took. The first one of a workspace is never too soon.
pub(crate) fn is_too_soon(folder: &WorkspaceFolder, trigger: Trigger) -> Result<bool, Failure> {
    let slots = folder.slots()?;
    let last_ms = match trigger {
        Trigger::Interval => slots.last_auto_ms,
        _ => slots.last_trigger_ms,
    };
    let since = slots::now_ms().checked_sub(last_ms);
    let interval_ms = folder.settings.auto_interval.saturating_mul(1000);
    Ok(!slots.kept.is_empty() && since.is_some_and(|since| since < interval_ms))
}

/// The checkpoint that a request is for, if it makes sense.
pub(crate) fn wanted_of(request: &CheckpointRequest) -> Result<Wanted, Failure> {
    let origin = match request.trigger {
        Trigger::Manual => Origin::Manual,
        _ => Origin::Auto,
    };
    if let Some(name) = &request.name {
        slots::check_name(name)?;
        if origin == Origin::Auto {
            let message = "a checkpoint that a trigger takes goes into the ring, and has no name";
            return Err(Failure::usage(message).hint("leave --trigger out, or --name"));
        }
    }
    Ok(Wanted {
        origin,
        name: request.name.clone(),
        trigger: request.trigger,
        description: request.description.clone(),
        run_id: request.run_id.clone(),
        spared: None,
        patience_ms: None,
        again: None,
    })
}
