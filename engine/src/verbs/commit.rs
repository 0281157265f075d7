//! `commit` makes the changes of a mount the profile's next snapshot. The mount's daemon does it.

use std::{path::PathBuf, sync::Arc};

use fuse::mount::Mount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{ErrorKind, format::record::Reason, name::ProfileName};

use crate::{
    Engine,
    captures::{CaptureOptions, CapturedFields},
    failure::Failure,
    mount::{
        DestinationRequest, Published,
        call::{self, SentOutcome},
        live::session_at,
        publication::{PATIENCE, publish},
        serving::Serving,
    },
    outcome::Outcome,
    settings::Settings,
};

const ROOM: &str =
    "make room where the session lies: the next commit does the rest, and stores nothing twice";

/// The verb in a call of the daemon.
pub(crate) const VERB: &str = "commit";

/// Makes the changes of a mount a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitRequest {
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The profile that it becomes a snapshot of; the one that is mounted if it is not said.
    pub other: Option<ProfileName>,
    /// Replace the current snapshot of the profile that is mounted, though the mount is of another.
    pub force: bool,
    /// How it is captured.
    pub capture: CaptureOptions,
}

impl CommitRequest {
    /// Commits what is mounted on `mountpoint` to its own profile.
    pub fn new(mountpoint: PathBuf) -> Self {
        Self { mountpoint, other: None, force: false, capture: CaptureOptions::new(Reason::Commit) }
    }
}

/// The snapshot that the changes of a mount became.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CommitOutcome {
    /// The snapshot, and what it took to store it.
    #[serde(flatten)]
    pub captured: CapturedFields,
    /// How long changes were delayed.
    pub frozen_ms: f64,
    /// The snapshot that was current before, though this one does not stand on it, in words.
    pub replaced: Option<String>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for CommitOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}

impl SentOutcome for CommitOutcome {
    fn with_verdict(self, verdict: Option<Failure>) -> Self {
        Self { verdict, ..self }
    }
}

impl Engine {
    /// Has the daemon of a mount make its changes a snapshot.
    #[crate::boxed]
    pub async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, Failure> {
        commit(&self.settings, request).await
    }
}

/// Has the daemon of a mount of this host make its changes a snapshot. The daemon knows the store.
#[crate::boxed]
pub async fn commit(settings: &Settings, request: &CommitRequest) -> Result<CommitOutcome, Failure> {
    request.capture.check()?;
    call::ask(session_at(settings, &request.mountpoint).await?, VERB, request).await
}

/// Makes the changes of a mount a snapshot, in its daemon.
pub(crate) async fn serve(
    serving: &Arc<Serving>,
    options: &CaptureOptions,
    asked: DestinationRequest<'_>,
) -> Result<CommitOutcome, Failure> {
    // The request may come from another program than ours.
    options.check()?;
    let mount = &serving.mount;
    let published = publish(&serving.engine, mount, options, asked, &serving.unwritten).await;
    if let Err(failure) = &published {
        notice(failure, mount).await;
    }
    let published = published.map_err(|failure| explained(failure, mount))?;
    if published.lineage == mount.lineage {
        serving.work_is_committed(&published.report).await;
    }
    let captured = published.fields();
    let Published { replaced, frozen_for, left, .. } = published;
    let behind = left.map(|left| Failure::new(left.kind(), format!("{left}; {ROOM}")));
    let verdict = captured.verdict().or(behind);
    Ok(CommitOutcome { captured, frozen_ms: frozen_for.as_secs_f64() * 1000.0, replaced, verdict })
}

/// A commit that was refused because the lock is lost tells the mount: whoever is told so finds it
/// in `pstore mounts`, and a mount that is to freeze does.
async fn notice(failure: &Failure, mount: &Mount) {
    if let (ErrorKind::LockLost | ErrorKind::PointerMoved, Some(keeper)) = (failure.kind, mount.keeper()) {
        keeper.look();
        let _ = tokio::time::timeout(PATIENCE, keeper.lost()).await;
    }
}

