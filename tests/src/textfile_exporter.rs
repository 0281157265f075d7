//! `TextfileExporter` serves the textfiles of directories over HTTP, as node_exporter does for a host.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Serves `DIRECTORY/pstore.prom` of each directory below its own at `/DIRECTORY`, until it is dropped.
#[derive(Debug)]
pub struct TextfileExporter {
    /// Where it listens.
    pub address: SocketAddr,
    closing: Arc<AtomicBool>,
}

impl TextfileExporter {
    /// Of the directories in `root`.
    pub fn start(root: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closing = Arc::new(AtomicBool::new(false));
        let (root, is_closing) = (root.to_owned(), Arc::clone(&closing));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_closing.load(Ordering::Relaxed) {
                    return;
                }
                let root: PathBuf = root.clone();
                thread::spawn(move || answer(&root, stream));
            }
        });
        Self { address, closing }
    }
}

impl Drop for TextfileExporter {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // The last connection that it accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers one question; the caller may go away at any time.
fn answer(root: &Path, mut stream: TcpStream) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let asked = lines.next().unwrap_or_default();
    let name = asked.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let (status, text) = match fs::read_to_string(root.join(name).join("pstore.prom")) {
        Ok(text) => ("200 OK", text),
        Err(_) => ("404 Not Found", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let _ = stream.write_all((head + &text).as_bytes());
}
