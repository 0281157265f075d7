//! `pstore commit`

use std::{sync::Arc, time::Duration};

use fuse::mount::{CommitRequest, To};
use serde_json::json;
use store::{
    ErrorKind,
    catalog::{controls::Controls, lock::Terms},
    name::{Lineage, ProfileName},
    ops::snapshot::Outcome,
    progress::Silent,
};

use super::{
    capture as capturing,
    mount::{Serving, remote},
    snapshot,
};
use crate::{
    answer::Answer,
    args::{CaptureArgs, CommitArgs},
    failure::Failure,
    settings::Settings,
};

/// How long files may stay open for writing after the browser has ended.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(settings: &Settings, args: &CommitArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    remote::forward(remote::at(settings, &args.mountpoint)?).await
}

/// In the daemon.
pub(super) async fn serve(serving: &Arc<Serving>, args: &CommitArgs) -> Result<Answer, Failure> {
    commit(serving, &args.capture, args.other.as_ref()).await
}

pub(super) async fn commit(
    serving: &Arc<Serving>,
    args: &CaptureArgs,
    other: Option<&ProfileName>,
) -> Result<Answer, Failure> {
    let (context, mount) = (&serving.context, &serving.mount);
    let actor = match mount.hold() {
        Some(hold) => hold.controls().actor().clone(),
        None => context.actor(&args.actor),
    };
    let (to, lineage) = match other {
        None => (To::Own, mount.lineage.clone()),
        Some(name) if name.tenant != mount.lineage.name.tenant => {
            let message =
                format!("{name} is another tenant's; a mount can be committed within its own alone");
            return Err(Failure::usage(message));
        }
        Some(name) => {
            let lineage = Lineage { name: name.clone(), chrome_major: mount.lineage.chrome_major };
            let controls = Controls::new(mount.tenant.clone(), lineage.clone(), actor.clone());
            let ttl = context.settings.tenant(&name.tenant).lock_ttl;
            let hold = controls.acquire(Terms { ttl, with_process: true }, Duration::ZERO).await?;
            (To::Other { lineage: lineage.clone(), hold: Arc::new(hold) }, lineage)
        }
    };
    let committed = async {
        let still = capturing::hold_still(&mount.info.mountpoint, args).await?;
        let (about, examiner, hold_back) =
            capturing::judged(context, args, &actor, still, mount.info.fallback.as_deref())?;
        let request = CommitRequest {
            to: to.clone(),
            about,
            // Only the profile's own snapshot would be replaced.
            hold_back: hold_back.filter(|_| other.is_none()),
            examiner: Some(examiner),
            threads: crate::threads(),
            quota_bytes: context.settings.tenant(&lineage.name.tenant).quota_bytes,
            patience: PATIENCE,
        };
        let (report, frozen_for) = mount.commit(request, Arc::new(Silent)).await?;
        Ok::<_, Failure>((report, frozen_for))
    }
    .await;
    if let To::Other { hold, .. } = &to
        && let Err(error) = hold.release().await
    {
        tracing::warn!(%error, "the lock could not be given back; it expires by itself");
    }
    let (report, frozen_for) = committed.map_err(|failure| explained(failure, serving))?;
    let warnings = capturing::warnings(&report);
    let mut document = snapshot::document(&lineage, &report, &warnings);
    document["frozen_ms"] = json!(frozen_for.as_secs_f64() * 1000.0);
    let text = match report.outcome {
        Outcome::Unchanged => format!("nothing has changed since {}\n", report.sha256_prefix),
        Outcome::Stored => format!(
            "{} {}: {} of {} files changed, {} stored\n",
            lineage.name,
            report.sha256_prefix,
            report.read_files,
            report.counts.files,
            crate::size::bytes(report.counts.stored_bytes)
        ),
    };
    let verdict = capturing::held_back(&report);
    let brief = Some(format!("{}\n", report.snapshot_id));
    Ok(Answer { brief, verdict, ..Answer::new(document, text) })
}

/// What can be done with changes that could not be committed.
fn explained(failure: Failure, serving: &Serving) -> Failure {
    let mountpoint = serving.mount.info.mountpoint.display();
    match failure.kind {
        ErrorKind::LockLost | ErrorKind::PointerMoved | ErrorKind::PointerNotFlipped => failure.hint(format!(
            "the changes are still in the mount: `pstore commit {mountpoint} --as TENANT/PROFILE` stores them elsewhere, \
             `pstore unmount {mountpoint} --discard` drops them; `pstore log` tells who else was here"
        )),
        _ => failure,
    }
}