/// The advice for changes that could not be committed.
fn explained(failure: Failure, mount: &Mount) -> Failure {
    let (name, mountpoint) = (&mount.lineage.name, mount.info.mountpoint.display());
    match failure.kind {
        ErrorKind::LockLost | ErrorKind::PointerMoved | ErrorKind::PointerNotFlipped => failure.hint(format!(
            "the changes are still in the mount: `pstore commit {mountpoint} --as {name}-rescued` stores them as another profile, \
             `--as {name} --force` replaces what is current, `pstore unmount {mountpoint} --discard` drops them; \
             `pstore log {name}` tells who else was here"
        )),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use store::format::WRITER;

    use super::*;
    use crate::mount::call::{Call, understood};

    /// As `pstore commit --json` prints it.
    const DOCUMENT: &str = include_str!("../../../cli/tests/cli/documents/commit.json");

    fn request() -> CommitRequest {
        let capture = CaptureOptions {
            labels: vec![("ticket".to_owned(), "7".to_owned())],
            ..CaptureOptions::new(Reason::Commit)
        };
        let other = Some("acme/other".parse().unwrap());
        CommitRequest { other, force: true, capture, ..CommitRequest::new("/mnt/profile".into()) }
    }

    fn call(request: Value) -> Call {
        Call { writer: "pstore 9.0.0".to_owned(), verb: VERB.to_owned(), request }
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let sent = serde_json::to_string(&call(json!(request()))).unwrap();
        let arrived: CommitRequest = understood(serde_json::from_str(&sent).unwrap()).unwrap();
        assert_eq!(arrived, request());
    }

    #[test]
    fn an_option_of_a_newer_pstore_is_refused_and_not_passed_over() {
        for (place, field) in [("", "gently"), ("capture", "gently"), ("checks", "gently")] {
            let mut sent = json!(request());
            match place {
                "" => sent[field] = json!(true),
                "capture" => sent["capture"][field] = json!(true),
                _ => sent["capture"]["checks"][field] = json!(true),
            }
            let failure = understood::<CommitRequest>(call(sent)).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::InvalidInput);
            for word in [WRITER, "pstore 9.0.0", field] {
                assert!(failure.message.contains(word), "{word} is not in {:?}", failure.message);
            }
        }
    }

    #[test]
    fn a_request_of_an_older_pstore_that_lacks_an_option_is_refused() {
        let mut sent = json!(request());
        sent.as_object_mut().unwrap().remove("force");
        let failure = understood::<CommitRequest>(call(sent)).unwrap_err();
        assert!(failure.message.contains("force"), "{:?}", failure.message);
    }

    #[test]
    fn an_outcome_is_read_though_a_newer_daemon_says_more() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let mut said = json!({ "document": document, "verdict": null, "mood": "good" });
        said["document"]["mood"] = json!("good");
        let outcome: CommitOutcome = call::received(said).unwrap();
        let mut written = json!(outcome);
        // Whole numbers and others are the same number.
        written["frozen_ms"] = document["frozen_ms"].clone();
        assert_eq!(written, document);
        assert!(outcome.verdict().is_none());
    }

    #[test]
    fn a_verdict_comes_with_the_outcome() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let verdict = Failure::new(ErrorKind::HeldBack, "it shrank").hint("look at it");
        let outcome: CommitOutcome =
            call::received(json!({ "document": document, "verdict": null })).unwrap();
        let sent = call::sent(&Ok(outcome.with_verdict(Some(verdict))));
        let arrived = call::received::<CommitOutcome>(sent).unwrap().verdict().unwrap();
        assert_eq!((arrived.kind, arrived.message.as_str()), (ErrorKind::HeldBack, "it shrank"));
        assert_eq!(arrived.hint.as_deref(), Some("look at it"));
    }

    #[test]
    fn a_failure_is_told_as_it_was() {
        let failure = Failure::new(ErrorKind::LockLost, "gone").hint("look");
        let arrived =
            call::received::<CommitOutcome>(call::sent::<CommitOutcome>(&Err(failure))).unwrap_err();
        assert_eq!((arrived.kind, arrived.message.as_str()), (ErrorKind::LockLost, "gone"));
    }

    #[test]
    fn an_answer_that_is_not_understood_says_that_it_was_done() {
        let failure = call::received::<CommitOutcome>(json!({ "document": { "sha": 1 } })).unwrap_err();
        assert!(failure.message.contains("has done it"), "{:?}", failure.message);
    }
}
