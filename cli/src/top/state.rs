//! `State` is what a viewer has chosen: a pane, a row of each, a filter, the help. Keys change it.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use engine::verbs::top::TopOutcome;

use super::pane::{Pane, panes};

/// How far a page is.
const PAGE: usize = 10;

/// What keys are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Typing {
    /// To move and to choose.
    #[default]
    Keys,
    /// For the filter.
    Filter,
    /// To leave the help.
    Help,
}

/// Whether the viewer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Stays,
    Leaves,
}

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Nothing before the first look.
    pub(super) seen: Option<TopOutcome>,
    pub(super) active: usize,
    pub(super) selected: [usize; 4],
    pub(super) filter: String,
    pub(super) typing: Typing,
}

impl State {
    /// The panes of this moment. A row that was chosen and is gone gives way to the last.
    pub(super) fn panes(&mut self, now_ms: u64) -> Option<[Pane; 4]> {
        let panes = panes(self.seen.as_ref()?, &self.filter, now_ms);
        for (selected, pane) in self.selected.iter_mut().zip(&panes) {
            *selected = (*selected).min(pane.rows.len().saturating_sub(1));
        }
        Some(panes)
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Pressed {
        if key.kind == KeyEventKind::Release {
            return Pressed::Stays;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Pressed::Leaves;
        }
        match self.typing {
            Typing::Keys => return self.choose(key.code),
            Typing::Filter => self.type_filter(key.code),
            Typing::Help => self.typing = Typing::Keys,
        }
        Pressed::Stays
    }

    fn choose(&mut self, key: KeyCode) -> Pressed {
        let row = &mut self.selected[self.active];
        match key {
            KeyCode::Char('q') => return Pressed::Leaves,
            KeyCode::Esc if self.filter.is_empty() => return Pressed::Leaves,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::Right => self.active = (self.active + 1) % 4,
            KeyCode::BackTab | KeyCode::Left => self.active = (self.active + 3) % 4,
            KeyCode::Down | KeyCode::Char('j') => *row = row.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => *row = row.saturating_sub(1),
            KeyCode::PageDown => *row = row.saturating_add(PAGE),
            KeyCode::PageUp => *row = row.saturating_sub(PAGE),
            KeyCode::Home => *row = 0,
            KeyCode::End => *row = usize::MAX,
            KeyCode::Char('/') => self.typing = Typing::Filter,
            KeyCode::Char('?') => self.typing = Typing::Help,
            _ => {}
        }
        Pressed::Stays
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.typing = Typing::Keys,
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = Typing::Keys;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::draw_tests::seen;

    fn press(state: &mut State, keys: &[KeyCode]) -> Pressed {
        let mut last = Pressed::Stays;
        for key in keys {
            last = state.press(KeyEvent::new(*key, KeyModifiers::NONE));
        }
        last
    }

    #[test]
    fn tab_and_arrows_go_round_the_panes_and_stop_at_the_last_row() {
        let mut state = State { seen: Some(seen()), ..State::default() };
        press(&mut state, &[KeyCode::Tab, KeyCode::Right, KeyCode::Left, KeyCode::BackTab, KeyCode::BackTab]);
        assert_eq!(state.active, 3);
        press(&mut state, &[KeyCode::Tab, KeyCode::End]);
        let rows = state.panes(0).unwrap()[0].rows.len();
        assert_eq!((state.active, state.selected[0]), (0, rows - 1));
        press(&mut state, &[KeyCode::Up, KeyCode::Home, KeyCode::Up, KeyCode::Down]);
        assert_eq!(state.selected[0], 1);
    }

    #[test]
    fn a_filter_takes_letters_that_are_keys_otherwise() {
        let mut state = State { seen: Some(seen()), ..State::default() };
        let typed = [KeyCode::Char('/'), KeyCode::Char('B'), KeyCode::Char('o'), KeyCode::Char('q')];
        assert_eq!(press(&mut state, &typed), Pressed::Stays);
        press(&mut state, &[KeyCode::Backspace, KeyCode::Char('b'), KeyCode::Enter]);
        let [locks, ..] = state.panes(0).unwrap();
        assert_eq!((locks.title.as_str(), locks.rows.len()), ("Runs and locks: 1 of 2", 1));
        // Escape takes the filter away, and then leaves.
        assert_eq!(press(&mut state, &[KeyCode::Esc]), Pressed::Stays);
        assert_eq!(state.panes(0).unwrap()[0].rows.len(), 2);
        assert_eq!(press(&mut state, &[KeyCode::Esc]), Pressed::Leaves);
    }

    #[test]
    fn help_ends_with_any_key_and_control_c_leaves_from_anywhere() {
        let mut state = State::default();
        press(&mut state, &[KeyCode::Char('?'), KeyCode::Char('q')]);
        assert_eq!(state.typing, Typing::Keys);
        for start in [KeyCode::Char('?'), KeyCode::Char('/')] {
            press(&mut state, &[start]);
            assert_eq!(
                state.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
                Pressed::Leaves
            );
            state.typing = Typing::Keys;
        }
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Pressed::Leaves);
    }
}
