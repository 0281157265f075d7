//! `hold` runs a command under the lock of a profile, and stops it when the lock is lost.

use std::{ffi::OsString, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;
use store::{ErrorKind, catalog::lock::Terms};

use crate::{
    Engine,
    engine::LOCK_TOKEN,
    failure::Failure,
    host::supervise::{self, Signals},
    names::{ActorName, LineageName},
    outcome::{LineageFields, Outcome},
};

/// Runs a command while the lock is held. The command finds the token in its environment.
#[derive(Clone, Debug)]
pub struct HoldLockRequest {
    /// The profile of the lock.
    pub lineage: LineageName,
    /// The actor.
    pub actor: ActorName,
    /// How long to wait for another holder.
    pub wait: Duration,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoldEnd {
    /// By itself, or by a signal.
    Ended,
    /// It was stopped, because the lock was lost.
    LockLost,
}

/// A command that ran under the lock.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HoldLockOutcome {
    /// How the command ended.
    pub outcome: HoldEnd,
    /// The profile of the lock.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The exit code of the command, as a shell tells it.
    pub command_exit_code: u8,
    #[serde(skip)]
    lost: Option<String>,
}

impl Outcome for HoldLockOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.lost.clone().map(|message| Failure::new(ErrorKind::LockLost, message))
    }
}

impl Engine {
    /// Runs a command under the lock of a profile.
    #[crate::boxed]
    pub async fn hold_lock(&self, request: &HoldLockRequest) -> Result<HoldLockOutcome, Failure> {
        let mut command = supervise::command(&request.command)?;
        let mut signals = Signals::listen();
        let settings = self.settings.tenant(&request.lineage.profile.tenant);
        let taking = async {
            let handle = self.lock_handle(&request.lineage, &request.actor).await?;
            let terms = Terms { ttl: settings.lock_ttl, with_process: true };
            let patience = self.patience(&request.lineage.profile, request.wait);
            Ok(handle.acquire(terms, patience).await?)
        };
        let hold = Arc::new(supervise::take_lock(&mut signals, &self.interrupt, taking).await?);
        command.envs([
            (LOCK_TOKEN, OsString::from(hold.token().await.to_string())),
            ("PSTORE_RUN_ID", OsString::from(&hold.handle().actor().run_id)),
        ]);
        let renewer = hold.keep(settings.lock_renew);
        let ended = supervise::run(self, &mut signals, command, None, Some(&renewer), None).await;
        drop(renewer);
        if let Err(error) = hold.release().await {
            self.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
        }
        let ended = ended?;
        Ok(HoldLockOutcome {
            outcome: if ended.lost.is_some() { HoldEnd::LockLost } else { HoldEnd::Ended },
            lineage: hold.handle().lineage().into(),
            command_exit_code: ended.code,
            lost: ended.lost,
        })
    }
}
