//! `Arguments` reads the command line of a Chrome.
//!
//! The browser itself shows its arguments as it got them. A child that was forked from the
//! zygote shows one long argument with all of them, parted by spaces, so that a value with a
//! space in it ends where the next switch seems to begin.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// Others made from Chromium are known by the lock they hold.
const BROWSERS: [&str; 9] = [
    "chrome",
    "chromium",
    "google-chrome",
    "headless_shell",
    "brave",
    "msedge",
    "microsoft-edge",
    "vivaldi",
    "vivaldi-bin",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    program: OsString,
    /// The last one given, which is the one that counts. As written: relative to the process's
    /// own directory, seen from its own root.
    pub(super) user_data_dir: Option<PathBuf>,
    /// The argument after a `--user-data-dir` without a value. Chrome takes that for a page to
    /// show, but a wrapper of Chrome may not.
    pub(super) beside_switch: Option<PathBuf>,
    pub(super) debugging_port: Option<u16>,
    /// A renderer, a utility, the zygote: not to be asked for anything.
    pub(super) is_child: bool,
}

impl Arguments {
    pub(super) fn parse(line: &[OsString]) -> Self {
        let Some((program, rest)) = line.split_first() else { return Self::default() };
        let joined = rest.is_empty() && program.as_bytes().windows(3).any(|part| part == b" --");
        if joined {
            let words = split_joined(program.as_bytes());
            return Self::parse(&words);
        }
        let mut parsed = Self { program: program.clone(), ..Self::default() };
        for (at, argument) in rest.iter().enumerate() {
            let bytes = argument.as_bytes();
            // What follows is no switch any more.
            if bytes == b"--" {
                break;
            }
            let Some(switch) = switch(bytes) else { continue };
            match switch {
                (b"user-data-dir", Some(value)) if !value.is_empty() => {
                    parsed.user_data_dir = Some(OsStr::from_bytes(value).into());
                }
                (b"user-data-dir", None) => parsed.beside_switch = rest.get(at + 1).map(PathBuf::from),
                (b"remote-debugging-port", Some(value)) => {
                    let port = str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
                    parsed.debugging_port = port.filter(|port| *port != 0);
                }
                (b"type", Some(value)) => parsed.is_child = !value.is_empty(),
                _ => {}
            }
        }
        parsed
    }

    /// Whether the program is named like one of the browsers that are made from Chromium.
    pub(super) fn is_chrome(&self, executable: Option<&Path>) -> bool {
        let program = executable.unwrap_or(Path::new(&self.program));
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(" (deleted)");
        BROWSERS.iter().any(|known| {
            name.strip_prefix(known).is_some_and(|rest| {
                // `chrome-headless-shell` and `chromium-browser`, not `chromedriver`.
                rest.is_empty() || rest.starts_with('-')
            })
        })
    }
}

/// Name and value of `--name`, `--name=value`, or the same with one dash, as Chrome reads them.
fn switch(argument: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let body = argument.strip_prefix(b"--").or_else(|| argument.strip_prefix(b"-"))?;
    match body.iter().position(|byte| *byte == b'=') {
        Some(at) => Some((&body[..at], Some(&body[at + 1..]))),
        None => Some((body, None)),
    }
}

fn split_joined(line: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut start = 0;
    for at in 1..line.len() {
        if line[at] == b' ' && line[at + 1..].starts_with(b"--") {
            words.push(OsString::from_vec(line[start..at].to_vec()));
            start = at + 1;
        }
    }
    words.push(OsString::from_vec(line[start..].to_vec()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Arguments {
        Arguments::parse(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_directory_is_found_in_every_form() {
        let given = |line: &[&str]| parse(line).user_data_dir;
        assert_eq!(given(&["chrome", "--user-data-dir=/a b"]), Some("/a b".into()));
        assert_eq!(given(&["chrome", "-user-data-dir=x", "about:blank"]), Some("x".into()));
        assert_eq!(given(&["chrome", "--user-data-dir=/a", "--user-data-dir=/b"]), Some("/b".into()));
        for other in [
            &["chrome", "--user-data-dir", "/a"][..],
            &["chrome", "--user-data-dir="],
            &["chrome", "--", "--user-data-dir=/a"],
            &["chrome", "--user-data-dirs=/a", "user-data-dir=/a"],
            &[],
        ] {
            assert_eq!(given(other), None, "{other:?}");
        }
        assert_eq!(parse(&["chrome", "--user-data-dir", "/a"]).beside_switch, Some("/a".into()));
        assert_eq!(parse(&["chrome", "--user-data-dir"]).beside_switch, None);
    }

    #[test]
    fn a_forked_childs_single_argument_is_taken_apart() {
        let child = parse(&["/usr/lib/chromium --type=renderer --lang=en --user-data-dir=/a b --no-sandbox"]);
        assert!(child.is_child);
        assert_eq!(child.user_data_dir, Some("/a b".into()));
        assert!(parse(&["/opt/chrome --user-data-dir=/a"]).is_chrome(None));
    }

    #[test]
    fn a_port_is_known_only_if_it_was_chosen() {
        assert_eq!(parse(&["c", "--remote-debugging-port=9222"]).debugging_port, Some(9222));
        assert_eq!(parse(&["c", "--remote-debugging-port=0"]).debugging_port, None);
        assert_eq!(parse(&["c", "--remote-debugging-port=99999"]).debugging_port, None);
    }

    #[test]
    fn what_starts_chrome_is_not_chrome() {
        let is_chrome = |path: &str| Arguments::default().is_chrome(Some(path.as_ref()));
        for path in [
            "/usr/lib/chromium/chromium",
            "/opt/google/chrome/chrome",
            "/x/chrome (deleted)",
            "/x/chrome-headless-shell",
        ] {
            assert!(is_chrome(path), "{path}");
        }
        for path in ["/usr/bin/python3", "/usr/bin/chromedriver", "/x/chrome_crashpad_handler", "/bin/sh"] {
            assert!(!is_chrome(path), "{path}");
        }
    }
}
