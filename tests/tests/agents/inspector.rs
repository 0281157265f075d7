//! These tests drive every tool with the command line of the MCP inspector, over stdin and stdout and over HTTP.

use std::{fs, process::Command};

use serde_json::Value;
use tests::{
    served::{Served, Tokens},
    server::program,
};

use crate::scene::Scene;

/// The inspector, pointed at a server.
struct Inspector {
    target: Vec<String>,
    scene: Scene,
}

impl Inspector {
    #[track_caller]
    fn run(&self, words: &[&str]) -> Value {
        let node = program("node");
        let tools = node.parent().unwrap().parent().unwrap();
        let script = tools.join("inspector/node_modules/.bin/mcp-inspector");
        let mut command = Command::new(&node);
        command.arg(script).arg("--cli");
        // It writes into its home, and hands on to a server only what it is told to.
        let environment = self.scene.environment();
        for (name, value) in &environment {
            command.arg("-e").arg(format!("{name}={value}"));
        }
        command.args(&self.target).args(words);
        command.envs(environment).current_dir(self.scene.folder.path());
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        let noise = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{words:?}: {said}{noise}");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{words:?}: {error}: {said}{noise}"))
    }

    #[track_caller]
    fn call(&self, tool: &str, arguments: &[&str]) -> Value {
        let name = format!("snapshots_{tool}");
        let mut words = vec!["--method", "tools/call", "--tool-name", &name];
        for argument in arguments {
            words.extend(["--tool-arg", argument]);
        }
        let answer = self.run(&words);
        assert_ne!(answer["isError"], true, "{answer:#}");
        answer["structuredContent"].clone()
    }

    /// All tools, one after another.
    fn drive(&self) {
        let tools = self.run(&["--method", "tools/list", "--strict"]);
        assert_eq!(tools["tools"].as_array().unwrap().len(), 8, "{tools:#}");
        let file = self.scene.directory.join("notes.txt");
        fs::write(&file, "first\n").unwrap();
        assert_eq!(self.call("create", &["name=base"])["outcome"], "created");
        fs::write(&file, "second\n").unwrap();
        assert_eq!(self.call("list", &[])["manual"], 1);
        assert_eq!(self.call("changes", &["since=base"])["modified"], 1);
        let diff = self.call("diff", &["path=notes.txt", "since=base"]);
        assert!(diff["diff"].as_str().unwrap().contains("-first"), "{diff:#}");
        assert_eq!(self.call("revert", &["path=notes.txt", "checkpoint=base"])["reverted"], true);
        assert_eq!(fs::read_to_string(&file).unwrap(), "first\n");
        assert_eq!(self.call("history", &["path=notes.txt"])["path"], "notes.txt");
        let fork = self.call("fork", &["name=aside", "checkpoint=base"]);
        assert!(fork["directory"].as_str().unwrap().ends_with("project-aside"), "{fork:#}");
    }
}

#[test]
fn it_drives_every_tool_over_stdio() {
    let scene = Scene::new();
    let inspector = Inspector { target: scene.command(), scene };
    inspector.drive();
    assert_eq!(inspector.call("delete", &["checkpoint=base"])["deleted"]["name"], "base");
}

#[test]
fn it_drives_every_tool_over_http() {
    let scene = Scene::new();
    let tokens = Tokens::new(scene.folder.path());
    let secret = tokens.add(&scene.host, "acme", "run");
    let workspaces = scene.workspaces().to_str().unwrap().to_owned();
    let server = Served::start_with(&scene.host, &tokens.path, &["--workspaces", &workspaces]);
    let url = format!("http://{}/mcp", server.address);
    let header = format!("Authorization: Bearer {secret}");
    let target = [&url, "--transport", "http", "--header", &header].map(str::to_owned).to_vec();
    let inspector = Inspector { target, scene };
    inspector.drive();
    let deleted = inspector.call("delete", &["checkpoint=base", "workspace=acme/agent-7"]);
    assert_eq!(deleted["deleted"]["name"], "base");
}
