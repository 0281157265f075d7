//! These tests write lines to `pstore mcp` as a faulty client, or a hostile one, does.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::scene::Scene;

/// A process of `pstore mcp`, and what it says line by line.
pub struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Talk {
    fn with(scene: &Scene) -> Self {
        Self::started(scene, &scene.command())
    }

    /// The same with this command.
    pub fn started(scene: &Scene, words: &[String]) -> Self {
        let mut command = Command::new(&words[0]);
        scene.host.prepare(&mut command);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    /// The same after the handshake.
    fn greeted(scene: &Scene) -> Self {
        Self::with(scene).greet()
    }

    pub fn greet(self) -> Self {
        let mut talk = self;
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let answer =
            talk.ask(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        assert!(answer["result"]["instructions"].as_str().unwrap().contains("snapshots_revert"), "{answer}");
        talk.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        talk
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.say(&message.to_string());
        self.answer()
    }

    pub fn call(&mut self, id: u64, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    }

    /// Goes away, and waits until the process has noticed.
    pub fn leave(mut self) {
        self.stdin = None;
        let ended = self.child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    }

    /// Closes stdin. Fails unless the process then ends well, and has written nothing more.
    fn end(mut self) -> String {
        self.stdin = None;
        let mut rest = String::new();
        while self.stdout.read_line(&mut rest).unwrap() > 0 {}
        let ended = self.child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() && rest.trim().is_empty(), "{}: {rest:?} {said}", ended.status);
        assert!(!said.contains("panic"), "{said}");
        said
    }
}

#[test]
fn lines_that_are_no_messages_do_not_end_the_server() {
    let scene = Scene::new();
    let mut talk = Talk::greeted(&scene);
    for line in ["", "nonsense", "{\"jsonrpc\":", "\u{0}\u{1}\u{fffd}", "}{", "\"text\"", "{\"a\":1"] {
        talk.say(line);
    }
    // What is JSON, but no message, is answered; what names nothing is an error; and the next call is carried out.
    let mut ids = Vec::new();
    for line in ["{}", "[]", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#] {
        talk.say(line);
    }
    talk.say(r#"{"jsonrpc":"2.0","id":2,"method":"no/such/method","params":{}}"#);
    talk.say(r#"{"jsonrpc":"2.0","method":"no/such/notification"}"#);
    talk.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":7}}"#);
    talk.say(
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"snapshots_list","arguments":{}}}"#,
    );
    while !ids.contains(&json!(4)) {
        let answer = talk.answer();
        assert!(
            answer["id"] == 4 || answer["error"]["code"].as_i64().is_some_and(|code| code < 0),
            "{answer}"
        );
        ids.push(answer["id"].clone());
    }
    assert!(ids.contains(&json!(2)), "{ids:?}");
    talk.end();
}

#[test]
fn a_line_without_an_end_takes_no_memory_and_is_passed_over() {
    let scene = Scene::new();
    let mut talk = Talk::greeted(&scene);
    let piece = vec![b'x'; 1 << 20];
    let stdin = talk.stdin.as_mut().unwrap();
    for _ in 0..256 {
        stdin.write_all(&piece).unwrap();
    }
    stdin.write_all(b"\n").unwrap();
    assert_eq!(talk.call(1, "snapshots_list", &json!({}))["id"], 1);
    let status = std::fs::read_to_string(format!("/proc/{}/status", talk.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 192 << 10, "{peak} KiB");
    talk.end();
}

#[test]
fn a_cancelled_call_is_not_answered_and_the_next_one_is() {
    let scene = Scene::new();
    std::fs::write(scene.directory.join("large"), tests::tree::noise(64 << 20, 7)).unwrap();
    let mut talk = Talk::greeted(&scene);
    talk.say(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"snapshots_create","arguments":{"name":"a"}}}"#,
    );
    talk.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"never mind"}}"#);
    talk.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#);
    let answer = talk.call(2, "snapshots_list", &json!({}));
    assert_eq!(answer["id"], 2, "{answer}");
    // Whether it was taken or not, the workspace can be used as before.
    let answer = talk.call(3, "snapshots_create", &json!({ "name": "b" }));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    talk.end();
    assert!(scene.directory.join("large").exists());
}

#[test]
fn who_goes_away_at_once_or_says_nothing_ends_the_server_well() {
    let scene = Scene::new();
    Talk::with(&scene).end();
    let mut talk = Talk::with(&scene);
    // Before the handshake, a call is refused, and nothing else happens.
    let answer = talk.call(1, "snapshots_list", &json!({}));
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    talk.end();
}

#[test]
fn a_directory_that_is_no_workspace_is_refused_before_anything_is_said() {
    let scene = Scene::new();
    let plain = scene.folder.path().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let error = scene.host.fail(3, ["mcp", "--workspace", plain.to_str().unwrap()]);
    assert!(error["hint"].as_str().unwrap().contains("pstore workspace start"), "{error:#}");
    scene.host.fail(3, ["mcp", "--workspace", "/nowhere"]);
}
