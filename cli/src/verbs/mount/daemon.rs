//! The process behind `pstore mount`.

use std::{fs::File, io::Write, path::Path, sync::Arc, time::Duration};

use capture::chrome::stop::{self, StopOptions};
use engine::failure::Failure;
use serde_json::Value;
use store::ErrorKind;
use tokio::sync::watch;

use super::{
    super::{
        Engine,
        guard::{self, Signals},
    },
    choice::Notes,
    ready, remote,
    serving::{EndedBy, Serving},
};
use crate::{
    answer::Answer,
    args::{LossArg, MountArgs},
};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a mount that is being made is waited for when it is not wanted any more: what it may have
/// taken is given back.
const LAST_BREATH: Duration = Duration::from_secs(10);

pub(super) async fn serve(engine: Engine, args: &MountArgs) -> Result<Answer, Failure> {
    if args.daemon {
        // What ends the terminal does not end the mount.
        let _ = rustix::process::setsid();
    }
    let mut signals = Signals::listen();
    let (serving, answer) = match begin(&engine, args, &mut signals).await {
        Ok(begun) => begun,
        Err(failure) if args.daemon => {
            tell(&remote::sent(&Err(failure)));
            silence(None);
            return Err(Failure::new(ErrorKind::Io, "told already"));
        }
        Err(failure) => return Err(failure),
    };
    if args.daemon {
        tell(&remote::sent(&Ok(answer)));
        silence(Some(&serving.mount.session_path().join("log")));
    } else {
        engine.say(answer.text.trim_end());
    }
    until_done(&serving, &mut signals, args.on_lock_lost).await;
    Ok(Answer { brief: Some(String::new()), ..Answer::new(serving.mount.status().await, String::new()) })
}

async fn begin(
    engine: &Engine,
    args: &MountArgs,
    signals: &mut Signals,
) -> Result<(Arc<Serving>, Answer), Failure> {
    let beginning = Serving::begin(engine, args, EndedBy::Anybody);
    let give_back = async |(serving, _): (Arc<Serving>, Notes)| drop(serving.put_aside().await);
    let begun = guard::take(signals, &engine.interrupt, beginning, LAST_BREATH, give_back).await;
    let (serving, notes) = begun.map_err(|failure| match failure.kind {
        ErrorKind::Interrupted => {
            Failure { message: "interrupted before the mount was ready".to_owned(), ..failure }
        }
        _ => failure,
    })?;
    let warnings = notes.told();
    warnings.iter().for_each(|warning| engine.warn(warning));
    let status = serving.mount.status().await;
    let shown = serving.mount.info.mountpoint.display().to_string();
    Ok((serving, ready(&status, &shown, &warnings)))
}

/// Waits until the mount is over, and sees to it meanwhile.
async fn until_done(serving: &Arc<Serving>, signals: &mut Signals, on_lock_lost: LossArg) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    let (lost_sender, mut lost) = watch::channel(false);
    let watching = {
        let mount = Arc::clone(&serving.mount);
        tokio::spawn(async move {
            if let Some(keeper) = mount.keeper() {
                let error = keeper.lost().await;
                tracing::warn!(%error, "lock_lost: what is changed from now on cannot be committed to this profile");
                let _ = lost_sender.send(true);
            }
            std::future::pending::<()>().await
        })
    };
    let tidying = serving.tidying();
    loop {
        tokio::select! {
            () = serving.done() => break,
            _ = signals.next() => { serving.put_aside().await; break }
            _ = look.tick() => {
                if serving.has_ended() && !serving.is_over() {
                    serving.put_aside().await;
                    break;
                }
            }
            Ok(()) = lost.changed() => when_lost(serving, on_lock_lost).await,
        }
    }
    tidying.abort();
    watching.abort();
}

async fn when_lost(serving: &Arc<Serving>, on_lock_lost: LossArg) {
    match on_lock_lost {
        LossArg::Warn => {}
        LossArg::Freeze => serving.mount.fs.make_read_only(),
        LossArg::Kill => {
            let mountpoint = serving.mount.info.mountpoint.clone();
            let stopped =
                tokio::task::spawn_blocking(move || stop::stop(&mountpoint, &StopOptions::default())).await;
            if let Ok(Err(error)) = stopped {
                tracing::warn!(%error, "the browser could not be ended");
            }
        }
    }
}

/// One line for whoever waits.
fn tell(said: &Value) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{said}");
    let _ = stdout.flush();
}

/// From now on nobody listens; what is logged goes to `log`.
fn silence(log: Option<&Path>) {
    let nowhere = || File::options().write(true).open("/dev/null");
    if let Ok(nowhere) = nowhere() {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
    }
    let log = log.and_then(|path| File::options().create(true).append(true).open(path).ok());
    if let Some(log) = log.or_else(|| nowhere().ok()) {
        let _ = rustix::stdio::dup2_stderr(&log);
    }
}
