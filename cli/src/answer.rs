//! `Answer` holds the result of a verb, as a document and as text.

use engine::{failure::Failure, outcome::Outcome};
use serde_json::Value;
use store::ErrorKind;

#[derive(Debug)]
pub(crate) struct Answer {
    /// For `--json`.
    pub(crate) document: Value,
    /// For people.
    pub(crate) text: String,
    /// For `--quiet`; without it, `text`.
    pub(crate) brief: Option<String>,
    /// The verb did its work, and what it found is bad.
    pub(crate) verdict: Option<(ErrorKind, String)>,
    /// The step that follows from the verdict.
    pub(crate) hint: Option<String>,
    /// The exit code, if it is somebody else's to choose.
    pub(crate) exit: Option<u8>,
    /// The verb has written all there is to write on stdout.
    pub(crate) is_written: bool,
}

impl Answer {
    /// The outcome of a request, with a text for people.
    pub(crate) fn of(outcome: &impl Outcome, text: String) -> Result<Self, Failure> {
        let document = serde_json::to_value(outcome)
            .map_err(|error| Failure::internal(format!("the outcome cannot be written: {error}")))?;
        let (verdict, hint) = match outcome.verdict() {
            Some(Failure { kind, message, hint, .. }) => (Some((kind, message)), hint),
            None => (None, None),
        };
        Ok(Self { verdict, hint, ..Self::new(document, text) })
    }

    pub(crate) fn new(document: Value, text: String) -> Self {
        Self { document, text, brief: None, verdict: None, hint: None, exit: None, is_written: false }
    }

    /// Of a verb that writes to stdout while it works.
    pub(crate) fn written() -> Self {
        Self { is_written: true, ..Self::new(Value::Null, String::new()) }
    }
}
