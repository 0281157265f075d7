//! `Screen` borrows the terminal, and gives it back as it was: when it is dropped, and before a panic is told.

use std::io;

use engine::failure::Failure;
use ratatui::{DefaultTerminal, Frame};
use store::ErrorKind;

/// See the module header.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            let _ = ratatui::try_restore();
            unusable(&error).hint("--once prints one frame")
        })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.0.draw(draw).map(drop).map_err(|error| unusable(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

pub(super) fn unusable(error: &io::Error) -> Failure {
    Failure::new(ErrorKind::Io, format!("the terminal cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Says to the test that it is to panic with the screen open.
    const PANICS: &str = "PSTORE_TEST_PANICS_ON_SCREEN";

    /// The program `script` gives the second process a terminal, and prints what that process writes to it.
    #[test]
    fn a_panic_is_told_on_the_terminal_as_it_was() {
        if std::env::var_os(PANICS).is_some() {
            let mut screen = Screen::open().unwrap();
            screen.draw(|frame| frame.render_widget("a frame", frame.area())).unwrap();
            panic!("with the screen open");
        }
        let test = std::env::current_exe().unwrap();
        let line = format!(
            "{} --exact top::screen::tests::a_panic_is_told_on_the_terminal_as_it_was --nocapture; stty -a",
            test.display()
        );
        let ran = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env(PANICS, "1")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        let (entered, left) = (told.find("\x1b[?1049h").unwrap(), told.find("\x1b[?1049l").unwrap());
        let panicked = told.find("with the screen open").unwrap();
        assert!(entered < left && left < panicked, "{told:?}");
        let modes: Vec<&str> = told[panicked..].split_whitespace().collect();
        assert!(modes.contains(&"icanon") && modes.contains(&"echo"), "{told:?}");
    }
}
