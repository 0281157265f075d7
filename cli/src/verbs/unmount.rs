//! `pstore unmount`

use std::sync::Arc;

use engine::{failure::Failure, settings::Settings};
use fuse::mount::Mount;
use serde_json::{Value, json};
use store::{Error, ErrorKind};

use super::{
    capture as capturing, commit,
    mount::{Serving, remote},
};
use crate::{answer::Answer, args::UnmountArgs};

const NAMED_AT_MOST: usize = 10;

pub(super) async fn run(settings: &Settings, args: &UnmountArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    remote::forward(remote::at(settings, &args.mountpoint).await?).await
}

/// In the daemon.
pub(super) async fn serve(serving: &Arc<Serving>, args: &UnmountArgs) -> Result<Answer, Failure> {
    let mount = &serving.mount;
    let mut committed = Value::Null;
    let mut text = String::new();
    if args.commit {
        let answer = commit::commit(serving, &args.capture, commit::Asked::default()).await?;
        if let Some((ErrorKind::HeldBack, _)) = &answer.verdict {
            // It is stored, but is not the current one: somebody has to decide.
            return Ok(answer);
        }
        (committed, text) = (answer.document, answer.text);
    } else if mount.is_at_stake() && !args.discard && !args.keep {
        let (paths, count) = mount.at_stake(NAMED_AT_MOST);
        return Err(Error::Uncommitted { mountpoint: mount.info.mountpoint.clone(), paths, count }.into());
    }
    if let Err(failure) = serving.unmount().await {
        return if committed.is_null() { Err(failure) } else { Ok(still_mounted(mount, committed, failure)) };
    }
    // Asked only now: until it was unmounted somebody may have written more, after the commit.
    let kept = !args.discard && mount.is_at_stake();
    if kept {
        mount.set_aside().await;
    } else {
        mount.end().await?;
    }
    serving.finish();
    let shown = mount.info.mountpoint.display();
    text.push_str(&format!("unmounted {shown}\n"));
    if kept {
        text.push_str(&format!(
            "changes that are not committed are kept in session {}\n",
            mount.session_id()
        ));
    }
    let document = json!({
        "mountpoint": mount.info.mountpoint,
        "session": mount.session_id(),
        "kept": kept,
        "discarded": args.discard,
        "committed": committed,
    });
    Ok(Answer { brief: Some(String::new()), ..Answer::new(document, text) })
}

/// The commit was made, and the mount is in use: both are told.
fn still_mounted(mount: &Mount, committed: Value, failure: Failure) -> Answer {
    let shown = mount.info.mountpoint.display();
    let document = json!({
        "mountpoint": mount.info.mountpoint,
        "session": mount.session_id(),
        "kept": mount.is_at_stake(),
        "discarded": false,
        "committed": committed,
    });
    let text = format!("committed {shown} as {}\n", committed["sha256_prefix"].as_str().unwrap_or_default());
    let message = format!(
        "the changes are committed, but {}; end what uses it, then `pstore unmount {shown}`",
        failure.message
    );
    Answer { verdict: Some((failure.kind, message)), ..Answer::new(document, text) }
}
