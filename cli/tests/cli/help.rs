//! These tests read the help as a user does.

use crate::desk::Desk;

pub const VERBS: [&str; 35] = [
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
    "import",
    "log",
    "doctor",
    "config",
    "completions",
    "man",
];

#[test]
fn the_overview_fits_a_screen_and_names_every_command_and_option() {
    let desk = Desk::new();
    let help = desk.ok("--help");
    assert!(help.lines().count() <= 24, "{} lines", help.lines().count());
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let words: Vec<&str> = help.split_whitespace().map(|word| word.trim_matches(',')).collect();
    for verb in VERBS {
        assert!(words.contains(&verb), "{verb} is missing");
    }
    // The options of every command are those in any command's own help.
    let own = desk.ok("doctor --help");
    for option in own.split_whitespace().filter(|word| word.starts_with("--")) {
        assert!(help.contains(option.trim_matches(|c: char| ",.;".contains(c))), "{option} is missing");
    }
    assert_eq!(desk.ok("-h"), help);
}

#[test]
fn every_command_has_an_example_that_it_understands() {
    let desk = Desk::new();
    for verb in VERBS {
        let help = desk.ok(&format!("{verb} --help"));
        let example = help.split("Example:").nth(1).unwrap_or_else(|| panic!("{verb} has no example"));
        assert!(example.contains(&format!("pstore {verb}")), "{example}");
    }
    // And there are no others.
    let script = desk.ok("completions fish");
    let commands = script.lines().filter(|line| line.contains("__fish_pstore_needs_command"));
    let commands = commands.filter_map(|line| line.split("-a \"").nth(1)?.split('"').next());
    assert_eq!(commands.collect::<Vec<_>>(), VERBS);
}

#[test]
fn nothing_at_all_is_a_mistake() {
    Desk::new().run("").refused(2, &["Usage: pstore"]);
}

#[test]
fn the_version_is_told() {
    assert_eq!(Desk::new().ok("--version"), format!("pstore {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_is_also_a_word() {
    let desk = Desk::new();
    assert_eq!(desk.ok("help"), desk.ok("--help"));
    for verb in ["list", "lock acquire", "sessions rescue"] {
        assert_eq!(desk.ok(&format!("help {verb}")), desk.ok(&format!("{verb} --help")), "{verb}");
    }
    desk.run("help lsit").refused(2, &["unrecognized subcommand 'lsit'", "list"]);
}

#[test]
fn a_verb_of_another_program_leads_to_ours() {
    let desk = Desk::new();
    let ran = desk.run("prune acme");
    ran.refused(2, &["unrecognized subcommand 'prune'", "'retention'", "'gc'"]);
    assert!(!ran.stderr.contains("'run'"), "{ran:?}");
}

#[test]
fn verbose_tells_the_steps_with_their_times() {
    let desk = Desk::new();
    assert_eq!(steps(&desk.run("snapshot udd acme/alice").stderr), []);
    let told = desk.run("-v snapshot udd acme/bob").stderr;
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
