//! These tests read the help as a user does.

use crate::test_host::TestHost;

pub const VERBS: [&str; 44] = [
    "init",
    "snapshot",
    "list",
    "show",
    "ls",
    "cat",
    "find",
    "diff",
    "history",
    "restore",
    "export",
    "mount",
    "commit",
    "unmount",
    "mounts",
    "sessions",
    "run",
    "container",
    "stats",
    "verify",
    "lock",
    "reap",
    "force-unlock",
    "rollback",
    "delete",
    "retention",
    "gc",
    "tag",
    "untag",
    "expect",
    "project",
    "workspace",
    "checkpoint",
    "import",
    "log",
    "serve",
    "mcp",
    "token",
    "metrics",
    "top",
    "doctor",
    "config",
    "completions",
    "man",
];

#[test]
fn the_overview_fits_a_screen_and_names_every_command_and_option() {
    let host = TestHost::new();
    let help = host.ok("--help");
    assert!(help.lines().count() <= 24, "{} lines", help.lines().count());
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let words: Vec<&str> = help.split_whitespace().map(|word| word.trim_matches(',')).collect();
    for verb in VERBS {
        assert!(words.contains(&verb), "{verb} is missing");
    }
    // The options of every command are those in any command's own help.
    let own = host.ok("doctor --help");
    for option in own.split_whitespace().filter(|word| word.starts_with("--")) {
        assert!(help.contains(option.trim_matches(|c: char| ",.;".contains(c))), "{option} is missing");
    }
    assert_eq!(host.ok("-h"), help);
}

#[test]
fn every_command_has_an_example_that_it_understands() {
    let host = TestHost::new();
    for verb in VERBS {
        let help = host.ok(&format!("{verb} --help"));
        let example = help.split("Example:").nth(1).unwrap_or_else(|| panic!("{verb} has no example"));
        assert!(example.contains(&format!("pstore {verb}")), "{example}");
    }
    // And there are no others.
    let script = host.ok("completions fish");
    // Values of options are offered there, too.
    let is_command = |line: &&str| line.contains("__fish_pstore_needs_command") && !line.contains(" -l ");
    let commands = script.lines().filter(is_command);
    let commands = commands.filter_map(|line| line.split("-a \"").nth(1)?.split('"').next());
    assert_eq!(commands.collect::<Vec<_>>(), VERBS);
}

#[test]
fn nothing_at_all_is_a_mistake() {
    TestHost::new().run("").refused(2, &["Usage: pstore"]);
}

#[test]
fn the_version_is_told() {
    let (host, number) = (TestHost::new(), env!("CARGO_PKG_VERSION"));
    assert_eq!(host.ok("-V"), format!("pstore {number}\n"));
    let long = host.ok("--version");
    assert!(long.starts_with(&format!("pstore {number} (")), "{long}");
    let lines: Vec<_> = long.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(lines, ["format", "target", "features"], "{long}");
}

#[test]
fn help_is_also_a_word() {
    let host = TestHost::new();
    assert_eq!(host.ok("help"), host.ok("--help"));
    for verb in ["list", "lock acquire", "sessions rescue"] {
        assert_eq!(host.ok(&format!("help {verb}")), host.ok(&format!("{verb} --help")), "{verb}");
    }
    host.run("help lsit").refused(2, &["unrecognized subcommand 'lsit'", "list"]);
}

#[test]
fn a_verb_of_another_program_leads_to_ours() {
    let host = TestHost::new();
    let ran = host.run("prune acme");
    ran.refused(2, &["unrecognized subcommand 'prune'", "'retention'", "'gc'"]);
    assert!(!ran.stderr.contains("'run'"), "{ran:?}");
}

#[test]
fn verbose_tells_the_steps_with_their_times() {
    let host = TestHost::new();
    assert_eq!(steps(&host.run("snapshot udd acme/alice").stderr), []);
    let told = host.run("-v snapshot udd acme/bob").stderr;
    let steps = steps(&told);
    for step in ["opened ", "holds still", "done"] {
        assert!(steps.iter().any(|(_, told)| told.contains(step)), "no {step:?} in {told}");
    }
    assert!(steps.is_sorted_by_key(|(at, _)| *at), "{told}");
}

/// What was told of steps: after how many seconds, and which.
fn steps(told: &str) -> Vec<(f64, &str)> {
    let lines = told.lines().filter_map(|line| line.trim_start().split_once(" s  "));
    lines.filter_map(|(at, step)| Some((at.parse().ok()?, step))).collect()
}
