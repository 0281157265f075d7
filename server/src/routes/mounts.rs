//! `mounts` makes, lists, commits and ends mounts on the server's host, for containers that may not mount.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::http::Method;
use engine::{
    captures::CaptureMode,
    failure::Failure,
    interrupt::Interrupt,
    names::SnapshotName,
    outcome::Outcome,
    verbs::{
        commit::{CommitOutcome, CommitRequest},
        mount::{MountMode, MountOutcome, MountOwner, MountRequest},
        mounts::{ListedMount, MountsRequest},
        sessions::SetAsideRequest,
        unmount::{UncommittedChanges, UnmountOutcome, UnmountRequest},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    ErrorKind,
    catalog::clock,
    id::RecordId,
    name::{ChromeMajor, Profile, ProfileName, Tenant},
};

use crate::{
    call::{Answer, Call, ChangeOf, answer},
    delivery::Delivery,
    mounts::Mounts,
    observer::RequestObserver,
    peer::LocalUser,
    problem::Refusal,
    route::{Access::Token, Route, Sent::Document},
    schemas::{received, sent},
    tokens::Role,
};

/// How long a mount may wait for another holder of the lock.
const MAX_WAIT_SECONDS: u64 = 60;
/// How rarely the work in progress of a mount may be saved.
const MAX_AUTOSAVE_SECONDS: u64 = 86_400;

pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "list_mounts",
        Method::GET,
        "/v1/mounts",
        Token(Role::Read),
        "Lists what is mounted on the server's host through it, or through one before it",
        Document(sent::<MountList>),
        |call| Box::pin(list(call)),
    ),
    Route::new(
        "mount",
        Method::POST,
        "/v1/mounts",
        Token(Role::Run),
        "Mounts a profile on a new directory of the server's host",
        Document(sent::<MadeMount>),
        |call| Box::pin(mount(call)),
    )
    .told()
    .body(received::<MountBody>)
    .replayed_while(|call, answer| Box::pin(is_there(call, answer))),
    Route::new(
        "commit_mount",
        Method::POST,
        "/v1/mounts/{mount_id}/commit",
        Token(Role::Run),
        "Makes what was changed in a mount the profile's next snapshot",
        Document(sent::<CommitOutcome>),
        |call| Box::pin(commit(call)),
    )
    .told()
    .query(received::<CommitQuery>),
    Route::new(
        "unmount",
        Method::DELETE,
        "/v1/mounts/{mount_id}",
        Token(Role::Run),
        "Ends a mount; one with changes only if it is said what becomes of them",
        Document(sent::<UnmountOutcome>),
        |call| Box::pin(unmount(call)),
    )
    .told()
    .query(received::<UnmountQuery>),
];

/// The profile or snapshot to mount, and the mode.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MountBody {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profile of the tenant.
    pub profile_id: Profile,
    /// A snapshot of it: first digits of its id, a tag, `latest~1` or a time; the current one if it is not said.
    /// Another than the current one goes with `fork` or `read_only`.
    pub sha_prefix: Option<String>,
    /// The major version of the Chrome that will use it; the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// Without a lock; its changes cannot become a snapshot of this profile.
    #[serde(default)]
    pub fork: bool,
    /// Without a lock, and without changes.
    #[serde(default)]
    pub read_only: bool,
    /// Let all users of the host use it, as far as the modes of the files let them; if the server was started for
    /// that.
    #[serde(default)]
    pub allow_other: bool,
    /// How many seconds to wait for another holder of the lock, from 0 to 60; 0 if it is not said.
    #[serde(default)]
    pub wait: u64,
    /// How many seconds lie between two saves of its work in progress, from 1 to 86400; none is saved if it is not said.
    pub autosave: Option<u64>,
    /// Start from the work in progress that a run has left.
    #[serde(default)]
    pub from_wip: bool,
}

/// The kind of commit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitQuery {
    /// Whether the browser is ended first; `cold` if it is not said. `hot` needs the setting `modes` of the tenant.
    pub mode: Option<CaptureMode>,
}

/// The treatment of changes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnmountQuery {
    /// The treatment of uncommitted changes; without it, a mount that has some stays.
    pub changes: Option<Changes>,
}

/// The treatment of uncommitted changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Changes {
    /// They are committed first.
    Commit,
    /// They are thrown away.
    Discard,
    /// They are left for another mount of this host to continue.
    Keep,
    /// They stay on the host, and no mount continues them: `pstore sessions` lists them there.
    SetAside,
}

impl From<Changes> for UncommittedChanges {
    fn from(changes: Changes) -> Self {
        match changes {
            Changes::Commit => Self::Commit,
            Changes::Discard => Self::Discard,
            Changes::Keep | Changes::SetAside => Self::Keep,
        }
    }
}

