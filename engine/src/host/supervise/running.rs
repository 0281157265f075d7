//! `Running` is the command while it runs, with the processes that it has started.

use std::{io, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::{
    process::{Child, Command},
    runtime::Handle,
};

use crate::host::{signals, user::User};

/// How long a command may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(8);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where there is no terminal the command leads a process group, and signals go to all of it:
/// a browser behind a script is told, too. On a terminal it stays in our group, since another
/// would be in the background there and be stopped as soon as it reads; what is typed reaches
/// everybody, and what we tell reaches the command alone.
pub(super) struct Running {
    child: Child,
    id: Option<Pid>,
    leads_a_group: bool,
}

impl Running {
    /// As `user`, or with our own rights.
    pub(super) fn start(mut command: Command, user: Option<&User>) -> io::Result<Self> {
        let leads_a_group = !signals::have_a_terminal();
        if leads_a_group {
            command.process_group(0);
        }
        let runtime = Handle::current();
        let child = match user {
            Some(user) => user.act(|| {
                let _entered = runtime.enter();
                command.spawn()
            })?,
            None => command.spawn()?,
        };
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, id, leads_a_group })
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// They may have ended just now.
    pub(super) fn signal(&self, number: Signal) {
        match self.id {
            Some(id) if self.leads_a_group => drop(kill_process_group(id, number)),
            // The number of one that was waited for may be another's.
            Some(id) if self.child.id().is_some() => drop(kill_process(id, number)),
            _ => {}
        }
    }

    /// SIGTERM, and SIGKILL to the processes that are left when the time is up.
    pub(super) async fn stop(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        let ended = async {
            let status = self.child.wait().await;
            while self.leads_a_group && self.id.is_some_and(|id| test_kill_process_group(id).is_ok()) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            status
        };
        if let Ok(status) = tokio::time::timeout(PATIENCE, ended).await {
            return status;
        }
        self.signal(Signal::KILL);
        self.child.wait().await
    }
}
