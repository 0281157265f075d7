//! These tests install the wheel with `pip` in a new environment, and use the program and the client in it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tests::{
    chromium::{Chromium, Site},
    server::program,
};

use super::made::{has_all_licences, package, run};

/// Five lines of Python, and what they are told: where to log in, and what the site says then.
const FIVE_LINES: &str = r#"
import sys, pstore
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright, pstore.profile("acme/alice", chrome_major=int(sys.argv[1])).mount() as udd:
    browser = playwright.chromium.launch_persistent_context(udd.path, executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = browser.pages[0]; page.goto(sys.argv[2]); print(page.inner_text("body")); browser.close()
"#;

/// An environment with nothing but the wheel.
struct Environment {
    folder: tempfile::TempDir,
}

impl Environment {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = package("wheel", folder.path());
        let place = folder.path().join("venv");
        run(Command::new(program("python")).args(["-m", "venv"]).arg(&place));
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"];
        run(Command::new(place.join("bin/python")).args(pip).arg(made));
        Self { folder }
    }

    /// A program of it, on a host of this name, without any other program or package of whoever runs the tests.
    fn on(&self, host: &str, name: &str) -> Command {
        let home = self.folder.path().join(host);
        std::fs::create_dir_all(&home).unwrap();
        let mut command = Command::new(self.bin().join(name));
        command
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .env("PSTORE_STORE", format!("file://{}", self.folder.path().join("store").display()))
            .current_dir(self.folder.path());
        command
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("venv/bin")
    }
}

/// Where the packages are that the tests have installed: Playwright.
fn site_packages() -> String {
    let line = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let told = run(Command::new(program("python")).args(["-c", line]));
    String::from_utf8(told.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_wheel_gives_the_program_and_the_client_without_a_compiler() {
    let environment = Environment::new();
    let version = format!("pstore {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(run(environment.on("a", "pstore").arg("-V")).stdout).unwrap(), version);
    let first = r#"
import pathlib, pstore
pathlib.Path("udd").mkdir(); pathlib.Path("udd/Preferences").write_text("{}")
stored = pstore.profile("acme/alice", chrome_major=131).snapshot("udd")
assert stored.is_new and pstore.profiles("acme") == ["alice"]
print(pstore.__file__, pstore.Host().version())
"#;
    let told = String::from_utf8(run(environment.on("a", "python").args(["-c", first])).stdout).unwrap();
    // The client that was installed, with the program that was installed with it, though it is not in PATH.
    assert!(told.starts_with(environment.folder.path().to_str().unwrap()), "{told}");
    assert!(told.contains(version.trim()), "{told}");
    let line = "import importlib.metadata as m; print([p.read_text() for p in m.files('pstore') if p.name == 'THIRD-PARTY'][0])";
    let licences = run(environment.on("a", "python").args(["-c", line])).stdout;
    has_all_licences(&String::from_utf8(licences).unwrap());
    // It goes as it came.
    run(environment.on("a", "python").args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "uninstall",
        "-q",
        "-y",
        "pstore",
    ]));
    assert!(!Path::exists(&environment.bin().join("pstore")));
}

#[test]
fn five_lines_of_python_are_still_logged_in_on_another_host() {
    let (environment, site, packages) = (Environment::new(), Site::start(), site_packages());
    let visit = |host: &str, path: &str| {
        let mut command = environment.on(host, "python");
        command.env("PYTHONPATH", &packages).args(["-c", FIVE_LINES, &Chromium::major()]);
        let told = run(command.arg(format!("{}{path}", site.url()))).stdout;
        String::from_utf8(told).unwrap().trim().to_owned()
    };
    assert_eq!(visit("a", "account"), "logged out");
    visit("a", "stay");
    assert_eq!(visit("b", "account"), "logged in");
}
