//! `pstore commit`

mod destination;

use std::{io, path::Path, sync::Arc, time::Duration};

use capture::marker::{self, Marker};
use engine::{failure::Failure, settings::Settings};
use fuse::mount::{Commit, CommitRequest, Mount, To};
use serde_json::json;
use store::{
    Error, ErrorKind,
    catalog::pointer::Flip,
    format::event::Actor,
    name::Lineage,
    ops::write::snapshot::{Outcome, Report},
    progress::Silent,
};

use super::{
    Engine, capture as capturing,
    mount::{Serving, remote},
    snapshot,
};
use crate::{
    answer::Answer,
    args::{CaptureArgs, CommitArgs},
};

use destination::Destination;

pub(super) use destination::{Asked, passed_by};

/// How long files may stay open for writing after the browser has ended.
const PATIENCE: Duration = Duration::from_secs(5);

const ROOM: &str =
    "make room where the session lies: the next commit does the rest, and stores nothing twice";

pub(super) async fn run(settings: &Settings, args: &CommitArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    remote::forward(remote::at(settings, &args.mountpoint).await?).await
}

/// In the daemon.
pub(super) async fn serve(serving: &Arc<Serving>, args: &CommitArgs) -> Result<Answer, Failure> {
    let asked = Asked { other: args.other.as_ref(), force: args.force };
    commit(serving, &args.capture, asked).await
}

pub(super) async fn commit(
    serving: &Arc<Serving>,
    args: &CaptureArgs,
    asked: Asked<'_>,
) -> Result<Answer, Failure> {
    let mount = &serving.mount;
    let published = publish(&serving.engine, mount, args, asked).await;
    if let Err(failure) = &published {
        notice(failure, mount).await;
    }
    let Published { lineage, report, remarks, replaced, frozen_for, left } =
        published.map_err(|failure| explained(failure, mount))?;
    let warnings = snapshot::warnings(&report, remarks);
    let mut document = snapshot::document(&lineage, &report, &warnings);
    document["frozen_ms"] = json!(frozen_for.as_secs_f64() * 1000.0);
    document["replaced"] = json!(replaced);
    let mut text = match report.outcome {
        Outcome::Unchanged => format!("nothing has changed since {}\n", report.sha256_prefix),
        Outcome::Stored => format!(
            "{} {}: {} of {} files changed, {} stored\n",
            lineage.name,
            report.sha256_prefix,
            report.read_files,
            report.counts.files,
            engine::text::size::bytes(report.counts.stored_bytes)
        ),
    };
    text.extend(replaced.iter().map(|replaced| format!("it replaces {replaced}\n")));
    let behind = left.map(|left| (left.kind(), format!("{left}; {ROOM}")));
    let held_back = capturing::held_back(&report);
    let hint = held_back.is_some().then(|| capturing::moving(&lineage, report.record));
    let verdict = held_back.or(behind);
    let brief = Some(format!("{}\n", report.snapshot_id));
    Ok(Answer { brief, verdict, hint, ..Answer::new(document, text) })
}

/// A commit that was refused because the lock is lost tells the mount: whoever is told so finds it
/// in `pstore mounts`, and a mount that is to freeze does.
async fn notice(failure: &Failure, mount: &Mount) {
    if let (ErrorKind::LockLost | ErrorKind::PointerMoved, Some(keeper)) = (failure.kind, mount.keeper()) {
        keeper.look();
        let _ = tokio::time::timeout(PATIENCE, keeper.lost()).await;
    }
}

/// What a commit came to.
pub(super) struct Published {
    pub lineage: Lineage,
    pub report: Report,
    /// About the directory, whatever is in it.
    pub remarks: Vec<String>,
    /// The snapshot that was current before, though this one does not stand on it, in words.
    pub replaced: Option<String>,
    pub frozen_for: Duration,
    /// Why what was committed is still in the session, if it is.
    pub left: Option<Error>,
}

/// Ends the browser, and makes what was changed the next snapshot of the mount's profile or of
/// another.
pub(super) async fn publish(
    engine: &Engine,
    mount: &Arc<Mount>,
    args: &CaptureArgs,
    asked: Asked<'_>,
) -> Result<Published, Failure> {
    let limit = engine.settings.tenant(&mount.lineage.name.tenant).max_profile_bytes;
    let replaces = asked.other.is_none_or(|name| *name == mount.lineage.name);
    within(engine, mount, args, asked, Manner { max_bytes: Some(limit), replaces }).await
}

