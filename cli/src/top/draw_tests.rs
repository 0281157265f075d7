//! These tests draw frames for terminals of several sizes, and read them.

use std::ffi::OsString;

use engine::{
    outcome::LineageFields,
    overview::{HeldLock, OverviewLock},
    verbs::{
        lock::LockState,
        top::{TopLock, TopMount, TopOutcome, TopPart, TopProblem, TopRate, TopSession},
    },
};
use ratatui::{Terminal, backend::TestBackend};
use store::ErrorKind;

use super::{
    draw::draw,
    pane::panes,
    state::{State, Typing},
};
use crate::args;

fn lock(profile: &str, run: &str, state: LockState) -> TopLock {
    let lineage = LineageFields {
        tenant_id: "acme".parse().unwrap(),
        profile_id: profile.parse().unwrap(),
        chrome_major_version: "131".parse().unwrap(),
    };
    TopLock::from(HeldLock {
        lineage,
        lock: OverviewLock {
            holder_run_id: run.to_owned(),
            holder_host: "host-1".to_owned(),
            holder_host_run_id: String::new(),
            acquired_at_ms: 0,
            renewal_count: 3,
            state,
            expires_at_ms: 300_000,
            remaining_ms: 300_000,
        },
    })
}

/// A moment with something of everything.
pub(super) fn seen() -> TopOutcome {
    TopOutcome {
        source: "host-1".to_owned(),
        as_of_ms: 1_700_000_000_000,
        total_locks: 2,
        locks: vec![
            lock("alice", "run-1", LockState::Held),
            lock("bob", "run\u{1b}[31m-2", LockState::Expired),
        ],
        mounts: vec![TopMount {
            session: "01KA2ZQ3".to_owned(),
            tenant_id: Some("acme".to_owned()),
            profile_id: Some("alice".to_owned()),
            mode: None,
            mountpoint: Some("/srv/a place".into()),
            dirty_bytes: Some(2048),
            fetched_bytes: Some(5 << 20),
            lock_expires_at_ms: Some(61_000),
            problem: None,
            command: "pstore commit '/srv/a place'".to_owned(),
        }],
        sessions: vec![TopSession {
            session: "01KA2ZQ4".to_owned(),
            host: None,
            tenant_id: Some("acme".to_owned()),
            profile_id: Some("carol".to_owned()),
            state: "unfinished".to_owned(),
            age_ms: Some(7_260_000),
            dirty_bytes: Some(1),
            command: "pstore sessions rescue 01KA2ZQ4".to_owned(),
        }],
        rates: vec![TopRate {
            name: "loads".to_owned(),
            is_bytes: false,
            total: 12.0,
            per_second: Some(0.5),
        }],
        problems: vec![TopProblem {
            part: TopPart::Rates,
            kind: ErrorKind::Denied,
            message: "the token is not for all tenants".to_owned(),
            hint: None,
        }],
    }
}

/// The lines of a frame.
fn drawn(width: u16, height: u16, state: &mut State) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, 0)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn a_usual_terminal_shows_all_panes_and_the_command_of_the_row() {
    let mut state = State { seen: Some(seen()), ..State::default() };
    let lines = drawn(80, 24, &mut state);
    let frame = lines.join("\n");
    for part in [
        "pstore top  host-1  2023-11-14",
        "Runs and locks: 2",
        "acme/alice",
        "5 m 0 s",
        "Mounts: 1",
        "2.0 KiB",
        "/srv/a place",
        "Sessions: 1",
        "2 h 1 m",
        "the token is not for all tenants",
        "30.0/min",
    ] {
        assert!(frame.contains(part), "no {part:?} in\n{frame}");
    }
    assert_eq!(lines[22], "$ pstore force-unlock acme/alice --chrome-major 131 --reason WHY");
    // Nothing that others have written acts on the terminal.
    assert!(frame.contains("run\\u{1b}[31m-2") && !frame.contains('\u{1b}'), "{frame}");
    state.active = 1;
    assert_eq!(drawn(80, 24, &mut state)[22], "$ pstore commit '/srv/a place'");
}

#[test]
fn a_wide_terminal_has_room_for_every_column() {
    let frame = drawn(200, 40, &mut State { seen: Some(seen()), ..State::default() }).join("\n");
    for name in ["RENEWED", "COMMAND", "FETCHED", "PROBLEM", "SESSION", "pstore reap acme"] {
        assert!(frame.contains(name), "no {name} in\n{frame}");
    }
}

#[test]
fn a_narrow_terminal_keeps_the_columns_that_matter_most() {
    let lines = drawn(24, 24, &mut State { seen: Some(seen()), ..State::default() });
    let row = lines.iter().find(|line| line.contains("acme/bob")).unwrap();
    assert!(row.contains("expired") && !row.contains("host-1"), "{row}");
    assert!(lines.iter().any(|line| line.contains("PROFILE")), "{lines:#?}");
}

#[test]
fn a_low_terminal_shows_the_pane_that_was_chosen() {
    for active in 0..4 {
        let mut state = State { seen: Some(seen()), active, ..State::default() };
        let frame = drawn(60, 9, &mut state).join("\n");
        let titles = ["Runs and locks", "Mounts", "Sessions", "Rates"];
        for (at, title) in titles.into_iter().enumerate() {
            assert_eq!(frame.contains(title), at == active, "{title} in\n{frame}");
        }
    }
}

#[test]
fn no_size_of_a_terminal_is_too_small() {
    for (width, height) in [(1, 1), (2, 3), (10, 4), (80, 1), (1, 24), (300, 5)] {
        for typing in [Typing::Keys, Typing::Filter, Typing::Help] {
            drawn(width, height, &mut State { seen: Some(seen()), typing, ..State::default() });
            drawn(width, height, &mut State { typing, ..State::default() });
        }
    }
}

#[test]
fn a_row_that_is_far_down_comes_into_view() {
    let mut many = seen();
    many.locks = (0..100).map(|at| lock(&format!("p{at}"), "run", LockState::Held)).collect();
    many.total_locks = 700;
    let mut state = State { seen: Some(many), ..State::default() };
    state.selected[0] = usize::MAX;
    let frame = drawn(80, 24, &mut state).join("\n");
    assert!(frame.contains("Runs and locks: 100 of 700") && frame.contains("acme/p99"), "{frame}");
    assert!(!frame.contains("acme/p0 "), "{frame}");
}

#[test]
fn the_help_tells_the_keys() {
    let frame = drawn(80, 24, &mut State { typing: Typing::Help, ..State::default() }).join("\n");
    assert!(frame.contains("another pane") && frame.contains("leave"), "{frame}");
}

#[test]
fn every_command_of_a_row_can_be_typed() {
    let mut commands: Vec<String> = Vec::new();
    for pane in panes(&seen(), "", 0) {
        commands.extend(pane.rows.into_iter().map(|row| row.command).filter(|command| !command.is_empty()));
    }
    assert_eq!(commands.len(), 4);
    for command in commands {
        let words = command.replace("'/srv/a place'", "/srv/a");
        args::parse_words(words.split(' ').map(OsString::from)).unwrap_or_else(|_| panic!("{command}"));
    }
}
