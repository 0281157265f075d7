//! `served` runs `pstore serve`, and has a caller that knows only HTTP.

use std::{
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::binary::{Ended, Host, Running};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server at a port of its own. Killed when it is dropped.
#[derive(Debug)]
pub struct Served {
    running: Option<Running>,
    /// Where it listens: `127.0.0.1:PORT`.
    pub address: String,
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// The head, with names in small letters.
    pub head: String,
    /// Where to go instead, letter by letter.
    pub location: Option<String>,
    /// The body, with its pieces joined.
    pub body: Vec<u8>,
}

impl Reply {
    /// The document that was answered.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The page that was answered.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Fails unless it has this status, and returns the document.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:#?}");
        self.json()
    }

    /// Fails unless it is a problem of this status and kind, and returns the document.
    #[track_caller]
    pub fn refused(&self, status: u16, kind: &str) -> Value {
        let problem = self.expect(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:#?}");
        assert_eq!((&problem["kind"], &problem["status"]), (&kind.into(), &status.into()), "{problem:#}");
        problem
    }
}

impl Served {
    /// Starts a server on this host, with the tokens of a file.
    #[track_caller]
    pub fn start(host: &Host, tokens: &Path) -> Self {
        Self::start_with(host, tokens, &[])
    }

    /// The same with more arguments.
    #[track_caller]
    pub fn start_with(host: &Host, tokens: &Path, more: &[&str]) -> Self {
        let line = ["serve", "--listen", "127.0.0.1:0", "--tokens", tokens.to_str().unwrap()];
        let mut running = host.start(line.iter().chain(more));
        running.await_stderr("listening on http");
        let said = running.said();
        let (_, address) = said.split("listening on http").nth(1).unwrap().split_once("://").unwrap();
        // What follows is a space, or the rest of a document.
        let end = address.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c))).unwrap_or(address.len());
        let address = &address[..end];
        Self { address: address.to_owned(), running: Some(running) }
    }

    /// A connection to it.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Asks for something, and waits for the answer.
    #[track_caller]
    pub fn call(&self, line: &str, secret: Option<&str>, body: Option<&Value>) -> Reply {
        let body = body.map(ToString::to_string);
        self.send(&request(line, secret, body.as_deref()))
    }

    /// Sends a request as it is, and waits for the answer.
    #[track_caller]
    pub fn send(&self, request: &str) -> Reply {
        let mut stream = self.connect();
        // Who is refused early may not be listened to any more.
        let _ = stream.write_all(request.as_bytes());
        answer(&mut stream)
    }

    /// Sends a head and then these bytes, and waits for the answer.
    #[track_caller]
    pub fn send_bytes(&self, head: &str, body: &[u8]) -> Reply {
        let mut stream = self.connect();
        let length = format!("Content-Length: {}", body.len());
        stream.write_all(head.replacen("Content-Length: 0", &length, 1).as_bytes()).unwrap();
        // Who is refused early may not be listened to any more.
        let _ = stream.write_all(body);
        answer(&mut stream)
    }

    /// Sends a request and goes away after a while.
    pub fn send_and_leave(&self, request: &str, after: Duration) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        thread::sleep(after);
        // It may have been answered, and closed, already.
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Its remarks so far.
    pub fn said(&self) -> String {
        self.running.as_ref().unwrap().said()
    }

    /// The most memory that it has had so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let id = self.running.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Tells it to stop, as hosts do.
    pub fn terminate(&self) {
        let id = self.running.as_ref().unwrap().id();
        kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), Signal::TERM).unwrap();
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(mut self) -> Ended {
        self.terminate();
        self.running.take().unwrap().wait()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }
}

/// A request as it is sent: `line` is the method and the path.
pub fn request(line: &str, secret: Option<&str>, body: Option<&str>) -> String {
    let mut request = format!("{line} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n");
    if let Some(secret) = secret {
        write!(request, "Authorization: Bearer {secret}\r\n").unwrap();
    }
    let body = body.unwrap_or_default();
    write!(request, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    request
}

/// The same request with one more header.
pub fn with_header(request: &str, line: &str) -> String {
    request.replacen("\r\n", &format!("\r\n{line}\r\n"), 1)
}

/// Reads one answer, after which the connection is closed.
#[track_caller]
pub fn answer(stream: &mut (impl Read + ?Sized)) -> Reply {
    let mut bytes = Vec::new();
    // A server that refuses what it has not read resets the connection once its answer is out.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let location = head.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned);
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status: {head}"));
    let body = bytes.split_off(end + 4);
    let body = if head.contains("transfer-encoding: chunked") { joined(&body) } else { body };
    Reply { status, head, location, body }
}

/// The pieces of a body whose length is not said beforehand.
fn joined(mut pieces: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end =
            pieces.windows(2).position(|window| window == b"\r\n").expect("a piece says how long it is");
        let len = std::str::from_utf8(&pieces[..end]).unwrap();
        let len = usize::from_str_radix(len, 16).unwrap();
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&pieces[end + 2..end + 2 + len]);
        pieces = &pieces[end + 2 + len + 2..];
    }
}

/// A file of tokens, made by the program.
#[derive(Debug)]
pub struct Tokens {
    pub path: PathBuf,
}

impl Tokens {
    /// An empty one.
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("tokens.toml");
        fs::write(&path, "").unwrap();
        Self { path }
    }

    /// Adds a token, and returns its secret.
    #[track_caller]
    pub fn add(&self, host: &Host, tenant: &str, role: &str) -> String {
        let issued = host.succeed(["token", "new", "--tenant", tenant, "--role", role]);
        let text = fs::read_to_string(&self.path).unwrap() + issued["entry"].as_str().unwrap();
        fs::write(&self.path, text).unwrap();
        issued["secret"].as_str().unwrap().to_owned()
    }
}
