//! These tests have agents store containers of a real Docker daemon, over stdin and stdout and over HTTP.

use std::{
    io::Write,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{
    docker::Daemon,
    served::{Served, Tokens},
};

use crate::{
    protocol::Talk,
    scene::{CURRENT, PREVIOUS, Scene},
};

/// What an agent says before it calls a tool.
const GREETING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A workspace of `acme/agent-7`, and a daemon.
struct Beside {
    scene: Scene,
    daemon: Daemon,
}

impl Beside {
    fn new() -> Self {
        Self { scene: Scene::new(), daemon: Daemon::start() }
    }

    /// Starts a container that waits, with a volume of its own at /data.
    fn run(&self, name: &str, more: &[&str]) {
        let volume = format!("{name}:/data");
        let head = ["run", "--detach", "--name", name, "--volume", &volume];
        let tail = ["busybox:test", "sh", "-c", "while true; do sleep 1; done"];
        self.daemon.docker(&[&head[..], more, &tail[..]].concat());
        self.daemon.sh(name, "echo hello > /data/file");
    }

    /// The command that an agent's program starts.
    fn command(&self) -> Vec<String> {
        let mut command = self.scene.command();
        command.extend(["--containers".to_owned(), self.daemon.address()]);
        command
    }

    /// Waits until a container is in this state.
    fn wait_for(&self, container: &str, state: &str) {
        let began = Instant::now();
        while self.daemon.state(container) != state {
            assert!(began.elapsed() < Duration::from_secs(60), "{container} was never {state}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Has an agent store `web` by this name, and kills its server when that has the container paused.
    fn kill_while_paused(&self, name: &str) {
        let arguments = json!({ "container": "web", "name": name });
        let params = json!({ "name": "containers_snapshot", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let words = self.command();
        let mut command = Command::new(&words[0]);
        self.scene.host.prepare(&mut command);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        writeln!(server.stdin.as_mut().unwrap(), "{GREETING}\n{call}").unwrap();
        self.wait_for("web", "paused");
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Has an agent that its program starts play a scenario.
    #[track_caller]
    fn play_over_stdio(&self, scenario: &str, mode: &str, more: &Value) {
        let mut document = more.clone();
        document["command"] = self.command().into();
        document["environment"] = json!(self.scene.environment());
        self.scene.drive(scenario, mode, &mut document);
    }

    /// A server of the workspaces and the containers.
    fn served(&self, tokens: &Tokens) -> Served {
        let workspaces = self.scene.workspaces().to_str().unwrap().to_owned();
        let more = ["--workspaces", &workspaces, "--containers", &self.daemon.address()];
        Served::start_with(&self.scene.host, &tokens.path, &more)
    }

    /// Has an agent with a token play a scenario.
    #[track_caller]
    fn play_over_http(&self, server: &Served, secret: &str, scenario: &str, more: &Value) {
        let mut document = more.clone();
        document["url"] = format!("http://{}/mcp", server.address).into();
        document["token"] = secret.into();
        self.scene.drive(scenario, CURRENT, &mut document);
        assert!(!server.said().contains("panic"), "{}", server.said());
    }

    /// Takes the lock of the snapshots of `acme/web`, and does not give it back.
    fn lock(&self) {
        self.scene.host.succeed(["lock", "acquire", "acme/web", "--chrome-major", "65533"]);
    }

    /// Fails unless all containers are as they were.
    #[track_caller]
    fn is_as_it_was(&self, containers: &[&str]) {
        assert_eq!(self.daemon.containers(), containers);
        for container in containers {
            assert_eq!(self.daemon.state(container), "running", "{container}");
        }
        assert_eq!(self.daemon.images(), ["busybox:test"]);
    }
}

#[test]
fn an_agent_stores_a_container_at_the_moments_of_its_run() {
    let beside = Beside::new();
    beside.run("web", &[]);
    // Who starts the process reaches all that the daemon has.
    beside.play_over_stdio("containers_of_a_run", CURRENT, &json!({ "strange": ["nobody"] }));
    beside.is_as_it_was(&["web"]);
    beside.scene.host.verify("acme/web", &["--read-data"]);
    let listed = beside.scene.host.succeed(["container", "list", "acme/web"]);
    let last = listed["snapshots"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["trigger"], &last["run_id"]), (&"run_end".into(), &"run-7".into()));
}

#[test]
fn an_agent_stores_a_container_in_the_revisions_before() {
    let beside = Beside::new();
    beside.run("web", &[]);
    beside.play_over_stdio("containers_of_a_run", PREVIOUS, &json!({ "strange": ["nobody"] }));
    beside.is_as_it_was(&["web"]);
}

#[test]
fn a_run_goes_on_while_somebody_else_stores_its_container_or_no_daemon_answers() {
    let beside = Beside::new();
    beside.run("web", &[]);
    beside.play_over_stdio("containers_of_a_run", CURRENT, &json!({ "strange": ["nobody"] }));
    beside.lock();
    beside.play_over_stdio("a_container_that_is_locked", CURRENT, &json!({}));
    beside.is_as_it_was(&["web"]);
    let mut command = beside.scene.command();
    command.extend(["--containers", "unix:///nowhere/docker.sock"].map(str::to_owned));
    let mut document = json!({ "command": command, "environment": beside.scene.environment() });
    beside.scene.drive("no_daemon", CURRENT, &mut document);
}

#[test]
fn a_container_goes_on_if_its_agent_changes_its_mind_or_leaves() {
    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"containers_snapshot","arguments":{"container":"web"}}}"#;
    let beside = Beside::new();
    beside.run("web", &[]);
    // So much that it takes a while to copy.
    beside.daemon.sh("web", "dd if=/dev/urandom of=/data/large bs=1M count=60 2>/dev/null");
    let mut talk = Talk::started(&beside.scene, &beside.command()).greet();
    talk.say(CALL);
    beside.wait_for("web", "paused");
    talk.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    beside.wait_for("web", "running");
    // It is not answered, and nothing was stored.
    let listed = talk.call(2, "containers_list", &json!({}));
    assert_eq!(
        (&listed["id"], &listed["result"]["structuredContent"]["total"]),
        (&json!(2), &json!(0)),
        "{listed}"
    );
    talk.leave();
    let mut talk = Talk::started(&beside.scene, &beside.command()).greet();
    talk.say(CALL);
    beside.wait_for("web", "paused");
    talk.leave();
    beside.is_as_it_was(&["web"]);
}

#[test]
fn a_container_that_a_killed_server_has_left_paused_goes_on_when_the_next_one_starts() {
    let beside = Beside::new();
    beside.run("web", &[]);
    // So much that it takes a while to copy.
    beside.daemon.sh("web", "dd if=/dev/urandom of=/data/large bs=1M count=60 2>/dev/null");
    beside.kill_while_paused("acme/one");
    assert_eq!(beside.daemon.state("web"), "paused");
    // Nobody has asked it for anything yet.
    let talk = Talk::started(&beside.scene, &beside.command());
    beside.wait_for("web", "running");
    talk.greet().leave();
    // It does so, too, if the agent leaves at once. The first name may still be locked.
    beside.kill_while_paused("acme/two");
    Talk::started(&beside.scene, &beside.command()).leave();
    assert_eq!(beside.daemon.state("web"), "running");
}

#[test]
fn an_agent_over_http_stores_the_containers_of_its_tenant_and_learns_of_no_others() {
    let beside = Beside::new();
    beside.run("web", &["--label", "pstore.tenant=acme"]);
    beside.run("private", &[]);
    beside.run("theirs", &["--label", "pstore.tenant=globex"]);
    beside.scene.start(&beside.scene.workspaces().join("other"), "globex/agent-1");
    let tokens = Tokens::new(beside.scene.folder.path());
    let [acme, globex] = ["acme", "globex"].map(|tenant| tokens.add(&beside.scene.host, tenant, "run"));
    let server = beside.served(&tokens);
    let strange = json!({ "strange": ["nobody", "private", "theirs"] });
    beside.play_over_http(&server, &acme, "containers_of_a_run", &strange);
    // A token of another tenant reaches nothing of it.
    beside.play_over_http(
        &server,
        &globex,
        "no_containers_of_its_own",
        &json!({ "strange": ["web", "private"] }),
    );
    beside.lock();
    beside.play_over_http(&server, &acme, "a_container_that_is_locked", &json!({}));
    beside.is_as_it_was(&["private", "theirs", "web"]);
}

#[test]
fn without_a_daemon_no_agent_is_told_of_containers() {
    let scene = Scene::new();
    scene.play("no_containers", CURRENT);
    let tokens = Tokens::new(scene.folder.path());
    let secret = tokens.add(&scene.host, "acme", "run");
    let workspaces = scene.workspaces().to_str().unwrap().to_owned();
    let server = Served::start_with(&scene.host, &tokens.path, &["--workspaces", &workspaces]);
    let mut document = json!({ "url": format!("http://{}/mcp", server.address), "token": secret });
    scene.drive("no_containers", CURRENT, &mut document);
}
