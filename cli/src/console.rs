//! The terminal: results on stdout, talk on stderr.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use serde_json::{Value, json};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{answer::Answer, exit, failure::Failure, plain, progress::Beside, secret};

/// How much to say, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: u8,
}

impl Console {
    /// Shows what the library logs; what its dependencies log only to those who insist.
    pub(crate) fn log_to_stderr(self) {
        let (own, others) = match (self.quiet, self.verbose) {
            (true, _) => (LevelFilter::ERROR, LevelFilter::OFF),
            (_, 0) => (LevelFilter::WARN, LevelFilter::OFF),
            (_, 1) => (LevelFilter::INFO, LevelFilter::OFF),
            (_, 2) => (LevelFilter::DEBUG, LevelFilter::WARN),
            _ => (LevelFilter::TRACE, LevelFilter::DEBUG),
        };
        let shown = Targets::new()
            .with_target("store", own)
            .with_target("fuse", own)
            .with_target("pstore", own)
            .with_default(others);
        // Without colours: what is written escapes every control character, be it in a field that quotes others.
        let written = fmt::layer().with_writer(|| OneLine).without_time().with_target(self.verbose > 1);
        let written = written.with_ansi(false);
        tracing_subscriber::registry().with(written).with(shown).init();
    }

    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// A remark that is not the result, on one line.
    pub(crate) fn say(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{}", shown(text));
        }
    }

    pub(crate) fn warn(self, text: &str) {
        self.say(&format!("warning: {text}"));
    }

    pub(crate) fn answer(self, answer: &Answer) -> ExitCode {
        let printed = if self.json {
            let mut document = answer.document.clone();
            if let (Value::Object(fields), Some((kind, message))) = (&mut document, &answer.verdict) {
                let error = Failure::new(*kind, message).document();
                fields.insert("error".to_owned(), error["error"].clone());
            }
            print(&pretty(&document))
        } else {
            let brief = answer.brief.as_deref().filter(|_| self.quiet);
            print(&plain::lines(brief.unwrap_or(&answer.text)))
        };
        if let Some((kind, message)) = &answer.verdict {
            let _ = writeln!(io::stderr(), "error: {}", shown(message));
            return ExitCode::from(exit::code(*kind));
        }
        if let Some(code) = answer.exit {
            return ExitCode::from(code);
        }
        printed
    }

    pub(crate) fn failure(self, failure: &Failure) -> ExitCode {
        let mut stderr = io::stderr();
        let _ = writeln!(stderr, "error: {}", shown(&failure.message));
        if let Some(hint) = &failure.hint {
            let _ = writeln!(stderr, "hint: {}", shown(hint));
        }
        if self.json {
            print(&pretty(&failure.document()));
        }
        ExitCode::from(failure.code())
    }
}

/// Writes each event of the log as one line, whatever its fields quote.
#[derive(Clone, Copy, Debug)]
struct OneLine;

impl Write for OneLine {
    /// An event arrives whole, and ends with a line's end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = shown(text.strip_suffix('\n').unwrap_or(&text));
        Beside.write_all(format!("{line}\n").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Beside.flush()
    }
}

/// One line, with nothing in it that a terminal would act upon or that is nobody's business.
fn shown(text: &str) -> String {
    plain::line(&secret::hidden(text)).into_owned()
}

fn pretty(document: &Value) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_else(|error| {
        json!({ "error": { "kind": "internal", "message": error.to_string() } }).to_string()
    });
    text.push('\n');
    text
}

/// Whoever reads stdout may stop at any time; that is no failure.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(secret::hidden(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "error: cannot write to stdout: {error}");
            ExitCode::from(exit::code(store::ErrorKind::Io))
        }
        _ => ExitCode::SUCCESS,
    }
}
