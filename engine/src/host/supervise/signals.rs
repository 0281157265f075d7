//! `Signals` are those sent to the process that runs a command for somebody.

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind};

use crate::host::signals;

/// Before the command is started they end everything; then what others tell us to do is told
/// to the command, which decides when it is done.
#[derive(Debug)]
pub struct Signals {
    terminate: Option<Listener>,
    hang_up: Option<Listener>,
    interrupt: Option<Listener>,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Self {
        Self {
            terminate: signals::listen(SignalKind::terminate()),
            hang_up: signals::listen(SignalKind::hangup()),
            interrupt: signals::listen(SignalKind::interrupt()),
        }
    }

    /// The next one.
    #[crate::boxed]
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            () = signals::next(&mut self.terminate) => Signal::TERM,
            () = signals::next(&mut self.hang_up) => Signal::HUP,
            () = signals::next(&mut self.interrupt) => Signal::INT,
        }
    }

    /// The next one that the command does not get by itself, as it does an interrupt from the
    /// terminal.
    pub(super) async fn next_to_pass_on(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::INT if signals::have_a_terminal() => {}
                number => return number,
            }
        }
    }
}
