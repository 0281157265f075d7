//! `mount` turns the arguments of `pstore mount` into a request, and its outcome into text.

use engine::{Engine, failure::Failure, verbs::mount::MountOutcome};
use fuse::mount::info::Mode;

use crate::{answer::Answer, args::MountArgs, daemon};

pub(super) async fn run(engine: Engine, args: &MountArgs) -> Result<Answer, Failure> {
    let request = args.request();
    if args.foreground || args.daemon {
        return daemon::serve(engine, &request, args.daemon, text).await;
    }
    answer(&engine.mount(&request, || daemon::start(&engine.interrupt)).await?)
}

pub(crate) fn answer(outcome: &MountOutcome) -> Result<Answer, Failure> {
    let brief = Some(format!("{}\n", outcome.status.mountpoint.display()));
    Ok(Answer { brief, ..Answer::of(outcome, text(outcome))? })
}

/// The text for a mount that is ready.
fn text(outcome: &MountOutcome) -> String {
    let status = &outcome.status;
    let profile = format!("{}/{}", status.tenant_id, status.profile_id);
    let what = match &status.sha256_prefix {
        Some(sha) => format!("{profile} {sha}"),
        None => format!("{profile} (empty)"),
    };
    let how = match status.mode {
        Mode::ReadOnly => ", read-only",
        Mode::Fork => ", a fork",
        Mode::Locked if status.resumed => ", continued",
        Mode::Locked => "",
    };
    format!("mounted {what} on {}{how}\n", status.mountpoint.display())
}
