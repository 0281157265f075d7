//! `rclone` starts `rclone serve s3`, which takes conditional writes and ignores the condition.

use store::bucket::S3Config;
use tempfile::TempDir;

use crate::process::Process;

const BUCKET: &str = "pstore";

/// A running server.
#[derive(Debug)]
pub struct Rclone {
    // Before the folder: a server must end before its files go.
    _process: Process,
    _folder: TempDir,
    endpoint: String,
}

impl Rclone {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let address = format!("127.0.0.1:{}", super::free_port());
        let arguments =
            ["serve", "s3", "--addr", &address, "--auth-key", "admin,secret", "--vfs-cache-mode=full"];
        let mut arguments: Vec<String> = arguments.map(Into::into).into();
        // Neither reads nor writes the user's own configuration.
        arguments.extend(["--config=".into(), format!("--cache-dir={}/cache", folder.path().display())]);
        arguments.push(folder.path().display().to_string());
        let process = Process::spawn(&super::program("rclone"), arguments);
        let server = Self { _process: process, _folder: folder, endpoint: format!("http://{address}") };
        super::ready(&server.config(), || server._process.runs()).await.unwrap();
        server
    }

    pub fn config(&self) -> S3Config {
        super::config(&self.endpoint, BUCKET, "admin", "secret")
    }
}
