//! `lock` takes, renews, gives back and shows the lock of a profile.

pub mod hold;

use std::{ops::RangeInclusive, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    ErrorKind,
    catalog::{
        lineage_handle::LineageHandle,
        lock::{self, Terms},
    },
    format::{lock::Lock, pointer::Target},
    id::Nonce,
    name::Lineage,
};

use crate::{
    Engine,
    failure::Failure,
    names::{ActorName, LineageName},
    outcome::{LineageFields, Outcome},
};

/// As the setting has it. A shorter lock is lost to any server or disk that is slow for a moment; one
/// that nobody gives back must end some day.
const TTL: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(86_400);

/// Takes a lock that outlives the process.
#[derive(Clone, Debug)]
pub struct AcquireLockRequest {
    /// The profile of the lock.
    pub lineage: LineageName,
    /// The actor.
    pub actor: ActorName,
    /// How long to wait for another holder.
    pub wait: Duration,
    /// How long the lock holds without being renewed; as the settings say if it is not said.
    pub ttl: Option<Duration>,
}

/// Renews or gives back a lock that is held.
#[derive(Clone, Debug)]
pub struct HeldLockRequest {
    /// The profile of the lock.
    pub lineage: LineageName,
    /// The actor.
    pub actor: ActorName,
    /// The token; from the environment of the run if it is not said.
    pub token: Option<Nonce>,
}

/// The contract's fields of a lock.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LockFields {
    /// The profile of the lock.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The run that holds it.
    pub holder_run_id: String,
    /// The host that holds it.
    pub holder_host: String,
    /// Which run of the host it is.
    pub holder_host_run_id: String,
    /// When it was taken.
    pub acquired_at_ms: u64,
    /// When it was renewed last.
    pub renewed_at_ms: u64,
    /// When it ends unless it is renewed.
    pub expires_at_ms: u64,
    /// How often it was renewed.
    pub renewal_count: u64,
}

/// How a lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Acquisition {
    /// It was free.
    Acquired,
    /// Its holder had let it expire, or was dead.
    ForcedExpired,
}

/// A lock that was taken.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AcquireLockOutcome {
    /// How it was taken.
    pub outcome: Acquisition,
    /// The lock.
    #[serde(flatten)]
    pub lock: LockFields,
    /// Proves that a process acts for the holder.
    pub token: Nonce,
    /// The current snapshot; empty if there is none.
    pub active_sha256_prefix: String,
    /// How long it holds unless it is renewed.
    #[serde(skip)]
    pub ttl: Duration,
    /// Whether there is a current snapshot.
    #[serde(skip)]
    pub has_current: bool,
}

/// A lock goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// It holds for another while.
    Renewed,
}

/// A lock that was renewed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RenewLockOutcome {
    /// That it goes on.
    pub outcome: Renewal,
    /// The lock.
    #[serde(flatten)]
    pub lock: LockFields,
    /// Proves that a process acts for the holder.
    pub token: Nonce,
    /// How long it holds unless it is renewed again.
    #[serde(skip)]
    pub ttl: Duration,
}

/// How a lock was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// It is free.
    Released,
    /// It was not held with this token any more.
    NotHeld,
}

/// A lock that was given back.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReleaseLockOutcome {
    /// How it was given back.
    pub outcome: Release,
    /// The profile of the lock.
    #[serde(flatten)]
    pub lineage: LineageFields,
}

/// Whether anybody holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockState {
    /// Nobody.
    Free,
    /// Somebody.
    Held,
    /// Nobody any more; the next one to come takes it.
    Expired,
}

/// A lock as it is now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ShowLockOutcome {
    /// Nobody holds it.
    Free {
        /// The profile of the lock.
        #[serde(flatten)]
        lineage: LineageFields,
        /// Free.
        #[schemars(schema_with = "free")]
        state: LockState,
    },
    /// Somebody holds it, or has let it expire.
    Taken(Box<TakenLock>),
}

/// A lock that is not free.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TakenLock {
    /// The lock.
    #[serde(flatten)]
    pub lock: LockFields,
    /// Whether it is held.
    #[schemars(schema_with = "taken")]
    pub state: LockState,
    /// How long it holds unless it is renewed.
    pub remaining_ms: u64,
    /// Whether pstore took it.
    pub pstore: bool,
    /// Whether its holder can move the pointer.
    pub claimed: bool,
    /// Whether the process that held it is dead.
    #[serde(skip)]
    pub is_orphan: bool,
    /// How long ago it expired.
    #[serde(skip)]
    pub expired_for: Option<Duration>,
}

fn free(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "enum": ["free"] })
}

fn taken(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "enum": ["held", "expired"] })
}

impl Outcome for AcquireLockOutcome {}
impl Outcome for RenewLockOutcome {}
impl Outcome for ReleaseLockOutcome {}
impl Outcome for ShowLockOutcome {}

