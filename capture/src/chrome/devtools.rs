//! `devtools` speaks to a Chrome over its DevTools port, and asks it to close.
//!
//! It needs two proofs before it asks, since another program may have the noted port by now: the browser process
//! itself listens on it, and the path it gives is the noted one. It only ever connects to `127.0.0.1`.

mod session;

use std::{
    fmt,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

pub(super) use self::session::Session;
use super::{profile::read_bounded, sockets};

const FILE: &str = "DevToolsActivePort";
const BROWSER_PATH: &str = "/devtools/browser/";
const MAX_FILE_BYTES: u64 = 1024;
/// Of a server that has not shown yet that it is the browser.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Where a browser can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pid: u32,
    pub port: u16,
    /// Noted by the browser and different in each run; unknown if only the port was given.
    path: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum DevtoolsError {
    #[error("port {port} is not the browser's any more")]
    Stranger { port: u16 },
    #[error("no DevTools answer from port {port}: {source}")]
    NoAnswer {
        port: u16,
        #[source]
        source: io::Error,
    },
    #[error("port {port} gave an answer that is not DevTools'")]
    Unexpected { port: u16 },
    #[error("port {port} hung up")]
    HungUp { port: u16 },
}

/// The port the browser process `pid` listens on: the one it noted in its directory, or the
/// one it was told.
pub(super) fn find(directory: &Path, pid: u32, told: Option<u16>) -> Option<Endpoint> {
    let noted = noted(directory).map(|(port, path)| Endpoint { pid, port, path: Some(path) });
    let told = told.map(|port| Endpoint { pid, port, path: None });
    noted.into_iter().chain(told).find(Endpoint::is_the_browsers)
}

fn noted(directory: &Path) -> Option<(u16, String)> {
    let text = String::from_utf8(read_bounded(&directory.join(FILE), MAX_FILE_BYTES)?).ok()?;
    let mut lines = text.lines();
    let port = lines.next()?.trim().parse().ok().filter(|port| *port != 0)?;
    let path = lines.next()?.trim();
    is_browser_path(path).then(|| (port, path.to_owned()))
}

fn is_browser_path(path: &str) -> bool {
    path.strip_prefix(BROWSER_PATH).is_some_and(|id| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}

impl Endpoint {
    fn is_the_browsers(&self) -> bool {
        sockets::listens(self.pid, self.port)
    }

    /// Asks the browser to close. It has taken the request when this returns, and takes a
    /// while to do it.
    pub(super) fn close(&self, timeout: Duration) -> Result<(), DevtoolsError> {
        match self.session(timeout)?.call("Browser.close", &json!({})) {
            // It is gone: that is how a browser confirms when it is quick.
            Ok(_) | Err(DevtoolsError::HungUp { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The path that the server on the port tells, which must be the noted one, if any is noted.
    fn verified_path(&self, deadline: Deadline) -> Result<String, DevtoolsError> {
        let unexpected = || DevtoolsError::Unexpected { port: self.port };
        let stream = self.connect(deadline)?;
        let body = get_version(&stream, self.port, deadline).map_err(|error| self.no_answer(error))?;
        let answer: serde_json::Value = serde_json::from_slice(&body).map_err(|_| unexpected())?;
        let url = answer.get("webSocketDebuggerUrl").and_then(|url| url.as_str()).ok_or_else(unexpected)?;
        let start = url.find(BROWSER_PATH).ok_or_else(unexpected)?;
        let path = &url[start..];
        if !is_browser_path(path) {
            return Err(unexpected());
        }
        if self.path.as_deref().is_some_and(|noted| noted != path) {
            return Err(DevtoolsError::Stranger { port: self.port });
        }
        Ok(path.to_owned())
    }

    fn connect(&self, deadline: Deadline) -> Result<TcpStream, DevtoolsError> {
        let open = || {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
            let stream = TcpStream::connect_timeout(&address, deadline.left()?)?;
            deadline.set(&stream)?;
            Ok(stream)
        };
        let stream = open().map_err(|error| self.no_answer(error))?;
        // Asked after the connection is made: from here on it stays with whom it was made.
        if !self.is_the_browsers() {
            return Err(DevtoolsError::Stranger { port: self.port });
        }
        Ok(stream)
    }

    /// Nobody listens there.
    #[cfg(test)]
    pub(super) fn nobodys() -> Self {
        Self { pid: 0, port: 0, path: None }
    }

    fn no_answer(&self, source: io::Error) -> DevtoolsError {
        DevtoolsError::NoAnswer { port: self.port, source }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "127.0.0.1:{}", self.port)
    }
}

/// The body of the answer to `GET /json/version`.
fn get_version(mut stream: &TcpStream, port: u16, deadline: Deadline) -> io::Result<Vec<u8>> {
    write!(stream, "GET /json/version HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    loop {
        deadline.set(stream)?;
        let mut part = [0; 4096];
        let len = stream.read(&mut part)?;
        answer.extend_from_slice(&part[..len]);
        if answer.len() as u64 > MAX_ANSWER_BYTES {
            return Err(io::Error::other("the answer is too long"));
        }
        // The server keeps the connection open, whatever it was asked.
        match whole_body(&answer)? {
            Some(body) => return Ok(body.to_vec()),
            None if len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    }
}

fn whole_body(answer: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some(end) = answer.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let head = str::from_utf8(&answer[..end]).map_err(io::Error::other)?;
    let mut lines = head.lines();
    if lines.next().and_then(|status| status.split(' ').nth(1)) != Some("200") {
        return Err(io::Error::other("the answer is a refusal"));
    }
    let len: usize = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| io::Error::other("the answer has no length"))?;
    Ok(answer[end + 4..].get(..len))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[derive(Clone, Copy, Debug)]
struct Deadline(Instant);

impl Deadline {
    fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn set(self, stream: &TcpStream) -> io::Result<()> {
        let left = self.left()?;
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))
    }
}

#[cfg(test)]
mod tests;
