//! `Prometheus` runs a real Prometheus that scrapes a server, and asks it.

use std::{
    fs,
    io::Write,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::served::{answer, request};

/// How long it may take until something is so.
const PATIENCE: Duration = Duration::from_secs(120);

/// A Prometheus at a port of its own. Killed when it is dropped.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts one in `folder` that scrapes `targets` each second, with `secret`, and evaluates the rules of a file.
    #[track_caller]
    pub fn start(folder: &Path, targets: &[&str], secret: &str, rules: &Path) -> Self {
        fs::write(folder.join("secret"), secret).unwrap();
        let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs:\n\
             - job_name: pstore\n\
             \x20 authorization: {{ credentials_file: \"{}\" }}\n\
             \x20 static_configs: [{{ targets: [{}] }}]\n",
            rules.display(),
            folder.join("secret").display(),
            targets.join(", ")
        );
        Self::configured(folder, &config)
    }

    /// Starts one in `folder` with this configuration.
    #[track_caller]
    pub fn configured(folder: &Path, config: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let path = folder.join("prometheus.yml");
        fs::write(&path, config).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("scripts/setup test installs prometheus: {error}"));
        let started = Self { child, address };
        let began = Instant::now();
        while !started.is_ready() {
            assert!(began.elapsed() < PATIENCE, "prometheus does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        started
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return false };
        let asked = stream.write_all(request("GET /-/ready", None, None).as_bytes());
        asked.is_ok() && answer(&mut stream).status == 200
    }

    /// The whole document at a path of its API.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request(&format!("GET {path}"), None, None).as_bytes()).unwrap();
        answer(&mut stream).json()
    }

    /// The result of a query: a list of series. Fails unless it can be evaluated.
    #[track_caller]
    pub fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answered = self.get(&format!("/api/v1/query?query={encoded}"));
        assert_eq!(answered["status"], "success", "{query}: {answered:#}");
        answered["data"]["result"].as_array().unwrap_or_else(|| panic!("{query}: {answered:#}")).clone()
    }

    /// The value of a query with one result; none if it has none.
    #[track_caller]
    pub fn value(&self, query: &str) -> Option<f64> {
        let found = self.query(query);
        assert!(found.len() <= 1, "{query}: {found:#?}");
        found.first().map(|found| found["value"][1].as_str().unwrap().parse().unwrap())
    }

    /// Waits until a query has this value.
    #[track_caller]
    pub fn await_value(&self, query: &str, value: f64) {
        let began = Instant::now();
        loop {
            let found = self.value(query);
            if found == Some(value) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{query} is {found:?}, and {value} was expected");
            thread::sleep(Duration::from_millis(500));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
