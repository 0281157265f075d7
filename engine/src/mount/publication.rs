//! `publication` makes the changes of a mount the next snapshot of a profile.

use std::{io, path::Path, sync::Arc, time::Duration};

use capture::{
    chrome::{
        held_cookies::{Attempt, Unwritten},
        stop,
    },
    marker::{self, Marker},
};
use fuse::mount::{Commit, CommitRequest, CommitTarget, Moment, Mount};
use store::{
    Error, ErrorKind,
    catalog::pointer::Flip,
    content::workers::blocking,
    format::{event::Actor, record::Mode},
    name::{Lineage, Tenant},
    ops::write::snapshot::Report,
    progress::Silent,
};

use super::destination::{Destination, DestinationRequest, passed_by};
use crate::{
    Engine,
    captures::{
        CaptureMode, CaptureOptions, CapturedFields, HOT_MODE_PAGE, Judgement, ProfileToCapture, in_use,
        over_quota,
    },
    engine::threads,
    failure::Failure,
    observer::CaptureSource,
    settings::TenantSettings,
};

/// How long files may stay open for writing after the browser has ended.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The remark about a commit, or a checkpoint, that may lack what `--writeback` has the kernel keep.
pub(crate) const KEPT_BY_THE_KERNEL: &str = "writes to files that are still open may be missing: the kernel keeps them (--writeback), and some of these files \
     cannot be opened, or were not written out in time; the daemon's log names them";

/// The outcome of a commit.
#[derive(Debug)]
pub struct Published {
    /// The profile of the snapshot.
    pub lineage: Lineage,
    /// The stored snapshot.
    pub report: Report,
    /// About the directory, whatever is in it.
    pub remarks: Vec<String>,
    /// The snapshot that was current before, though this one does not stand on it, in words.
    pub replaced: Option<String>,
    /// How long changes were delayed.
    pub frozen_for: Duration,
    /// Why what was committed is still in the session, if it is.
    pub left: Option<Error>,
}

impl Published {
    /// As every document tells it.
    pub fn fields(&self) -> CapturedFields {
        CapturedFields::of(&self.lineage, &self.report, self.remarks.clone())
    }
}

/// Ends the browser, unless it may run on, and makes what was changed the next snapshot of the mount's profile or of
/// another. A browser that runs on is known to leave some cookies `unwritten`.
pub async fn publish(
    engine: &Engine,
    mount: &Arc<Mount>,
    options: &CaptureOptions,
    asked: DestinationRequest<'_>,
    unwritten: &Unwritten,
) -> Result<Published, Failure> {
    let limit = engine.settings.tenant(&mount.lineage.name.tenant).max_profile_bytes;
    let replaces = asked.other.is_none_or(|name| *name == mount.lineage.name);
    let manner = Manner { max_bytes: Some(limit), replaces };
    let name = asked.other.unwrap_or(&mount.lineage.name).clone();
    let publication = within(engine, mount, options, asked, manner, unwritten);
    engine
        .observe_capture(&name, options.mode, CaptureSource::Mount, publication, |published| {
            &published.report
        })
        .await
}

/// The same for a session that was cut short, on a mount of the profile it is to go to: whatever
/// its size, it is not refused.
pub(super) async fn rescued(
    engine: &Engine,
    mount: &Arc<Mount>,
    options: &CaptureOptions,
    replaces: bool,
) -> Result<Published, Failure> {
    let manner = Manner { max_bytes: None, replaces };
    let (asked, unwritten) = (DestinationRequest::default(), Unwritten::default());
    let publication = within(engine, mount, options, asked, manner, &unwritten);
    let name = &mount.lineage.name;
    engine
        .observe_capture(name, options.mode, CaptureSource::Mount, publication, |published| &published.report)
        .await
}

#[derive(Clone, Copy)]
struct Manner {
    max_bytes: Option<u64>,
    /// Whether what the session began with is replaced.
    replaces: bool,
}

async fn within(
    engine: &Engine,
    mount: &Arc<Mount>,
    options: &CaptureOptions,
    asked: DestinationRequest<'_>,
    manner: Manner,
    unwritten: &Unwritten,
) -> Result<Published, Failure> {
    if mount.is_cut_off() {
        mount.reach(engine.writable_tenant(&mount.lineage.name.tenant).await?);
    }
    let actor = match mount.hold() {
        Some(hold) => hold.handle().actor().clone(),
        None => engine.actor(&options.actor),
    };
    let destination = Destination::choose(engine, mount, &actor, asked).await?;
    let keeper = match &destination.to {
        CommitTarget::Other { hold, lineage } => {
            let every = engine.settings.tenant(&lineage.name.tenant).lock_renew;
            Some(hold.keep(every.max(Duration::from_millis(1))))
        }
        CommitTarget::Own | CommitTarget::Aside(_) => None,
    };
    let mut attempt = Attempt::first(unwritten);
    let published = loop {
        let published = store(engine, mount, options, &actor, &destination, manner, &attempt).await;
        match attempt.next().filter(|_| published.is_err()) {
            Some(next) => attempt = next,
            None => break published,
        }
    };
    drop(keeper);
    destination.leave().await;
    let published = published?;
    engine.prune(mount.tenant()?, &published.lineage, &published.report).await;
    Ok(published)
}

