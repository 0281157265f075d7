//! These tests run the examples of `integrations/` with the real packages and Debian's Chromium, on two hosts: the second finds
//! what the first has left.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tests::{
    binary::{Host, program as pstore},
    chromium::{Chromium, Site},
    mount_fixture::{ALICE, MountFixture},
    server::program,
};

use crate::root;

/// Two hosts with one store, and a site to log in at.
struct Desk {
    fixture: MountFixture,
    hosts: [Host; 2],
    site: Site,
}

impl Desk {
    fn new() -> Self {
        let fixture = MountFixture::local();
        let tmp = fixture.place("tmp");
        let host = |host: Host| host.with("TMPDIR", tmp.to_str().unwrap());
        let hosts = [host(fixture.host.clone()), host(fixture.another("two"))];
        Self { fixture, hosts, site: Site::start() }
    }

    /// An example in a folder that has the packages of Node.
    fn node(&self, name: &str) -> PathBuf {
        let folder = self.fixture.place("node");
        let packages = program("node").parent().unwrap().join("../node_modules");
        symlink(packages, folder.join("node_modules")).unwrap();
        fs::copy(root().join("integrations/node").join(name), folder.join(name)).unwrap();
        folder.join(name)
    }

    /// What an example says that `pstore run` starts on the profile.
    #[track_caller]
    fn run(&self, host: &Host, interpreter: &Path, example: &Path, more: &[&str]) -> String {
        let (major, url) = (Chromium::major(), self.site.url());
        let mut command = Command::new(pstore());
        command.args(["run", ALICE, "--chrome-major", &major, "--"]);
        command.args([interpreter, example]).args(["{profile}", &url]).args(more);
        host.prepare(&mut command);
        succeeded(&command.output().unwrap())
    }

    /// An example that runs on both hosts, one after the other, is logged in on the second.
    #[track_caller]
    fn stays_logged_in(&self, interpreter: &Path, example: &Path) {
        let [one, two] = &self.hosts;
        assert_eq!(self.run(one, interpreter, example, &[]), "before: logged out\nafter: logged in\n");
        assert_eq!(self.run(two, interpreter, example, &[]), "before: logged in\nafter: logged in\n");
        let list = one.succeed(["list", ALICE]);
        assert_eq!(list["snapshots"].as_array().unwrap().len(), 2, "{list:#}");
        one.verify(ALICE, &[]);
    }

    /// Runs the agent's loop on a host.
    fn agent(&self, host: &Host, each_action: bool, actions: &[&str]) -> Output {
        let mut command = Command::new(program("python"));
        command
            .arg(root().join("integrations/python/agent_loop.py"))
            .args([ALICE, &self.site.url()])
            .args(actions);
        host.prepare(&mut command);
        command.env("PSTORE", pstore());
        if each_action {
            command.env("EACH_ACTION", "1");
        }
        command.output().unwrap()
    }

    /// The snapshots of the profile, the first first.
    fn snapshots(&self) -> Vec<Value> {
        self.hosts[0].succeed(["list", ALICE])["snapshots"].as_array().unwrap().clone()
    }

    #[track_caller]
    fn is_clean(&self) {
        let [host, _] = &self.hosts;
        assert_eq!(host.succeed(["mounts"])["mounts"].as_array().unwrap().len(), 0);
        assert_eq!(host.succeed(["lock", "show", ALICE])["state"], "free");
        let left = fs::read_dir(self.fixture.path("tmp")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("profile-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[track_caller]
fn succeeded(ended: &Output) -> String {
    assert!(ended.status.success(), "{ended:#?}");
    String::from_utf8(ended.stdout.clone()).unwrap()
}

#[test]
fn playwright_in_python_is_still_logged_in_on_the_next_host() {
    let desk = Desk::new();
    desk.stays_logged_in(&program("python"), &root().join("integrations/python/playwright_profile.py"));
}

#[test]
fn playwright_in_node_is_still_logged_in_on_the_next_host() {
    let desk = Desk::new();
    let example = desk.node("playwright.mjs");
    desk.stays_logged_in(&program("node"), &example);
}

#[test]
fn puppeteer_is_still_logged_in_on_the_next_host() {
    let desk = Desk::new();
    let example = desk.node("puppeteer.mjs");
    desk.stays_logged_in(&program("node"), &example);
}

/// The model follows a script: the agent, its steps and its browser are real.
#[test]
fn an_agent_of_browser_use_is_still_logged_in_on_the_next_host() {
    let desk = Desk::new();
    let python = program("python").parent().unwrap().join("../browser-use/bin/python");
    let example = root().join("integrations/python/browser_use_profile.py");
    let [one, two] = &desk.hosts;
    let said = desk.run(one, &python, &example, &["account", "login?keep", "account"]);
    let told: Vec<&str> =
        said.lines().filter_map(|line| line.split_once("account: ").map(|(_, text)| text)).collect();
    assert_eq!(told.first(), Some(&"logged out"), "{said}");
    assert_eq!(told.last(), Some(&"logged in"), "{said}");
    let said = desk.run(two, &python, &example, &["account"]);
    assert!(said.contains("account: logged in") && !said.contains("logged out"), "{said}");
    desk.is_clean();
}

#[test]
fn an_agents_loop_commits_what_it_did_and_drops_what_failed() {
    let desk = Desk::new();
    let [one, two] = &desk.hosts;
    let said = succeeded(&desk.agent(one, false, &["account", "login?keep", "account"]));
    assert_eq!(said, "account: logged out\nlogin?keep:\naccount: logged in\n");
    assert_eq!(desk.snapshots().len(), 1);
    assert_eq!(succeeded(&desk.agent(two, false, &["account"])), "account: logged in\n");
    let before = desk.snapshots();
    let failed = desk.agent(one, false, &["account", "fail"]);
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("the agent lost its way"), "{failed:#?}");
    assert_eq!(desk.snapshots(), before);
    desk.is_clean();
}

#[test]
fn every_action_of_an_agent_is_a_snapshot_that_an_operator_can_go_back_to() {
    let desk = Desk::new();
    let host = desk.hosts[0].clone().with("PSTORE_MODES", "cold,hot");
    let failed = desk.agent(&host, true, &["account", "login?keep", "fail"]);
    assert!(!failed.status.success());
    let snapshots = desk.snapshots();
    let actions: Vec<&str> =
        snapshots.iter().filter_map(|snapshot| snapshot["labels"]["action"].as_str()).collect();
    assert_eq!(actions, ["account", "login?keep"], "{snapshots:#?}");
    assert!(snapshots.iter().all(|snapshot| snapshot["mode"] == "hot"), "{snapshots:#?}");
    desk.is_clean();
}
