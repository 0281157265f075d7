//! `control` asks the daemon of a mount, and answers for it: one JSON document each way over a socket in the
//! session's directory.
//!
//! Paths of sockets must be short and a session's may be long, so the socket is reached
//! through a handle of its directory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::AsRawFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{info::Info, kernel::release_if_stuck};
use crate::overlay::session::SessionDir;

const SOCKET: &str = "control";
const MAX_REQUEST: u64 = 1 << 20;
/// A daemon that says nothing for this long is not there.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// A whole commit runs on it, and takes more of it where the code is not optimised. What is not
/// used costs nothing.
const STACK_BYTES: usize = 16 << 20;
/// How often somebody who waits looks whether the daemon lives.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Listens for requests; each is answered on a thread of its own. After each answer `answered`
/// is called: whoever asked has it, or has gone.
pub fn listen(
    session: &Path,
    answer: Arc<dyn Fn(Value) -> Value + Send + Sync>,
    answered: Arc<dyn Fn() + Send + Sync>,
) -> io::Result<()> {
    let (_folder, path) = short(session)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, answered) = (Arc::clone(&answer), Arc::clone(&answered));
            let serving = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                if let Err(error) = serve(stream, &*answer) {
                    tracing::debug!(%error, "a request could not be answered");
                }
                answered();
            });
            if let Err(error) = serving {
                tracing::warn!(%error, "no thread could be had to answer a request");
            }
        }
    })?;
    Ok(())
}

fn serve(mut stream: UnixStream, answer: &dyn Fn(Value) -> Value) -> io::Result<()> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(io::Read::take(&stream, MAX_REQUEST));
    reader.read_until(b'\n', &mut line)?;
    let request = serde_json::from_slice(&line)?;
    let mut bytes = serde_json::to_vec(&answer(request))?;
    bytes.push(b'\n');
    stream.write_all(&bytes)
}

/// Asks the daemon of a session; waits for as long as it takes.
pub fn ask(session: &Path, request: &Value) -> io::Result<Value> {
    ask_within(session, request, Duration::MAX)
}

/// Asks the daemon of a session, and fails with [`io::ErrorKind::TimedOut`] if it has not answered after `patience`.
pub fn ask_within(session: &Path, request: &Value, patience: Duration) -> io::Result<Value> {
    let began = Instant::now();
    let (_folder, path) = short(session)?;
    let mut stream = UnixStream::connect(&path)?;
    stream.set_write_timeout(Some(CONNECT_PATIENCE))?;
    let mut bytes = serde_json::to_vec(request)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)?;
    let mut line = Vec::new();
    stream.set_read_timeout(Some(LOOK_EVERY.min(patience).max(Duration::from_millis(1))))?;
    let mut reader = BufReader::new(stream);
    loop {
        match reader.read_until(b'\n', &mut line) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if began.elapsed() >= patience {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
                }
                // One that was killed and does not end never hangs up.
                if let Ok(info) = SessionDir::read_info::<Info>(session) {
                    release_if_stuck(&info);
                }
            }
            Err(error) => return Err(error),
        }
    }
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without an answer"));
    }
    Ok(serde_json::from_slice(&line)?)
}

fn short(session: &Path) -> io::Result<(File, PathBuf)> {
    let folder = File::open(session)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
    Ok((folder, path))
}
