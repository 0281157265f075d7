//! `Scene` has a host with a workspace, and clients that drive its tools.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{
    binary::{self, Host},
    server::program,
};

/// The revision of the protocol without a handshake.
pub const CURRENT: &str = "2026-07-28";
/// The revisions before it, which begin with one.
pub const PREVIOUS: &str = "legacy";

/// A host with workspaces, all below one folder.
pub struct Scene {
    pub folder: TempDir,
    pub host: Host,
    /// The workspace of `acme/agent-7`.
    pub directory: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::local(&folder.path().join("home"), &folder.path().join("store"));
        let workspaces = folder.path().canonicalize().unwrap().join("workspaces");
        fs::create_dir(&workspaces).unwrap();
        let directory = workspaces.join("project");
        let scene = Self { folder, host, directory: directory.clone() };
        scene.start(&directory, "acme/agent-7");
        scene
    }

    /// Makes an empty directory a workspace. Nothing watches it: what a shell changes is seen all the same.
    #[track_caller]
    pub fn start(&self, directory: &Path, name: &str) {
        fs::create_dir(directory).unwrap();
        self.host.succeed(["workspace", "start", directory.to_str().unwrap(), name, "--no-watch"]);
    }

    /// The folder with all workspaces.
    pub fn workspaces(&self) -> &Path {
        self.directory.parent().unwrap()
    }

    /// The command that an agent's program starts.
    pub fn command(&self) -> Vec<String> {
        let program = binary::program().to_str().unwrap().to_owned();
        vec![program, "mcp".to_owned(), "--workspace".to_owned(), self.directory.to_str().unwrap().to_owned()]
    }

    /// What its environment has.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut command = Command::new("true");
        self.host.prepare(&mut command);
        let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
        command.get_envs().filter_map(|(name, value)| Some((text(name), text(value?)))).collect()
    }

    /// Has the official Python client play a scenario over stdio.
    #[track_caller]
    pub fn play(&self, scenario: &str, mode: &str) {
        let mut document = json!({ "command": self.command(), "environment": self.environment() });
        self.drive(scenario, mode, &mut document);
    }

    /// Has it play a scenario on what the document says in addition.
    #[track_caller]
    pub fn drive(&self, scenario: &str, mode: &str, document: &mut Value) {
        document["scenario"] = scenario.into();
        document["mode"] = mode.into();
        document["directory"] = self.directory.to_str().unwrap().into();
        let path = self.folder.path().join("scene.json");
        fs::write(&path, document.to_string()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("agents/drive.py");
        let mut python = Command::new(program("python"));
        python.arg(script).arg(&path).env("PYTHONDONTWRITEBYTECODE", "1");
        let ended = python.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{scenario} ({mode}): {said}");
        assert!(!said.contains("panic"), "{said}");
    }
}
