//! `Console` writes results to stdout and remarks to stderr, and returns the exit code.
//!
//! A failure has the code that `engine`'s `failure/codes` gives its kind. A command that pstore ran has its own.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Instant,
};

use engine::{
    failure::{Failure, codes},
    observer::{Observation, Observer},
    text::{escape, secret, size},
};
use serde_json::{Value, json};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::{
        self, FmtContext,
        format::{FormatEvent, FormatFields, Writer},
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{
    answer::Answer,
    json_log::{self, AsJson},
    progress::{Bar, Beside},
    progress_lines::ProgressLines,
};
use store::progress::{Progress, Silent, Tick};

/// How much to say, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: u8,
    /// Whether each line on stderr is a JSON document.
    pub(crate) json_log: bool,
    /// Whether progress is told on stderr as JSON.
    pub(crate) json_progress: bool,
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
        // A server tells of every change, though nobody asked it to tell more.
        let served = match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (_, 0) => LevelFilter::INFO,
            (_, 1) => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        let shown = Targets::new()
            .with_target("store", own)
            .with_target("capture", own)
            .with_target("engine", own)
            .with_target("fuse", own)
            .with_target("server", served)
            .with_target("mcp", own)
            .with_target("pstore", own)
            .with_default(others);
        // Without colours: what is written escapes every control character, be it in a field that quotes others.
        let written = fmt::layer().with_writer(|| OneLine).with_ansi(false);
        let registry = tracing_subscriber::registry();
        if self.json_log {
            let written = fmt::layer().with_writer(|| Beside).with_ansi(false);
            registry.with(written.event_format(AsJson)).with(shown).init();
        } else if self.verbose > 1 {
            registry.with(written.with_timer(fmt::time::uptime())).with(shown).init();
        } else {
            registry.with(written.event_format(AsSaid)).with(shown).init();
        }
    }

    /// A finished step, and the time since the start, for verbose output.
    pub(crate) fn step(self, text: &str) {
        if self.verbose > 0 {
            self.say(&format!("{:>8.3} s  {text}", started().elapsed().as_secs_f64()));
        }
    }

    fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// A remark that is not the result, on one line.
    pub(crate) fn say(self, text: &str) {
        if self.json_log {
            self.log("info", text);
        } else if !self.quiet {
            let _ = writeln!(io::stderr(), "{}", shown(text));
        }
    }

    pub(crate) fn warn(self, text: &str) {
        if self.json_log {
            self.log("warning", text);
        } else {
            self.say(&format!("warning: {text}"));
        }
    }

    /// The remark, as a line of the log.
    fn log(self, level: &str, text: &str) {
        if !self.quiet {
            let fields = serde_json::Map::from_iter([("message".to_owned(), json!(text))]);
            let _ = writeln!(io::stderr(), "{}", json_log::line(level, "pstore", fields));
        }
    }

    pub(crate) fn answer(self, answer: &Answer) -> ExitCode {
        let printed = if answer.is_written {
            ExitCode::SUCCESS
        } else if self.json {
            let mut document = answer.document.clone();
            if let (Value::Object(fields), Some((kind, message))) = (&mut document, &answer.verdict) {
                let failure = Failure { hint: answer.hint.clone(), ..Failure::new(*kind, message) };
                let error = failure.document();
                fields.insert("error".to_owned(), json!(error.error));
            }
            print(&pretty(&document))
        } else {
            let brief = answer.brief.as_deref().filter(|_| self.quiet);
            print(&escape::lines(brief.unwrap_or(&answer.text)))
        };
        if let Some((kind, message)) = &answer.verdict {
            let _ = writeln!(io::stderr(), "error: {}", shown(message));
            if let Some(hint) = &answer.hint {
                let _ = writeln!(io::stderr(), "hint: {}", shown(hint));
            }
            return ExitCode::from(codes::code(*kind));
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
            print(&pretty(&json!(failure.document())));
        }
        ExitCode::from(failure.code())
    }
}

impl Observer for Console {
    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::Step(text) => self.step(text),
            Observation::Remark(text) => self.say(text),
            Observation::Warning(text) => self.warn(text),
            _ => {}
        }
    }

    fn owns_stdout(&self) -> bool {
        self.json
    }

    /// A bar if there is a terminal to draw it on; the steps one by one for those who want more; lines for programs.
    fn progress(&self) -> Arc<dyn Progress> {
        if self.json_progress {
            return Arc::new(ProgressLines::new());
        }
        if self.verbose > 0 && !self.quiet {
            return Arc::new(Steps(*self));
        }
        if self.shows_progress() { Arc::new(Bar::new()) } else { Arc::new(Silent) }
    }
}

/// Says when each stage begins.
#[derive(Debug)]
struct Steps(Console);

impl Progress for Steps {
    fn begin(&self, stage: &'static str, files: u64, bytes: u64) {
        let amount = match (files, bytes) {
            (0, 0) => String::new(),
            (0, bytes) => format!(": {}", size::bytes(bytes)),
            (files, bytes) => format!(": {}, {}", size::plural(files, "file", "files"), size::bytes(bytes)),
        };
        self.0.step(&format!("{stage}{amount}"));
    }

    fn tick(&self, _: Tick) {}
}

/// When the program began, as far as anybody asked.
pub(crate) fn started() -> Instant {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    *STARTED.get_or_init(Instant::now)
}

/// Events of the log in the words of everything else that is said.
#[derive(Clone, Copy, Debug)]
struct AsSaid;

impl<S, N> FormatEvent<S, N> for AsSaid
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        match *event.metadata().level() {
            Level::ERROR => write!(writer, "error: ")?,
            Level::WARN => write!(writer, "warning: ")?,
            _ => write!(writer, "{:>8.3} s  ", started().elapsed().as_secs_f64())?,
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
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
    escape::line(&secret::hidden(text)).into_owned()
}

pub(crate) fn pretty(document: &Value) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_else(|error| {
        json!({ "error": { "kind": "internal", "message": error.to_string() } }).to_string()
    });
    text.push('\n');
    text
}

/// The reader of stdout may stop at any time; that is no failure.
pub(crate) fn print(text: &str) -> ExitCode {
    match put(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "error: cannot write to stdout: {error}");
            ExitCode::from(codes::code(store::ErrorKind::Io))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Writes to stdout, but for what is nobody's business.
pub(crate) fn put(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(secret::hidden(text).as_bytes())?;
    stdout.flush()
}
