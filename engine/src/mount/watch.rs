//! `watch` waits for the end of a mount: somebody unmounts it, or a signal comes.
//!
//! When the mount's lock is lost, `watch` warns. By the choice in `OnLockLost` it then does no more, makes the mount
//! read-only, or ends the browser; the mount itself goes on.

use std::{sync::Arc, time::Duration};

use capture::chrome::stop::{self, StopOptions};
use tokio::sync::watch;

use super::{request::OnLockLost, serving::Serving};
use crate::host::supervise::Signals;

/// How often it is looked whether somebody has unmounted it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Waits until the mount is over, and sees to it meanwhile.
#[crate::boxed]
pub async fn until_done(serving: &Arc<Serving>, signals: &mut Signals, on_lock_lost: OnLockLost) {
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
    let upkeep = serving.upkeep();
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
    serving.tell_reads();
    drop(upkeep);
    watching.abort();
}

async fn when_lost(serving: &Arc<Serving>, on_lock_lost: OnLockLost) {
    match on_lock_lost {
        OnLockLost::Warn => {}
        OnLockLost::Freeze => {
            let mount = Arc::clone(&serving.mount);
            let frozen = tokio::task::spawn_blocking(move || {
                // What was written until now was taken; the kernel may have kept some of it.
                let written_out = mount.write_out();
                mount.fs.make_read_only();
                written_out
            });
            if let Ok(Err(error)) = frozen.await {
                tracing::warn!(%error, "writes that the kernel has kept are refused from now on");
            }
        }
        OnLockLost::Kill => {
            let mountpoint = serving.mount.info.mountpoint.clone();
            let stopped =
                tokio::task::spawn_blocking(move || stop::stop(&mountpoint, &StopOptions::default())).await;
            if let Ok(Err(error)) = stopped {
                tracing::warn!(%error, "the browser could not be ended");
            }
        }
    }
}
