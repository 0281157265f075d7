//! These tests install the Debian package in a root of its own, use it there, and remove it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::made::{has_all_licences, in_root, package, root, run};

/// A root that has nothing but what the package depends on.
struct CleanRoot {
    folder: tempfile::TempDir,
}

impl CleanRoot {
    fn new() -> Self {
        let clean = Self { folder: tempfile::tempdir().unwrap() };
        for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "bin", "tmp"] {
            fs::create_dir_all(clean.at(directory)).unwrap();
        }
        // dpkg checks the dependencies against these, as this host has them.
        let status = run(Command::new("dpkg-query").args(["-s", "libc6", "libgcc-s1"])).stdout;
        fs::write(clean.at("var/lib/dpkg/status"), with_ends(&status)).unwrap();
        let libraries = run(Command::new("ldd").arg(tests::binary::program())).stdout;
        for path in
            String::from_utf8(libraries).unwrap().split_whitespace().filter(|word| word.starts_with('/'))
        {
            let target = clean.at(path.trim_start_matches('/'));
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(path, target).unwrap();
        }
        clean
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    fn dpkg(&self) -> Command {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.at("").display())).arg("--force-script-chrootless");
        command
    }

    /// Runs the installed program with this root as its own.
    fn pstore(&self, words: &[&str]) -> String {
        in_root(&self.at(""), "0:0", &[("HOME", "/tmp")], &[&["/usr/bin/pstore"], words].concat())
    }
}

/// The paragraphs of two packages, parted by an empty line.
fn with_ends(status: &[u8]) -> String {
    let text =
        String::from_utf8_lossy(status).replace("\nPackage: ", "\n\nPackage: ").replace("\n\n\n", "\n\n");
    // What these depend on in turn is not here.
    text.lines().filter(|line| !line.starts_with("Depends: ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_debian_package_is_installed_used_and_removed_in_a_clean_root() {
    let clean = CleanRoot::new();
    let made = package("deb", clean.folder.path());
    run(clean.dpkg().arg("--install").arg(&made));
    let number = env!("CARGO_PKG_VERSION");
    assert_eq!(clean.pstore(&["-V"]), format!("pstore {number}\n"));
    fs::create_dir(clean.at("tmp/udd")).unwrap();
    fs::write(clean.at("tmp/udd/Preferences"), "{}").unwrap();
    clean.pstore(&["snapshot", "/tmp/udd", "acme/alice", "--chrome-major", "131"]);
    assert!(clean.pstore(&["verify", "acme/alice"]).contains("No damage found"));
    // The configuration is read, and says nothing until somebody edits it.
    assert!(clean.pstore(&["config", "show", "--json"]).contains("/etc/pstore/pstore.toml"));
    // What it shows in comments is right.
    let text = fs::read_to_string(clean.at("etc/pstore/pstore.toml")).unwrap();
    let shown = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
    let settings: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix('#').filter(shown)).skip(1).collect();
    assert!(settings.len() > 8, "{settings:?}");
    fs::write(clean.at("tmp/all.toml"), settings.join("\n")).unwrap();
    let told = clean.pstore(&["--config", "/tmp/all.toml", "config", "show", "acme/alice"]);
    assert!(told.contains("file:///srv/pstore") && told.contains("20000000000"), "{told}");
    assert!(
        fs::read_to_string(clean.at("etc/passwd")).unwrap().contains("pstore:x:"),
        "sysusers makes the user"
    );
    assert_eq!(fs::metadata(clean.at("etc/pstore/serve.env")).unwrap().permissions().mode() & 0o777, 0o600);
    for path in [
        "usr/share/man/man1/pstore.1.gz",
        "usr/share/man/man1/pstore-mount.1.gz",
        "usr/share/doc/pstore/copyright",
        "usr/share/doc/pstore/changelog.gz",
        "usr/share/doc/pstore/examples/mounts.conf",
    ] {
        assert!(clean.at(path).exists(), "{path} is missing");
    }
    let licences =
        run(Command::new("gzip").args(["-dc"]).arg(clean.at("usr/share/doc/pstore/third-party.gz"))).stdout;
    has_all_licences(&String::from_utf8(licences).unwrap());
    let shells = [
        ("bash", "usr/share/bash-completion/completions/pstore"),
        ("zsh", "usr/share/zsh/vendor-completions/_pstore"),
        ("fish", "usr/share/fish/vendor_completions.d/pstore.fish"),
    ];
    for (shell, path) in shells {
        run(Command::new(shell).arg("-n").arg(clean.at(path)));
    }
    for (unit, path) in units(&clean.at("usr/lib/systemd/system")) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("/usr/local"), "{unit}: {text}");
    }
    assert_eq!(units(&clean.at("usr/lib/systemd/system")).len(), 7);
    let example = fs::read_to_string(clean.at("usr/share/doc/pstore/examples/mounts.conf")).unwrap();
    assert!(
        example.contains("\nExecStart=/usr/bin/pstore serve ") && !example.contains("/usr/local"),
        "{example}"
    );
    // An edited configuration stays when the package goes.
    fs::write(clean.at("etc/pstore/pstore.toml"), "# mine\n").unwrap();
    run(clean.dpkg().args(["--remove", "pstore"]));
    assert!(!clean.at("usr/bin/pstore").exists());
    assert_eq!(fs::read_to_string(clean.at("etc/pstore/pstore.toml")).unwrap(), "# mine\n");
}

/// The name and the path of each unit in a directory.
fn units(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let units =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "service" || kind == "timer"));
    units.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path)).collect()
}

#[test]
fn every_service_is_confined_and_every_unit_understood() {
    let folder = tempfile::tempdir().unwrap();
    let units = units(&root().join("deploy/systemd"));
    let copies: Vec<_> = units
        .iter()
        .map(|(name, path)| {
            // systemd looks whether the program is there.
            let text = fs::read_to_string(path).unwrap();
            let copy = folder.path().join(name);
            fs::write(
                &copy,
                text.replace("/usr/local/bin/pstore", tests::binary::program().to_str().unwrap()),
            )
            .unwrap();
            copy
        })
        .collect();
    let verified = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&copies));
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(!said.contains(folder.path().to_str().unwrap()), "{said}");
    let services: Vec<_> =
        copies.iter().filter(|path| path.extension().is_some_and(|kind| kind == "service")).collect();
    assert_eq!(services.len(), 4);
    for service in services {
        // In tenths: 3.0.
        let line = ["security", "--offline=true", "--no-pager", "--threshold=30"];
        run(Command::new("systemd-analyze").args(line).arg(service));
    }
}