/// A mount that can be used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MadeMount {
    /// Names the mount.
    pub mount_id: RecordId,
    /// The mount: `mountpoint` is its path on the server's host.
    #[serde(flatten)]
    pub mount: MountOutcome,
}

/// The profile or snapshot to mount.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MountList {
    /// Each mount.
    pub mounts: Vec<NamedMount>,
}

/// A mount of the server's host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamedMount {
    /// Names the mount.
    pub mount_id: RecordId,
    /// The mount, as `pstore mounts` has it.
    #[serde(flatten)]
    pub mount: ListedMount,
}

/// The mounts of this server, if it has any.
fn mounts(call: &Call) -> Result<Arc<Mounts>, Failure> {
    call.server.mounts.clone().ok_or_else(|| {
        Failure::new(ErrorKind::NotFound, "this server makes no mounts")
            .hint("its operator starts it on a host with FUSE and with --mounts DIRECTORY")
    })
}

/// A mount that the caller may see.
struct VisibleMount {
    named: NamedMount,
    tenant: Tenant,
    path: PathBuf,
}

/// Those below the directory whose tenants are the caller's.
async fn seen(call: &Call, mounts: &Mounts) -> Result<Vec<VisibleMount>, Failure> {
    let listed = call.engine.mounts(&MountsRequest::default()).await?.mounts;
    Ok(listed
        .into_iter()
        .filter_map(|mount| {
            let (tenant, path) = match &mount {
                ListedMount::Served(served) => {
                    (served.status.tenant_id.clone(), served.status.mountpoint.clone())
                }
                ListedMount::Unanswered(mount) => (mount.tenant_id.parse().ok()?, mount.mountpoint.clone()),
                ListedMount::Unknown(_) => return None,
            };
            let mount_id = mounts.id_of(&tenant, &path)?;
            call.require_tenant(Some(&tenant)).ok()?;
            Some(VisibleMount { named: NamedMount { mount_id, mount }, tenant, path })
        })
        .collect())
}

async fn list(call: Call) -> Answer {
    let mounts = mounts(&call)?;
    let seen = seen(&call, &mounts).await?;
    answer(&MountList { mounts: seen.into_iter().map(|seen| seen.named).collect() })
}

async fn mount(call: Call) -> Answer {
    let body: MountBody = call.document()?;
    call.require_tenant(Some(&body.tenant_id))?;
    let mounts = mounts(&call)?;
    if body.fork && body.read_only {
        return Err(Failure::usage("a mount is a fork or read-only, not both").into());
    }
    if body.wait > MAX_WAIT_SECONDS {
        return Err(Failure::usage(format!("wait takes a number from 0 to {MAX_WAIT_SECONDS}")).into());
    }
    if body.autosave.is_some_and(|seconds| !(1..=MAX_AUTOSAVE_SECONDS).contains(&seconds)) {
        return Err(
            Failure::usage(format!("autosave takes a number from 1 to {MAX_AUTOSAVE_SECONDS}")).into()
        );
    }
    if body.allow_other && !mounts.for_others {
        return Err(Refusal::forbidden("this server makes no mounts for all users of its host"));
    }
    let tenant = body.tenant_id.clone();
    let room = call.server.waiting.take_for(&tenant)?;
    let profile = ProfileName { tenant: body.tenant_id, profile: body.profile_id };
    let source: SnapshotName = match &body.sha_prefix {
        Some(reference) => {
            format!("{profile}@{reference}").parse().map_err(|error: String| Failure::usage(error))?
        }
        None => SnapshotName::current(profile),
    };
    let mount_id = clock::new_record_id();
    let request = MountRequest {
        chrome_major: body.chrome_major_version,
        mode: match (body.read_only, body.fork) {
            (true, _) => MountMode::ReadOnly,
            (_, true) => MountMode::Fork,
            _ => MountMode::Locked,
        },
        allow_other: body.allow_other,
        actor: call.actor(),
        wait: Duration::from_secs(body.wait),
        autosave: body.autosave.map(Duration::from_secs),
        from_wip: body.from_wip,
        owner: owner(&call),
        ..MountRequest::new(source, mounts.make(&tenant, mount_id)?)
    };
    let made = call.engine.mount(&request, || (mounts.launcher.0)(&request)).await;
    drop(room);
    if made.is_err() {
        mounts.remove(&tenant, mount_id);
    }
    let mount = made?;
    if call.engine.interrupt.is_raised() {
        // Nobody is left to be told its name, and so nobody would end it.
        give_back(&call, &request.mountpoint).await?;
        mounts.remove(&tenant, mount_id);
        return Err(Failure::new(ErrorKind::Interrupted, "the caller went away").into());
    }
    let mut response = told(&tenant, &MadeMount { mount_id, mount })?;
    let (begun, stopping) = (call.server.work.begin(), call.server.stopping.clone());
    let undoing = async move {
        tracing::warn!("the caller of mount {mount_id} went away before it was told; the mount is ended");
        match give_back(&call, &request.mountpoint).await {
            Ok(()) => mounts.remove(&tenant, mount_id),
            Err(failure) => tracing::warn!("mount {mount_id} stays: {}", failure.message),
        }
    };
    response.extensions_mut().insert(Delivery::new(begun, stopping, undoing));
    Ok(response)
}