/// The same for a session that was cut short, on a mount of the profile it is to go to: whatever
/// its size, it is not refused.
pub(super) async fn rescued(
    engine: &Engine,
    mount: &Arc<Mount>,
    args: &CaptureArgs,
    replaces: bool,
) -> Result<Published, Failure> {
    within(engine, mount, args, Asked::default(), Manner { max_bytes: None, replaces }).await
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
    args: &CaptureArgs,
    asked: Asked<'_>,
    manner: Manner,
) -> Result<Published, Failure> {
    if mount.is_cut_off() {
        mount.reach(engine.writable_tenant(&mount.lineage.name.tenant).await?);
    }
    let actor = match mount.hold() {
        Some(hold) => hold.controls().actor().clone(),
        None => engine.actor(&args.actor.name()),
    };
    let destination = Destination::choose(engine, mount, &actor, asked).await?;
    let keeper = match &destination.to {
        To::Other { hold, lineage } => {
            let every = engine.settings.tenant(&lineage.name.tenant).lock_renew;
            Some(hold.keep(every.max(Duration::from_millis(1))))
        }
        To::Own => None,
    };
    let published = store(engine, mount, args, &actor, &destination, manner).await;
    drop(keeper);
    destination.leave().await;
    let published = published?;
    engine.prune(mount.tenant()?, &published.lineage, &published.report).await;
    Ok(published)
}

async fn store(
    engine: &Engine,
    mount: &Arc<Mount>,
    args: &CaptureArgs,
    actor: &Actor,
    destination: &Destination,
    manner: Manner,
) -> Result<Published, Failure> {
    let Destination { to, lineage, replaced } = destination;
    let (to, lineage) = (to.clone(), lineage.clone());
    let settings = engine.settings.tenant(&lineage.name.tenant);
    capturing::require_room(engine, mount.tenant()?, &lineage, args).await?;
    let still = capturing::hold_still(&mount.info.mountpoint, args).await?;
    let (remarks, marker) = (still.remarks(), still.marker().clone());
    let (fallback, of) = (mount.info.fallback.as_deref(), (mount.tenant()?, &lineage.name));
    let (about, examiner, hold_back) = capturing::judged(engine, args, actor, still, fallback, of)?;
    let request = CommitRequest {
        hold_back: hold_back.filter(|_| manner.replaces),
        to,
        about,
        examiner: Some(examiner),
        threads: engine::threads(),
        max_bytes: manner.max_bytes,
        quota_bytes: settings.quota_bytes,
        archive: Some(super::export::policy(engine, &lineage.name.tenant)),
        patience: PATIENCE,
    };
    // What it says is in the record now, and what comes after is another snapshot.
    mark(&marker, &mount.info.mountpoint, |mountpoint, _| Marker::remove(mountpoint));
    match mount.commit(request, Arc::new(Silent)).await {
        Ok(Commit { report, frozen_for, left }) => {
            let replaced = replaced.clone().filter(|_| report.flip != Flip::Unchanged);
            Ok(Published { lineage, report, remarks, replaced, frozen_for, left })
        }
        Err(error) => {
            mark(&marker, &mount.info.mountpoint, |mountpoint, marker| marker.write(mountpoint));
            Err(capturing::over_quota(mount.tenant()?, error).await)
        }
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

/// What can be done with changes that could not be committed.
fn explained(failure: Failure, mount: &Mount) -> Failure {
    let (name, mountpoint) = (&mount.lineage.name, mount.info.mountpoint.display());
    match failure.kind {
        ErrorKind::LockLost | ErrorKind::PointerMoved | ErrorKind::PointerNotFlipped => failure.hint(format!(
            "the changes are still in the mount: `pstore commit {mountpoint} --as {name}-rescued` stores them as another profile, \
             `--as {name} --force` replaces what is current, `pstore unmount {mountpoint} --discard` drops them; \
             `pstore log {name}` tells who else was here"
        )),
        _ => failure,
    }
}
