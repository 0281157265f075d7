//! `process` starts children that cannot outlive their test.

use std::{
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Sender, channel},
    thread,
};

use parking_lot::Mutex;

/// Killed when dropped, and by the kernel when the test process ends in any other way.
#[derive(Debug)]
pub(crate) struct Process {
    child: Mutex<Child>,
    /// Keeps the thread below alive.
    _alive: Sender<()>,
}

impl Process {
    pub(crate) fn spawn(program: &Path, arguments: Vec<String>) -> Self {
        Self::spawn_with(program, |command| {
            command.args(arguments);
        })
    }

    /// The kernel sends the signal when the *thread* that started the child ends, and a
    /// test's own thread ends with the test; so a thread is kept for it.
    pub(crate) fn spawn_with(program: &Path, prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        prepare(&mut command);
        let (alive, wait) = channel::<()>();
        let (tell, told) = channel();
        thread::spawn(move || {
            tell.send(command.spawn()).ok();
            wait.recv().ok();
        });
        let child = told.recv().unwrap().expect("setpriv (util-linux) starts");
        Self { child: Mutex::new(child), _alive: alive }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.lock().id()
    }

    pub(crate) fn runs(&self) -> bool {
        matches!(self.child.lock().try_wait(), Ok(None))
    }

    pub(crate) fn kill(&self) {
        let mut child = self.child.lock();
        child.kill().ok();
        child.wait().ok();
    }

    pub(crate) fn wait(&self) -> ExitStatus {
        self.child.lock().wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
