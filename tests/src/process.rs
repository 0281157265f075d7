//! A child that cannot outlive its test.

use std::{
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        mpsc::{Sender, channel},
    },
    thread,
};

/// Killed when dropped, and by the kernel when the test process ends in any other way.
#[derive(Debug)]
pub(super) struct Process {
    child: Mutex<Child>,
    /// Keeps the thread below alive.
    _alive: Sender<()>,
}

impl Process {
    /// The kernel sends the signal when the *thread* that started the child ends, and a
    /// test's own thread ends with the test; so a thread is kept for it.
    pub(super) fn spawn(program: &std::path::Path, arguments: Vec<String>) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (alive, wait) = channel::<()>();
        let (tell, told) = channel();
        thread::spawn(move || {
            tell.send(command.spawn()).ok();
            wait.recv().ok();
        });
        let child = told.recv().unwrap().expect("setpriv (util-linux) starts");
        Self { child: Mutex::new(child), _alive: alive }
    }

    pub(super) fn runs(&self) -> bool {
        matches!(self.child.lock().unwrap().try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        child.kill().ok();
        child.wait().ok();
    }
}
