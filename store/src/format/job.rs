//! `Job` describes a server's work for the store as a whole: its kind, its caller and its outcome.
//!
//! The server that does the work writes the document when it begins, and again every few seconds, so that all
//! others see that it lives. Any server may ask for the end of it, by `cancel`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, event::Actor, limits};
use crate::{id::JobId, name::Tenant};

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.job";

/// How far a job has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// A server works on it, or was working on it when it died.
    Running,
    /// All is done, and well.
    Done,
    /// It failed, or its findings are bad.
    Failed,
    /// Somebody has ended it, or its server was told to stop.
    Cancelled,
}

impl JobState {
    const WORDS: [&str; 4] = ["running", "done", "failed", "cancelled"];

    /// The word in the document.
    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// The failure of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFailure {
    /// The kind of failure, in the words of the exit codes.
    pub kind: String,
    /// The failure in words.
    pub message: String,
    /// The next step for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `operations/jobs/<ulid>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// Made of the time and of chance, so that jobs sort by age.
    pub id: JobId,
    /// The kind of work: `reap`, `retention`, `gc`, `verify`, or a word of a later pstore.
    pub kind: String,
    /// For this tenant alone; for all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<Tenant>,
    /// Whether nothing is to be changed.
    pub dry_run: bool,
    /// The schedule that it was due by, if nobody has asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The run that asked for it.
    pub by: Actor,
    /// The server that does it.
    pub server: String,
    /// How far it has got.
    pub state: JobState,
    /// Whether somebody has asked for its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// Counts the writes, so that no two of them are the same bytes.
    pub revision: u64,
    /// When it began, by the clock of its server's host.
    pub begun_at_ms: u64,
    /// When it ended, by the same clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// The failure of a job that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<JobFailure>,
    /// The outcome of the verb, unless it is too long to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Job {
    /// One that begins now.
    pub fn new(id: JobId, kind: &str, by: Actor, server: &str, at_ms: u64) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            id,
            kind: kind.to_owned(),
            tenant_id: None,
            dry_run: false,
            schedule: None,
            by,
            server: server.to_owned(),
            state: JobState::Running,
            cancel: false,
            revision: 0,
            begun_at_ms: at_ms,
            ended_at_ms: None,
            failure: None,
            outcome: None,
            unknown: Unknown::new(),
        }
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// The bytes to write, which a reader is sure to accept: without the outcome if that is too long, or has
    /// values that no document may have.
    pub fn encode_readable(&self) -> Result<Vec<u8>> {
        let bytes = self.encode();
        if Self::decode(&bytes).is_ok() {
            return Ok(bytes);
        }
        let bytes = Self { outcome: None, ..self.clone() }.encode();
        Self::decode(&bytes).map(|_| bytes)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::JOB)?;
        document::check_schema(&fields, SCHEMA)?;
        document::known_word(&fields, "state", &JobState::WORDS)?;
        document::typed(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::format::FormatError;

    fn job() -> Job {
        let by = Actor { run_id: "token ops".to_owned(), ..Actor::default() };
        Job::new(JobId::from_parts(1_763_175_483_999, [7; 10]), "gc", by, "host-1", 1_763_175_483_999)
    }

    #[test]
    fn a_job_is_read_as_it_was_written() {
        for state in [JobState::Running, JobState::Done, JobState::Failed, JobState::Cancelled] {
            assert_eq!(json!(state), state.as_str());
        }
        let job = Job {
            tenant_id: Some("acme".parse().unwrap()),
            state: JobState::Failed,
            outcome: Some(json!({ "failed": [] })),
            ..job()
        };
        assert_eq!(Job::decode(&job.encode_readable().unwrap()).unwrap(), job);
    }

    #[test]
    fn an_outcome_that_is_too_long_or_strange_is_left_out() {
        let long = "x".repeat(limits::JOB as usize);
        for outcome in [json!(long), json!({ "share": 0.5 }), json!(-1)] {
            let job = Job { outcome: Some(outcome), ..job() };
            let read = Job::decode(&job.encode_readable().unwrap()).unwrap();
            assert_eq!(read, Job { outcome: None, ..job });
        }
    }

    #[test]
    fn a_state_of_tomorrow_is_no_damage() {
        let text = String::from_utf8(job().encode()).unwrap();
        let mut fields: Unknown = serde_json::from_str(&text).unwrap();
        fields.remove("check");
        fields.insert("state".to_owned(), json!("paused"));
        let later = document::encode(&fields);
        assert!(matches!(Job::decode(&later), Err(FormatError::Feature { .. })));
    }
}
