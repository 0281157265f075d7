//! `run` runs a command on a profile, from lock to unlock. `host/supervise` stops the command when the lock is lost.
//!
//! It mounts the profile. If it cannot mount, or the user asks for it, it copies the profile.

mod command;
mod copied;
mod mounted;
mod request;
mod run_end;
mod without_store;
mod workdir;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use schemars::JsonSchema;
use serde::Serialize;
use store::{ErrorKind, ops::read::resolve::Reference};

use self::run_end::{Captured, RunEnd};
use crate::{
    Engine,
    captures::{CapturedFields, StoreChange},
    copies,
    failure::{Failure, document::ErrorFields},
    host::{supervise::Signals, user::User},
    lineages::require_browser,
    mount::publication::require_loadable,
    outcome::{LineageFields, LoadResult, Outcome},
    text::size,
};

pub use self::request::RunRequest;

/// How a command ended, and which snapshot the run has left.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunOutcome {
    /// The profile.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// Whether the profile was mounted; else it was copied.
    pub mounted: bool,
    /// How the load ended.
    pub load: LoadResult,
    /// Why the profile was empty.
    pub load_reason: Option<String>,
    /// The exit code of the command, as a shell tells it.
    pub command_exit_code: u8,
    /// Whether somebody else has taken the lock. Then nothing was captured.
    pub lock_lost: bool,
    /// Whether the profile was not captured, or its snapshot was held back.
    pub snapshot_failed: bool,
    /// Why.
    pub snapshot_error: Option<ErrorFields>,
    /// The snapshot.
    pub snapshot: Option<CapturedFields>,
    /// The session that holds the changes that were not captured.
    pub session: Option<String>,
    /// Warnings about the load.
    pub warnings: Vec<String>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for RunOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}

impl Engine {
    /// Runs a command on a profile.
    #[crate::boxed(?Send)]
    pub async fn run(&self, request: &RunRequest) -> Result<RunOutcome, Failure> {
        request.capture.check()?;
        request.capture.require_cold("a run, which captures when its command has ended,")?;
        request.load.check(request.chrome_major)?;
        require_browser(request.chrome_major)?;
        let reference = request.reference()?;
        if let (true, Some(reference)) = (request.from_wip, reference) {
            return Err(Failure::usage(format!(
                "--from wip and @{reference} name two snapshots to start from"
            )));
        }
        if request.autosave.is_some() {
            let tenant = &request.profile().tenant;
            require_loadable(&self.settings.tenant(tenant), tenant)?;
        }
        if request.command.is_empty() {
            return Err(Failure::usage("there is no command to run"));
        }
        if request.user.is_some() && request.directory.is_some() {
            return Err(Failure::usage("a directory that stays is not given to another user")
                .hint("leave the user out, or the directory"));
        }
        let user = request.user.as_deref().map(User::find).transpose()?;
        // The command could read our environment in `/proc`, if it is started as the same user.
        if let Err(errno) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%errno, "the command may be able to read the credentials of the store");
        }
        copies::warn_of(self, request.profile());
        let mut signals = Signals::listen();
        let ended = if self.is_mounted(request, reference) {
            mounted::run(self, request, user.as_ref(), &mut signals).await
        } else {
            if request.autosave.is_some() {
                self.warn("the profile is copied, and a copy's work in progress is not saved");
            }
            if request.writeback {
                self.warn("the profile is copied, and --writeback is of a mount");
            }
            copied::run(self, request, user.as_ref(), &mut signals).await
        };
        let ended = match ended {
            Err(failure) if without_store::is_wanted(self, request, reference, &failure) => {
                without_store::run(self, request, user.as_ref(), &mut signals, failure).await?
            }
            ended => ended?,
        };
        Ok(self.outcome_of(request, ended))
    }

    /// Whether the profile is mounted for the command.
    fn is_mounted(&self, request: &RunRequest, reference: Option<&Reference>) -> bool {
        // A chosen snapshot, or a directory that is to stay, cannot be a mount of the current one.
        if request.copy || request.directory.is_some() || reference.is_some() {
            return false;
        }
        match fuse::mount::is_possible() {
            Ok(()) => true,
            Err(error) => {
                self.warn(&format!("the profile is copied, since nothing can be mounted: {error}"));
                false
            }
        }
    }

    fn outcome_of(&self, request: &RunRequest, ended: RunEnd) -> RunOutcome {
        let RunEnd { lineage, mounted, load, mut command_end, captured, session } = ended;
        // That somebody has taken the lock away may be noticed only when the pointer is to be moved.
        if let Some(Err(failure)) = &captured
            && failure.kind == ErrorKind::LockLost
        {
            command_end.lost.get_or_insert_with(|| failure.message.clone());
        }
        let mut outcome = RunOutcome {
            lineage: (&lineage).into(),
            mounted,
            load: load.outcome.into(),
            load_reason: load.reason,
            command_exit_code: command_end.code,
            lock_lost: command_end.lost.is_some(),
            snapshot_failed: false,
            snapshot_error: None,
            snapshot: None,
            session,
            warnings: load.warnings,
            verdict: command_end.lost.map(|message| Failure::new(ErrorKind::LockLost, message)),
        };
        let failed = match captured {
            _ if outcome.lock_lost => None,
            Some(Ok(Captured { report, remarks })) => {
                let snapshot = CapturedFields::of(&lineage, &report, remarks);
                snapshot.warnings.iter().for_each(|warning| self.warn(warning));
                self.say(&stored(&snapshot));
                let held_back = snapshot.verdict();
                outcome.snapshot = Some(snapshot);
                held_back.inspect(|failure| self.warn(&failure.message))
            }
            Some(Err(failure)) => {
                self.warn(&format!("the profile was not captured: {}", failure.message));
                Some(failure)
            }
            None => None,
        };
        if let Some(failure) = failed {
            outcome.snapshot_failed = true;
            outcome.snapshot_error = Some((&failure).into());
            if let Some(hint) = &failure.hint {
                self.say(&format!("hint: {hint}"));
            }
            if request.load.require {
                outcome.verdict = Some(Failure::new(failure.kind, failure.message));
            }
        }
        outcome
    }
}

/// The snapshot that a run has left, in words.
fn stored(snapshot: &CapturedFields) -> String {
    let (name, prefix) = (snapshot.lineage.lineage().name, &snapshot.sha256_prefix);
    match (snapshot.outcome, snapshot.held_back) {
        (StoreChange::Unchanged, _) => {
            format!("captured {name}: nothing has changed since snapshot {prefix}")
        }
        (StoreChange::Stored, None) => format!(
            "captured {name}: snapshot {prefix} is the current one, {} new",
            size::bytes(snapshot.new_bytes)
        ),
        (StoreChange::Stored, Some(_)) => {
            format!("captured {name}: snapshot {prefix} is stored and held back")
        }
    }
}
