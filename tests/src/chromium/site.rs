//! `Site` leaves something in every place a site can, and reads it back.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

use super::Devtools;

const PAGE: &str = include_str!("site.html");
const WORKER: &str =
    "self.addEventListener('install', () => self.skipWaiting()); self.addEventListener('fetch', () => {});";

/// The cookie that `/login` sets, which has no time at which it lapses, and `/login?keep` and `/stay` with one. `/account` tells by it
/// who is logged in.
const SESSION: &str = "session=4711";

/// How many names the cookies of `/count` have, which take turns.
pub const TURNS: u64 = 8;

/// Serves for as long as the test process lives.
#[derive(Debug)]
pub struct Site {
    port: u16,
}

impl Site {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // One thread each: a browser opens connections it does not use.
                thread::spawn(move || serve(&stream));
            }
        });
        Self { port }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Leaves `mark` in cookies, local storage, IndexedDB, the cache storage, and a service
    /// worker's address.
    #[track_caller]
    pub fn leave(&self, devtools: &mut Devtools, mark: &str) {
        devtools.open(&self.url()).evaluate(&format!("leave({})", json!(mark)));
    }

    /// The data that [`Site::leave`] left, by the name of the place.
    #[track_caller]
    pub fn find(&self, devtools: &mut Devtools) -> Value {
        devtools.open(&self.url()).evaluate("find()")
    }

    /// Logs in, by a session cookie alone.
    #[track_caller]
    pub fn log_in(&self, devtools: &mut Devtools) {
        devtools.open(&format!("{}login", self.url()));
        assert!(self.is_logged_in(devtools));
    }

    #[track_caller]
    pub fn is_logged_in(&self, devtools: &mut Devtools) -> bool {
        let mut page = devtools.open(&format!("{}account", self.url()));
        page.evaluate("document.body.innerText") == "logged in"
    }

    /// The result of [`Site::find`] when nothing was lost.
    pub fn all(mark: &str) -> Value {
        json!({"cookie": mark, "local_storage": mark, "indexed_db": mark, "cache_storage": mark,
               "service_worker": mark})
    }
}

fn serve(mut stream: &TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next()?.ok()?;
    let headers: Vec<String> = lines.map_while(|line| line.ok().filter(|line| !line.is_empty())).collect();
    let path = request.split(' ').nth(1)?.to_owned();
    let has_session =
        headers.iter().any(|line| line.to_ascii_lowercase().starts_with("cookie:") && line.contains(SESSION));
    let (kind, body) = match path.split('?').next()? {
        "/" => ("text/html", PAGE),
        "/worker.js" => ("text/javascript", WORKER),
        "/account" if has_session => ("text/plain", "logged in"),
        "/account" => ("text/plain", "logged out"),
        _ => ("text/plain", ""),
    };
    let cookie = match path.split_once('?') {
        // One that lasts, and one that does not.
        Some(("/count", number)) => {
            let name = number.parse::<u64>().ok()? % TURNS;
            let last = "; Max-Age=100000";
            format!("Set-Cookie: counted-{name}={number}{last}\r\nSet-Cookie: fleeting-{name}={number}\r\n")
        }
        _ if path == "/stay" => format!("Set-Cookie: {SESSION}; Max-Age=100000; Path=/\r\n"),
        _ if path == "/login?keep" => {
            format!("Set-Cookie: {SESSION}; HttpOnly; Path=/; Max-Age=100000\r\n")
        }
        _ if path == "/login" => format!("Set-Cookie: {SESSION}; HttpOnly; Path=/\r\n"),
        _ => String::new(),
    };
    let len = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{cookie}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .ok()
}
