//! `preparation` takes what a command needs before it starts: the lock, a mount, or the loaded profile. A signal
//! interrupts this, and `preparation` releases what was taken.

use std::{pin::pin, time::Duration};

use rustix::process::Signal;
use store::{ErrorKind, catalog::lock::Hold, ops::point_of_no_return::PointOfNoReturn};

use super::Signals;
use crate::{failure::Failure, interrupt::Interrupt};

/// Takes what the command needs, a lock or a mount. After a signal nobody waits for another holder any
/// more, and what was taken is given back.
pub async fn take<T>(
    signals: &mut Signals,
    interrupt: &Interrupt,
    taking: impl Future<Output = Result<T, Failure>>,
    patience: Duration,
    give_back: impl AsyncFnOnce(T),
) -> Result<T, Failure> {
    let mut taking = pin!(taking);
    let number = tokio::select! {
        taken = &mut taking => return taken,
        number = signals.next() => number,
    };
    interrupt.raise();
    if let Ok(Ok(taken)) = tokio::time::timeout(patience, taking).await {
        give_back(taken).await;
    }
    Err(interrupted(number))
}

/// How long a request that may just have taken the lock is waited for.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// Takes the lock. After a signal it is not kept.
pub async fn take_lock(
    signals: &mut Signals,
    interrupt: &Interrupt,
    taking: impl Future<Output = Result<Hold, Failure>>,
) -> Result<Hold, Failure> {
    take(signals, interrupt, taking, LAST_BREATH, release).await
}

async fn release(hold: Hold) {
    if let Err(error) = hold.release().await {
        tracing::warn!(%error, "the lock could not be given back; it expires by itself");
    }
}

/// Loads the profile. After a signal nothing is moved into place any more.
pub async fn prepare<T>(
    signals: &mut Signals,
    point_of_no_return: &PointOfNoReturn,
    loading: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut loading = pin!(loading);
    let number = tokio::select! {
        loaded = &mut loading => return loaded,
        number = signals.next() => number,
    };
    if !point_of_no_return.prevent() {
        // It is being moved; the command that has to remove it must find it there.
        loading.await.ok();
    }
    Err(interrupted(number))
}

/// As a shell would tell it of the command, which was never started.
fn interrupted(number: Signal) -> Failure {
    let message = "interrupted before the command was started; the lock is free and nothing was captured";
    let code = u8::try_from(128 + number.as_raw()).ok();
    Failure { exit: code, ..Failure::new(ErrorKind::Interrupted, message) }
}
