//! `call` asks the daemon of a mount, and understands what it answers.
//!
//! A call is a request of the engine, serialised, with the verb it is for and the pstore that sends it. The
//! answer is the outcome's document, or the failure's. A daemon may be older or newer than its caller: it
//! refuses a verb or an option that it does not know, and does nothing.

use std::{io, path::PathBuf, time::Duration};

use fuse::mount::control;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use store::{ErrorKind, error::Holder, format::WRITER};

use crate::{
    failure::{Failure, codes},
    outcome::Outcome,
};

/// A request as it is sent to a daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// The pstore that sends it.
    pub(crate) writer: String,
    /// The verb that the request is for.
    pub(crate) verb: String,
    /// The request.
    pub(crate) request: Value,
}

/// An outcome that a daemon sends to its caller.
pub trait SentOutcome: Outcome + DeserializeOwned {
    /// Puts back the verdict, which the document does not hold.
    fn with_verdict(self, verdict: Option<Failure>) -> Self;
}

/// Has the daemon of a session carry out a request, and waits for as long as it takes.
pub(crate) async fn ask<T: SentOutcome>(
    session: PathBuf,
    verb: &str,
    request: &impl Serialize,
) -> Result<T, Failure> {
    let unsent = |error: serde_json::Error| Failure::internal(format!("it cannot be sent: {error}"));
    let request = serde_json::to_value(request).map_err(unsent)?;
    let call = Call { writer: WRITER.to_owned(), verb: verb.to_owned(), request };
    let call = serde_json::to_value(call).map_err(unsent)?;
    let asked = tokio::task::spawn_blocking(move || control::ask(&session, &call));
    let answered = asked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    received(answered.map_err(|error| {
        Failure::new(ErrorKind::Unavailable, format!("the mount's daemon does not answer: {error}")).hint(
            "`pstore mounts` shows whether it lives; `pstore mount` continues a session that was cut short",
        )
    })?)
}

/// The advice if the daemon of a mount is of another version.
const OTHER_VERSION: &str = "ask with the pstore that started the mount; or end its daemon with SIGTERM, which keeps its changes, and `pstore \
                             mount` continues the session (`pstore mounts` shows the process)";

/// The request in a call, if it can be understood.
pub(crate) fn understood<T: DeserializeOwned>(call: Call) -> Result<T, Failure> {
    let Call { writer, verb, request } = call;
    serde_json::from_value(request).map_err(|error| {
        let message = format!(
            "the mount was started by {WRITER}, which does not understand the {verb} that {writer} asks for: {error}"
        );
        Failure::usage(message).hint(OTHER_VERSION)
    })
}

/// The failure of something that is no call, or asks for what a mount cannot do.
pub(crate) fn unknown() -> Failure {
    let message = format!(
        "the mount was started by {WRITER}, another version of pstore, which does not understand this"
    );
    Failure::usage(message).hint(OTHER_VERSION)
}

/// An outcome or a failure, as a daemon sent it.
pub fn received<T: SentOutcome>(mut said: Value) -> Result<T, Failure> {
    if said["error"].is_object() {
        return Err(failure(&said["error"]));
    }
    let verdict = Some(failure(&said["verdict"])).filter(|_| said["verdict"].is_object());
    let outcome = serde_json::from_value::<T>(said["document"].take()).map_err(|error| {
        Failure::internal(format!(
            "the mount's daemon has done it, but is of another version of pstore than {WRITER}, which does \
             not understand its answer: {error}"
        ))
        .hint("`pstore mounts` shows how the mount is now")
    })?;
    Ok(outcome.with_verdict(verdict))
}

/// As [`received`] wants it.
pub fn sent<T: SentOutcome>(outcome: &Result<T, Failure>) -> Value {
    match outcome {
        Ok(outcome) => json!({
            "document": outcome,
            "verdict": outcome.verdict().map(|failure| failure.document().error),
        }),
        Err(failure) => json!(failure.document()),
    }
}

/// Who holds the lock, if that is what is wrong.
fn holder(fields: &Value) -> Option<Holder> {
    let text = |name: &str| fields[name].as_str().map(ToOwned::to_owned);
    let number = |name: &str| fields[name].as_u64();
    Some(Holder {
        run_id: text("holder_run_id")?,
        host: text("holder_host")?,
        host_run_id: text("holder_host_run_id")?,
        acquired_at_ms: number("acquired_at_ms")?,
        renewal_count: number("renewal_count")?,
        remaining: Duration::from_millis(number("remaining_ms")?),
        nonce: None,
    })
}

fn failure(fields: &Value) -> Failure {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let kind = fields["kind"].as_str().and_then(codes::kind).unwrap_or(ErrorKind::Internal);
    Failure {
        hint: text(&fields["hint"]),
        holder: holder(fields).map(Box::new),
        ..Failure::new(kind, text(&fields["message"]).unwrap_or_default())
    }
}
