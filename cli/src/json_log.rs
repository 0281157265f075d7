//! `json_log` writes the lines of a server's log as JSON, each with the time of day.

use std::fmt;

use engine::text::{secret, time};
use serde_json::{Map, Value, json};
use store::catalog::clock;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext,
        format::{FormatEvent, FormatFields, Writer},
    },
    registry::LookupSpan,
};

/// Events of the log as JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsJson;

impl<S, N> FormatEvent<S, N> for AsJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        writeln!(writer, "{}", line(level, event.metadata().target(), fields.0))
    }
}

/// One line. The fields of the event come beside those that every line has.
pub(crate) fn line(level: &str, target: &str, mut fields: Map<String, Value>) -> String {
    let now = clock::unix_ms();
    let at = format!("{}.{:03}Z", time::utc(now).replace(' ', "T"), now % 1000);
    fields.insert("at".to_owned(), json!(at));
    fields.insert("level".to_owned(), json!(level));
    fields.insert("target".to_owned(), json!(target));
    secret::hidden(&Value::Object(fields).to_string()).into_owned()
}

/// The fields of an event.
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, json!(format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_document_whatever_is_quoted() {
        let fields = Map::from_iter([("message".to_owned(), json!("two\nlines \u{1b}[31m"))]);
        let line = line("info", "server", fields);
        assert_eq!(line.lines().count(), 1);
        assert!(!line.contains('\u{1b}'));
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&read["level"], &read["message"]), (&json!("info"), &json!("two\nlines \u{1b}[31m")));
        assert!(read["at"].as_str().unwrap().ends_with('Z'), "{line}");
    }
}