/// The part of an earlier answer that finds its mount again.
#[derive(Deserialize)]
struct MadeBefore {
    mount_id: RecordId,
}

/// Whether a mount is still there that was made with this answer.
async fn is_there(call: &Call, answer: &[u8]) -> Result<bool, Refusal> {
    let made: MadeBefore = serde_json::from_slice(answer)
        .map_err(|error| Failure::internal(format!("the answer cannot be read again: {error}")))?;
    let seen = seen(call, &*mounts(call)?).await?;
    Ok(seen.iter().any(|seen| seen.named.mount_id == made.mount_id))
}

/// The user that the mount is for, if the kernel tells and it is not the server's own: nobody else gets in.
fn owner(call: &Call) -> Option<MountOwner> {
    let own = rustix::process::geteuid().as_raw();
    call.shown.user.filter(|user| user.uid != own).map(|LocalUser { uid, gid }| MountOwner { uid, gid })
}

/// Ends a mount that nobody has used. What a session before it has left stays for the next one.
async fn give_back(call: &Call, path: &Path) -> Result<(), Failure> {
    let observer = Arc::new(RequestObserver { request_id: call.request_id.clone() });
    let engine = call.server.engine.for_request(observer, Interrupt::new());
    let changes = Some(UncommittedChanges::Keep);
    engine.unmount(&UnmountRequest { changes, ..UnmountRequest::new(path.to_owned()) }).await?;
    Ok(())
}

/// The mount that the path names, if the caller may see it.
async fn named(call: &Call, mounts: &Mounts) -> Result<VisibleMount, Failure> {
    let typed = call.segment("mount_id")?;
    let id: RecordId =
        typed.parse().map_err(|error: store::id::InvalidId| Failure::usage(error.to_string()))?;
    let found = seen(call, mounts).await?.into_iter().find(|seen| seen.named.mount_id == id);
    found.ok_or_else(|| {
        Failure::new(ErrorKind::NotFound, format!("there is no mount {id}"))
            .hint("`GET /v1/mounts` lists those there are")
    })
}

async fn commit(call: Call) -> Answer {
    let query: CommitQuery = call.query()?;
    let mounts = mounts(&call)?;
    let VisibleMount { tenant, path, .. } = named(&call, &mounts).await?;
    let mut request = CommitRequest::new(path);
    request.capture.actor = call.actor();
    request.capture.mode = query.mode.unwrap_or_default();
    judged(&tenant, &call.engine.commit(&request).await?)
}

async fn unmount(call: Call) -> Answer {
    let query: UnmountQuery = call.query()?;
    let mounts = mounts(&call)?;
    let VisibleMount { named, tenant, path } = named(&call, &mounts).await?;
    let mut request = UnmountRequest { changes: query.changes.map(Into::into), ..UnmountRequest::new(path) };
    request.capture.actor = call.actor();
    let ended = call.engine.unmount(&request).await.map_err(|failure| match failure.kind {
        ErrorKind::Uncommitted => failure.hint(
            "?changes=commit stores them, ?changes=discard drops them, ?changes=keep leaves them for the next mount",
        ),
        _ => failure,
    })?;
    if ended.verdict().is_none() {
        mounts.remove(&tenant, named.mount_id);
    }
    if let (Some(Changes::SetAside), UnmountOutcome::Ended(mount)) = (query.changes, &ended)
        && mount.kept
    {
        call.engine.set_session_aside(&SetAsideRequest { session: mount.session.clone() })?;
    }
    judged(&tenant, &ended)
}

/// The outcome; or a refusal, if something failed though something was done.
fn judged<T: Outcome>(tenant: &Tenant, outcome: &T) -> Answer {
    match outcome.verdict() {
        Some(failure) => Err(Refusal::from(failure)),
        None => told(tenant, outcome),
    }
}

/// Answers with the outcome, and has it told among the events of the tenant.
fn told(tenant: &Tenant, outcome: &impl Serialize) -> Answer {
    let mut response = answer(outcome)?;
    response.extensions_mut().insert(ChangeOf(tenant.clone()));
    Ok(response)
}