impl Engine {
    /// Takes the lock of a lineage, which need not exist yet.
    #[crate::boxed]
    pub async fn acquire_lock(&self, request: &AcquireLockRequest) -> Result<AcquireLockOutcome, Failure> {
        let handle = self.lock_handle(&request.lineage, &request.actor).await?;
        let settings = self.settings.tenant(&handle.lineage().name.tenant);
        let ttl = request.ttl.unwrap_or(settings.lock_ttl);
        if !TTL.contains(&ttl) {
            return Err(Failure::usage("--ttl takes from 5 to 86400 seconds").hint("--ttl 300"));
        }
        let patience = self.patience(&request.lineage.profile, request.wait);
        // This process may end at once; the lock must not end with it.
        let hold = handle.acquire(Terms { ttl, with_process: false }, patience).await?;
        let (token, held, pointer) = (hold.token().await, hold.lock().await, hold.pointer().await);
        Ok(AcquireLockOutcome {
            outcome: match hold.outcome() {
                lock::Outcome::ForcedExpired => Acquisition::ForcedExpired,
                lock::Outcome::Acquired | lock::Outcome::Held => Acquisition::Acquired,
            },
            lock: LockFields::of(handle.lineage(), &held),
            token,
            has_current: !matches!(pointer.target(), Target::Nothing),
            active_sha256_prefix: pointer.active_sha256_prefix.clone(),
            ttl,
        })
    }

    /// Renews a lock that is held.
    #[crate::boxed]
    pub async fn renew_lock(&self, request: &HeldLockRequest) -> Result<RenewLockOutcome, Failure> {
        let (handle, token) = self.held_lock(request).await?;
        let hold = handle.adopt(token).await?;
        let lock = hold.renew().await?;
        Ok(RenewLockOutcome {
            outcome: Renewal::Renewed,
            token: hold.token().await,
            ttl: lock.ttl(),
            lock: LockFields::of(handle.lineage(), &lock),
        })
    }

    /// Gives a lock back.
    #[crate::boxed]
    pub async fn release_lock(&self, request: &HeldLockRequest) -> Result<ReleaseLockOutcome, Failure> {
        let (handle, token) = self.held_lock(request).await?;
        let released = match handle.lock().await? {
            Some(read) => handle.release(token, read).await?,
            None => false,
        };
        let outcome = if released { Release::Released } else { Release::NotHeld };
        Ok(ReleaseLockOutcome { outcome, lineage: handle.lineage().into() })
    }

    /// Tells whether a lock is held with this token, and has not expired.
    #[crate::boxed]
    pub async fn holds_lock(&self, request: &HeldLockRequest) -> Result<bool, Failure> {
        let (handle, token) = match self.held_lock(request).await {
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        let read = handle.lock().await?;
        Ok(read.is_some_and(|read| read.lock.is_held_by(token) && handle.is_live(&read)))
    }

    /// Tells who holds a lock.
    #[crate::boxed]
    pub async fn show_lock(&self, lineage: &LineageName) -> Result<ShowLockOutcome, Failure> {
        let (tenant, lineage) = self.lineage_to_judge(lineage).await?;
        let handle = LineageHandle::new(tenant, lineage.clone(), Default::default());
        let survey = handle.survey().await?;
        let Some(read) = survey.lock.as_ref().filter(|read| !read.lock.is_free()) else {
            return Ok(ShowLockOutcome::Free { lineage: (&lineage).into(), state: LockState::Free });
        };
        let claim = survey.pointer.as_ref().and_then(|read| read.pointer.block()?.lease.as_ref());
        let claimed = read.lock.block().zip(claim).is_some_and(|(block, claim)| block.nonce == claim.nonce);
        Ok(ShowLockOutcome::Taken(Box::new(TakenLock {
            lock: LockFields::of(&lineage, &read.lock),
            state: if handle.is_live(read) { LockState::Held } else { LockState::Expired },
            remaining_ms: read.remaining().as_millis() as u64,
            pstore: read.lock.block().is_some(),
            claimed,
            is_orphan: handle.is_orphan(read),
            expired_for: read.expired_for(),
        })))
    }

    /// The pointer and lock of a lineage that need not exist yet.
    #[crate::boxed]
    pub async fn lock_handle(&self, lineage: &LineageName, by: &ActorName) -> Result<LineageHandle, Failure> {
        let (tenant, lineage) = self.writable_lineage(lineage).await?;
        Ok(LineageHandle::new(tenant, lineage, self.actor(by)))
    }

    async fn held_lock(&self, request: &HeldLockRequest) -> Result<(LineageHandle, Nonce), Failure> {
        let token = self.lock_token(request.token)?.ok_or_else(|| {
            Failure::usage("--token is missing").hint("it is what `pstore lock acquire` has printed")
        })?;
        let (tenant, lineage) = self.lineage_to_change(&request.lineage).await?;
        Ok((LineageHandle::new(tenant, lineage, self.actor(&request.actor)), token))
    }
}

impl LockFields {
    fn of(lineage: &Lineage, lock: &Lock) -> Self {
        Self {
            lineage: lineage.into(),
            holder_run_id: lock.holder_run_id.clone(),
            holder_host: lock.holder_host.clone(),
            holder_host_run_id: lock.holder_host_run_id.clone(),
            acquired_at_ms: lock.acquired_at_ms,
            renewed_at_ms: lock.renewed_at_ms,
            expires_at_ms: lock.expires_at_ms,
            renewal_count: lock.renewal_count,
        }
    }
}
