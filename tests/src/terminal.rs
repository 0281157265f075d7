//! `Terminal` runs the program on a terminal of its own, reads its screen, and types.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::binary::{Host, program};

/// How long it may take until something is shown.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program on a terminal. Killed when it is dropped.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    /// The end that a person would sit at.
    own: OwnedFd,
    /// Kept open, so that the terminal outlives the program.
    other: File,
    screen: Arc<Mutex<Screen>>,
}

impl Terminal {
    /// Runs a command on a terminal with so many columns and lines.
    pub fn start(host: &Host, (columns, lines): (u16, u16), arguments: &[&str]) -> Self {
        let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&own).unwrap();
        unlockpt(&own).unwrap();
        let path = ptsname(&own, Vec::new()).unwrap().into_string().unwrap();
        let other = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let screen = Arc::new(Mutex::new(Screen::new(columns, lines)));
        tcsetwinsize(&own, size(columns, lines)).unwrap();
        // The terminal becomes the one that signals of the keyboard and of its size go to.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program()).args(arguments);
        host.prepare(&mut command);
        let end = || Stdio::from(other.try_clone().unwrap());
        command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        let (mut reader, shown) = (File::from(own.try_clone().unwrap()), Arc::clone(&screen));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shown.lock().take(&bytes[..count]);
            }
        });
        Self { child, own, other, screen }
    }

    /// Types these characters.
    pub fn press(&self, keys: &str) {
        File::from(self.own.try_clone().unwrap()).write_all(keys.as_bytes()).unwrap();
    }

    /// Gives it another size.
    pub fn resize(&self, columns: u16, lines: u16) {
        self.screen.lock().resize(columns, lines);
        tcsetwinsize(&self.own, size(columns, lines)).unwrap();
    }

    /// The text on the screen.
    pub fn shown(&self) -> String {
        self.screen.lock().text()
    }

    /// Waits until the screen has this, and returns it.
    #[track_caller]
    pub fn await_text(&mut self, text: &str) -> String {
        self.await_screen(text, |shown| shown.contains(text))
    }

    /// Waits until the screen is so.
    #[track_caller]
    pub fn await_screen(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let shown = self.shown();
            if is_so(&shown) {
                return shown;
            }
            let runs = self.child.try_wait().unwrap().is_none();
            assert!(runs && began.elapsed() < PATIENCE, "not {what:?} in\n{shown}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Tells the program to end, as hosts do.
    pub fn terminate(&self) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    }

    /// Waits until the program has ended. Fails unless the terminal is as it was before.
    #[track_caller]
    pub fn await_end(mut self) -> Option<i32> {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end:\n{}", self.shown());
            thread::sleep(Duration::from_millis(20));
        };
        let modes = tcgetattr(self.other.as_fd()).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
        let began = Instant::now();
        while !self.screen.lock().is_given_back() {
            assert!(began.elapsed() < PATIENCE, "the screen is not given back:\n{}", self.shown());
            thread::sleep(Duration::from_millis(20));
        }
        status.code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// As much of a terminal as programs that draw whole frames need.
#[derive(Debug)]
struct Screen {
    cells: Vec<Vec<char>>,
    at: (usize, usize),
    /// The beginning of an incomplete escape sequence or character.
    rest: Vec<u8>,
    is_other_screen: bool,
    is_cursor_hidden: bool,
}

impl Screen {
    fn new(columns: u16, lines: u16) -> Self {
        let cells = vec![vec![' '; columns.into()]; lines.into()];
        Self { cells, at: (0, 0), rest: Vec::new(), is_other_screen: false, is_cursor_hidden: false }
    }

    fn resize(&mut self, columns: u16, lines: u16) {
        self.cells = vec![vec![' '; columns.into()]; lines.into()];
    }

    fn is_given_back(&self) -> bool {
        !self.is_other_screen && !self.is_cursor_hidden
    }

    fn text(&self) -> String {
        let lines = self.cells.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.rest.push(*byte);
            self.take_rest();
        }
    }

    /// Acts on the bytes that have arrived, if they are whole.
    fn take_rest(&mut self) {
        match self.rest.as_slice() {
            [0x1b] | [0x1b, b'['] => {}
            [0x1b, b'[', middle @ .., last @ b'@'..=b'~'] => {
                let (numbers, last) = (String::from_utf8_lossy(middle).into_owned(), *last);
                self.rest.clear();
                self.act(&numbers, last);
            }
            [0x1b, b'[', ..] => {}
            [0x1b, ..] => self.rest.clear(),
            bytes => {
                let Ok(text) = std::str::from_utf8(bytes) else { return };
                let text = text.to_owned();
                self.rest.clear();
                text.chars().for_each(|c| self.put(c));
            }
        }
    }

    fn act(&mut self, numbers: &str, last: u8) {
        match (numbers, last) {
            ("?1049", b'h' | b'l') => {
                self.is_other_screen = last == b'h';
                self.clear();
            }
            ("?25", b'h' | b'l') => self.is_cursor_hidden = last == b'l',
            (_, b'J') => self.clear(),
            (_, b'H') => {
                let mut place = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(1) - 1);
                self.at = (place.next().unwrap_or(0), place.next().unwrap_or(0));
            }
            // Colours and the like.
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.cells.iter_mut().flatten().for_each(|cell| *cell = ' ');
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.at.1 = 0,
            '\n' => self.at.0 += 1,
            c if c.is_control() => {}
            c => {
                if let Some(cell) = self.cells.get_mut(self.at.0).and_then(|line| line.get_mut(self.at.1)) {
                    *cell = c;
                }
                self.at.1 += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_in_pieces_is_put_together() {
        let mut screen = Screen::new(10, 2);
        for piece in ["\x1b[?10", "49h\x1b[2;3", "H\x1b[1;31mab\x1b[0m\u{2191}"] {
            screen.take(piece.as_bytes());
        }
        assert_eq!(screen.text(), "\n  ab\u{2191}");
        assert!(!screen.is_given_back());
        screen.take(b"\x1b[?1049l");
        assert!(screen.is_given_back());
    }
}
