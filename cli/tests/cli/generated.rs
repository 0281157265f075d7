//! These tests check the completions and the manual pages, which are generated from the arguments.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{help::VERBS, test_host::TestHost};

/// As bash asks for what could come next on a line, and what it is told.
const ASK: &str = r#"
source pstore.bash
COMP_WORDBREAKS="$2"
COMP_LINE="$1" COMP_POINT=${#1}
read -ra COMP_WORDS <<< "$COMP_LINE"
[[ $COMP_LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_pstore_names pstore "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;
/// What bash takes for the end of a word, if nobody tells it otherwise.
const BREAKS: &str = " \t\n\"'@><=;|&(:";

/// The machine may be busy with other tests.
const PATIENT_MS: &str = "60000";

fn completed(host: &TestHost, line: &str, breaks: &str) -> Vec<String> {
    completed_within(PATIENT_MS, host, line, breaks)
}

fn completed_within(most_ms: &str, host: &TestHost, line: &str, breaks: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_pstore")).parent().unwrap().to_str().unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", ASK, "bash", line, breaks]).current_dir(host.path("")).env_clear();
    bash.env("PSTORE_COMPLETION_MS", most_ms);
    bash.env("HOME", host.path("")).env("PATH", format!("{program}:/usr/bin:/bin")).stdin(Stdio::null());
    let output = bash.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_tenants_profiles_and_snapshots() {
    let host = TestHost::new();
    fs::write(host.path("pstore.bash"), host.ok("completions bash")).unwrap();
    // Nothing is there yet, and nobody is bothered with that.
    assert_eq!(completed(&host, "pstore show ac", BREAKS), Vec::<String>::new());
    let first = host.capture("1");
    host.ok("tag acme/alice before-migration");
    host.ok("snapshot udd acme/bob");
    // What it has just been told it would not ask again.
    fs::remove_dir_all(host.path(".cache")).unwrap();
    let ask = |line: &str| completed(&host, line, BREAKS);
    assert_eq!(ask("pstore show ac"), ["acme/"]);
    assert_eq!(ask("pstore gc "), ["acme"]);
    assert_eq!(ask("pstore restore --json acme/"), ["acme/alice", "acme/bob"]);
    assert_eq!(ask("pstore list acme/b"), ["acme/bob"]);
    // Bash replaces what comes after the @ alone.
    assert_eq!(ask("pstore show acme/alice@"), ["latest", "latest~1", "before-migration", &first]);
    assert_eq!(ask("pstore show acme/alice@be"), ["before-migration"]);
    let whole = completed(&host, "pstore show acme/alice@be", " ");
    assert_eq!(whole, ["acme/alice@before-migration"]);
    assert_eq!(ask("pstore diff acme/alice@latest be"), ["before-migration"]);
    assert!(ask("pstore sh").contains(&"show".to_owned()));
    assert!(ask("pstore unmount ").iter().all(|word| word.starts_with('-')));
    let unreachable = "pstore show --store=s3://nowhere --endpoint=http://127.0.0.1:9 ac";
    assert_eq!(completed_within("800", &host, unreachable, BREAKS), Vec::<String>::new());
}

fn shell(host: &TestHost, name: &str, args: &[&str]) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_pstore")).parent().unwrap().to_str().unwrap();
    let mut shell = Command::new(name);
    shell.args(args).current_dir(host.path("")).env_clear().stdin(Stdio::null());
    shell.env("HOME", host.path("")).env("PATH", format!("{program}:/usr/bin:/bin"));
    shell.env("PSTORE_COMPLETION_MS", PATIENT_MS);
    let output = shell.output().unwrap_or_else(|error| panic!("scripts/setup test installs {name}: {error}"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fish_completes_them_too_and_zsh_can_read_its_script() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host.ok("tag acme/alice before-migration");
    fs::write(host.path("pstore.fish"), host.ok("completions fish")).unwrap();
    fs::write(host.path("_pstore"), host.ok("completions zsh")).unwrap();
    let ask =
        |line: &str| shell(&host, "fish", &["-c", &format!("source pstore.fish; complete -C '{line}'")]);
    assert_eq!(ask("pstore show ac"), "acme/\n");
    assert_eq!(ask("pstore show acme/alice@be"), "acme/alice@before-migration\n");
    assert!(ask("pstore unmou").starts_with("unmount"));
    shell(&host, "zsh", &["-n", "_pstore"]);
}

/// A store that does not answer costs a moment, and what was there before is offered all the same.
#[test]
fn names_are_remembered_for_when_the_store_is_gone() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let ask = || host.ok("complete-words show acme/");
    assert_eq!(ask(), "acme/alice\n");
    fs::rename(host.path(".local/share/pstore"), host.path("away")).unwrap();
    let names = host.path(".cache/pstore/names");
    for entry in fs::read_dir(names).unwrap() {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        fs::File::options().write(true).open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
    }
    assert_eq!(ask(), "acme/alice\n");
    assert_eq!(host.ok("complete-words"), "");
}

#[test]
fn completions_are_made_for_every_shell() {
    let host = TestHost::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = host.ok(&format!("completions {shell}"));
        for verb in VERBS {
            assert!(script.contains(verb), "{shell} does not know {verb}");
        }
    }
    host.run("completions tcsh").refused(2, &["possible values", "bash"]);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let host = TestHost::new();
    let page = host.ok("man");
    assert!(page.contains(".TH pstore 1"), "{page}");
    host.ok("man pages");
    for verb in VERBS {
        let page = fs::read_to_string(host.path(&format!("pages/pstore-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Example"), "{page}");
    }
    assert!(host.path("pages/pstore.1").exists());
    assert!(host.path("pages/pstore-config-show.1").exists());
    assert!(!host.path("pages/pstore-config-help.1").exists());
}

/// A test that fails leaves no mount behind.
struct Unmounted<'a>(&'a TestHost);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        self.0.run("unmount mnt --discard");
    }
}

#[test]
fn what_is_mounted_can_be_unmounted_by_its_first_letters() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    fs::create_dir(host.path("mnt")).unwrap();
    let _unmounted = Unmounted(&host);
    host.ok("mount --read-only acme/alice mnt");
    let mountpoint = format!("{}\n", host.path("mnt").display());
    assert_eq!(host.ok("complete-words unmount /"), mountpoint);
    assert_eq!(host.ok("complete-words unmount /nowhere"), "");
    // Something is mounted there already.
    assert_eq!(host.ok("complete-words mount acme/alice /"), "");
}

/// The description of a session is damaged while somebody serves it: only its daemon knows what it is.
#[test]
fn a_mount_whose_session_cannot_be_read_is_listed_and_can_be_unmounted() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    fs::create_dir(host.path("mnt")).unwrap();
    let _unmounted = Unmounted(&host);
    host.ok("mount acme/alice mnt");
    let session = host.json("mounts")["mounts"][0]["session"].as_str().unwrap().to_owned();
    let description = host.path(".local/state/pstore/sessions").join(&session).join("session.json");
    fs::write(description, "{").unwrap();
    let mounts = host.json("mounts");
    let told = &mounts["mounts"][0];
    assert_eq!((&told["session"], &told["profile_id"]), (&session.as_str().into(), &"alice".into()));
    assert!(told["problem"].as_str().unwrap().contains("session.json is damaged"), "{told}");
    let text = host.ok("mounts");
    assert!(text.contains(&format!("session {session} is unreadable: ")), "{text}");
    host.ok("unmount mnt");
    assert_eq!(host.ok("mounts"), "nothing is mounted\n");
}