async fn store(
    engine: &Engine,
    mount: &Arc<Mount>,
    options: &CaptureOptions,
    actor: &Actor,
    destination: &Destination,
    manner: Manner,
    attempt: &Attempt,
) -> Result<Published, Failure> {
    let Destination { to, lineage, replaced } = destination;
    let (to, lineage) = (to.clone(), lineage.clone());
    let settings = engine.settings.tenant(&lineage.name.tenant);
    engine.require_room(mount.tenant()?, &lineage, options).await?;
    // Its own commit is no good snapshot that somebody would lose.
    let goes_on = lineage == mount.lineage && stands_on_what_is_current(mount, &to).await;
    // From here to the moment of the commit is time in which cookies are set that it may lack: nothing waits for the store.
    let profile = match options.mode {
        CaptureMode::Cold => ProfileToCapture::stop_on_mount(&mount.info.mountpoint, options).await?,
        CaptureMode::Hot => {
            require_loadable(&settings, &lineage.name.tenant)?;
            ProfileToCapture::leave_running(&mount.info.mountpoint, mount.is_written_to(), attempt).await?
        }
    };
    let (mut remarks, marker) = (profile.remarks(), profile.marker().clone());
    let (fallback, of) = (mount.info.fallback.as_deref(), (mount.tenant()?, &lineage.name));
    let Judgement { about, examiner, hold_back } = engine.judge(options, actor, profile, fallback, of)?;
    let request = CommitRequest {
        hold_back: hold_back.filter(|_| manner.replaces && !goes_on),
        to,
        about,
        examiner: Some(examiner),
        threads: threads(),
        max_bytes: manner.max_bytes,
        quota_bytes: settings.quota_bytes,
        archive: Some(engine.publish_policy(&lineage.name.tenant)),
        moment: match options.mode {
            CaptureMode::Cold => Moment::Quiet { patience: PATIENCE },
            CaptureMode::Hot => Moment::Now,
        },
    };
    // What it says is in the record now, and what comes after is another snapshot.
    mark(&marker, &mount.info.mountpoint, |mountpoint, _| Marker::remove(mountpoint));
    match mount.commit(request, Arc::new(Silent)).await {
        Ok(Commit { report, frozen_for, left, may_lack_writes, .. }) => {
            let replaced = replaced.clone().filter(|_| report.flip != Flip::Unchanged);
            remarks.extend(attempt.remark());
            remarks.extend(may_lack_writes.then(|| KEPT_BY_THE_KERNEL.to_owned()));
            Ok(Published { lineage, report, remarks, replaced, frozen_for, left })
        }
        Err(error) => {
            mark(&marker, &mount.info.mountpoint, |mountpoint, marker| marker.write(mountpoint));
            let error = name_holders(&mount.info.mountpoint, error).await;
            Err(over_quota(mount.tenant()?, error).await)
        }
    }
}

/// Refuses a snapshot of a running browser where nobody would load it: the session that starts from it would start
/// empty.
pub(crate) fn require_loadable(settings: &TenantSettings, tenant: &Tenant) -> Result<(), Failure> {
    if settings.modes.contains(&Mode::Hot) {
        return Ok(());
    }
    let message =
        format!("{tenant} loads no snapshot of a running browser: its next session would start empty");
    Err(Failure::new(ErrorKind::NotImplemented, message).hint(format!(
        "add \"hot\" to the setting `modes` of {tenant}, and mount again: `pstore unmount DIR --keep` leaves the \
         changes for the next mount; {HOT_MODE_PAGE} says what that means"
    )))
}

/// The mount knows which files are open; the processes that have them open are found from outside.
async fn name_holders(mountpoint: &Path, error: Error) -> Error {
    if !matches!(error, Error::InUse { .. }) {
        return error;
    }
    let directory = mountpoint.to_owned();
    let found = blocking(move || stop::require_closed(&directory).map_err(|found| in_use(&directory, found)));
    match found.await {
        Err(named @ Error::InUse { .. }) => named,
        _ => error,
    }
}

/// Whether the current snapshot of the mount's profile is the one that it stands on.
async fn stands_on_what_is_current(mount: &Mount, to: &CommitTarget) -> bool {
    let hold = match to {
        CommitTarget::Other { hold, .. } => Some(hold),
        CommitTarget::Own | CommitTarget::Aside(_) => mount.hold(),
    };
    match hold {
        Some(hold) => passed_by(mount, hold).await.is_none(),
        None => false,
    }
}

/// Does something about a marker, if there is one; that it fails is no reason not to commit.
fn mark(marker: &Marker, mountpoint: &Path, change: impl FnOnce(&Path, &Marker) -> io::Result<()>) {
    if !marker.is_empty()
        && let Err(error) = change(mountpoint, marker)
    {
        tracing::warn!(%error, "{} could not be changed", mountpoint.join(marker::NAME).display());
    }
}
