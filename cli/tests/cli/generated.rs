use std::fs;

use crate::{desk::Desk, help::VERBS};

#[test]
fn completions_are_made_for_every_shell() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.ok(&format!("completions {shell}"));
        for verb in VERBS {
            assert!(script.contains(verb), "{shell} does not know {verb}");
        }
    }
    desk.run("completions tcsh").refused(2, &["possible values", "bash"]);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let desk = Desk::new();
    let page = desk.ok("man");
    assert!(page.contains(".TH pstore 1"), "{page}");
    desk.ok("man pages");
    for verb in VERBS {
        let page = fs::read_to_string(desk.path(&format!("pages/pstore-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Example"), "{page}");
    }
    assert!(desk.path("pages/pstore.1").exists());
    assert!(desk.path("pages/pstore-config-show.1").exists());
    assert!(!desk.path("pages/pstore-config-help.1").exists());
}
