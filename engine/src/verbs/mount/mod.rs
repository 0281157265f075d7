//! `mount` mounts a profile. A process of its own serves the mount: the front end starts it.

pub mod daemon;

use std::{fs, io, sync::Arc, time::Duration};

use fuse::mount::{info::Mode, is_stale, status::Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{ErrorKind, name::ChromeMajor};

use crate::{
    Engine,
    failure::Failure,
    host::supervise::{self, Signals},
    lineages::require_browser,
    mount::{
        Notes,
        call::SentOutcome,
        live::LiveMount,
        publication::require_loadable,
        serving::{EndedBy, Serving},
    },
    outcome::Outcome,
};

pub use fuse::{adapter::Owner as MountOwner, mount::info::Mode as MountMode};

pub use crate::mount::{MountRequest, OnDiverged, OnLockLost};

/// How long a mount that is being made is waited for when it is not wanted any more: what it may have
/// taken is given back.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// A mount that can be used.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MountOutcome {
    /// The mount.
    #[serde(flatten)]
    pub status: Status,
    /// Warnings, though it is mounted.
    pub warnings: Vec<String>,
}

impl Outcome for MountOutcome {}

impl SentOutcome for MountOutcome {
    fn with_verdict(self, _: Option<Failure>) -> Self {
        self
    }
}

impl Engine {
    /// Mounts a profile, and returns when it can be used. `launch` starts a process that calls
    /// [`Self::serve_mount`] with the same request, and hands on the outcome or the failure that it tells.
    pub async fn mount<L>(
        &self,
        request: &MountRequest,
        launch: impl FnOnce() -> L,
    ) -> Result<MountOutcome, Failure>
    where
        L: Future<Output = Result<MountOutcome, Failure>>,
    {
        self.check_mount(request)?;
        launch().await
    }

    /// Mounts a profile that this process serves from then on, until [`crate::mount::until_done`] returns.
    /// One of `signals` ends it before it is ready, and gives back what it has taken.
    #[crate::boxed(?Send)]
    pub async fn serve_mount(
        &self,
        request: &MountRequest,
        signals: &mut Signals,
    ) -> Result<(Arc<Serving>, MountOutcome), Failure> {
        self.check_mount(request)?;
        let beginning = daemon::begin(self, request, EndedBy::Anybody);
        let give_back = async |(serving, _): (Arc<Serving>, Notes)| drop(serving.put_aside().await);
        let begun = supervise::take(signals, &self.interrupt, beginning, LAST_BREATH, give_back).await;
        let (serving, notes) = begun.map_err(|failure| match failure.kind {
            ErrorKind::Interrupted => {
                Failure { message: "interrupted before the mount was ready".to_owned(), ..failure }
            }
            _ => failure,
        })?;
        let warnings = notes.told();
        warnings.iter().for_each(|warning| self.warn(warning));
        let outcome = MountOutcome { status: serving.mount.status().await, warnings };
        Ok((serving, outcome))
    }

    /// Refuses to save or continue work in progress where that cannot be.
    fn check_work_in_progress(&self, request: &MountRequest) -> Result<(), Failure> {
        if request.mode != Mode::Locked && (request.autosave.is_some() || request.from_wip) {
            return Err(Failure::usage("--autosave and --from wip go with a mount that takes the lock")
                .hint(
                    "`@wip` after the profile's name mounts its work in progress with --read-only or --fork",
                ));
        }
        match request.autosave {
            Some(_) => {
                let tenant = &request.source.profile.tenant;
                require_loadable(&self.settings.tenant(tenant), tenant)
            }
            None => Ok(()),
        }
    }

    /// Refuses what is wrong with the request and the place alone.
    fn check_mount(&self, request: &MountRequest) -> Result<(), Failure> {
        if request.source.chosen().is_some() && request.mode == Mode::Locked {
            let message = "a chosen snapshot can be mounted with --read-only or --fork";
            return Err(Failure::usage(message)
                .hint("`pstore rollback` makes it the current one, to go on from there"));
        }
        if request.load.upgrade_from.is_some() && request.mode != Mode::Locked {
            return Err(Failure::usage("--upgrade-from goes with a mount that takes the lock"));
        }
        if request.writeback && request.mode == Mode::ReadOnly {
            return Err(Failure::usage("--writeback goes with a mount that can be changed")
                .hint("leave out --read-only or --writeback"));
        }
        request.load.check(request.chrome_major)?;
        let is_workspace = request.chrome_major == Some(ChromeMajor::WORKSPACE);
        if request.mode == Mode::Locked && !is_workspace {
            require_browser(request.chrome_major)?;
        }
        self.check_work_in_progress(request)?;
        // A mountpoint whose daemon is stuck would not even tell that it is stale.
        LiveMount::all(&self.settings)?;
        if is_stale(&request.mountpoint) {
            return Ok(());
        }
        let shown = request.mountpoint.display();
        let mut entries = fs::read_dir(&request.mountpoint).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::new(ErrorKind::NotFound, format!("there is no directory {shown}"))
                    .hint(format!("`mkdir -p {shown}` makes it"))
            }
            _ => Failure::new(ErrorKind::Io, format!("{shown} cannot be mounted on: {error}")),
        })?;
        self.location.keep_apart(&request.mountpoint)?;
        if entries.next().is_some() {
            let failure = Failure::new(ErrorKind::TargetExists, format!("{shown} is not empty"));
            return Err(failure.hint("mount on an empty directory; `pstore mounts` shows what is mounted"));
        }
        Ok(())
    }
}
