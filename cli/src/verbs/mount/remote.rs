//! Asking the daemon of a mount.
//!
//! What is asked is a command line: the daemon understands the same words as this program.

use std::{
    io,
    path::{Path, PathBuf},
};

use engine::{
    failure::{Failure, codes},
    settings::Settings,
};
use fuse::{
    mount::{control, info::Info, release_if_stuck},
    overlay::session::{Place, SessionDir},
};
use serde_json::{Value, json};
use store::ErrorKind;

use crate::answer::Answer;

/// A mount whose daemon lives.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) session: PathBuf,
    pub(crate) info: Info,
}

/// The mounts of this host's sessions that somebody serves.
pub(crate) fn live(settings: &Settings) -> Result<Vec<Live>, Failure> {
    let mut found = Vec::new();
    for session in SessionDir::list(&settings.sessions()?, Place::Here)? {
        let Ok(info) = SessionDir::read_info::<Info>(&session) else { continue };
        release_if_stuck(&info);
        // One that cannot be looked at is told about by `pstore sessions`.
        if matches!(SessionDir::look(&session), Ok(None)) {
            found.push(Live { session, info });
        }
    }
    Ok(found)
}

/// A mount whose daemon lives, and whose session cannot be read: only the daemon knows what it is about.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) session: PathBuf,
    pub(crate) problem: String,
}

/// The sessions of this host that somebody serves and that cannot be read.
pub(crate) fn unreadable(settings: &Settings) -> Result<Vec<Unreadable>, Failure> {
    let mut found = Vec::new();
    for session in SessionDir::list(&settings.sessions()?, Place::Here)? {
        if let Err(error) = SessionDir::read_info::<Info>(&session)
            && matches!(SessionDir::look(&session), Ok(None))
            && session.exists()
        {
            found.push(Unreadable { session, problem: error.to_string() });
        }
    }
    Ok(found)
}

/// What the daemon of a session tells of its mount.
pub(crate) async fn status(session: &Path) -> Option<Result<Value, Failure>> {
    let session = session.to_owned();
    let asked = tokio::task::spawn_blocking(move || control::ask(&session, &json!({ "status": true })));
    asked.await.ok()?.ok().map(|said| received(said).map(|answer| answer.document))
}

/// The session of the mount at `mountpoint`.
pub(crate) async fn at(settings: &Settings, mountpoint: &Path) -> Result<PathBuf, Failure> {
    let wanted = absolute(mountpoint);
    let live = live(settings)?;
    let others: Vec<String> = live.iter().map(|live| live.info.mountpoint.display().to_string()).collect();
    if let Some(live) = live.into_iter().find(|live| live.info.mountpoint == wanted) {
        return Ok(live.session);
    }
    for Unreadable { session, .. } in unreadable(settings)? {
        let status = status(&session).await.and_then(Result::ok).unwrap_or_default();
        if status["mountpoint"] == json!(wanted) {
            return Ok(session);
        }
    }
    let message = format!("nothing of pstore's is mounted on {}", mountpoint.display());
    Err(Failure::new(ErrorKind::NotFound, message).hint(match others.as_slice() {
        [] => "nothing is mounted; `pstore sessions` shows what was cut short".to_owned(),
        others => format!("mounted are {}; `pstore sessions` shows what was cut short", others.join(", ")),
    }))
}

/// Mountpoints are compared as absolute paths without links.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Has the daemon do what this command line says.
pub(crate) async fn forward(session: PathBuf) -> Result<Answer, Failure> {
    let words: Vec<String> = std::env::args().collect();
    let request = json!({ "words": words });
    let asked = tokio::task::spawn_blocking(move || control::ask(&session, &request));
    let answered = asked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    received(answered.map_err(|error| {
        Failure::new(ErrorKind::Unavailable, format!("the mount's daemon does not answer: {error}")).hint(
            "`pstore mounts` shows whether it lives; `pstore mount` continues a session that was cut short",
        )
    })?)
}

/// An answer or a failure as the daemon sent it.
pub(crate) fn received(said: Value) -> Result<Answer, Failure> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let kind = |value: &Value| value.as_str().and_then(codes::kind).unwrap_or(ErrorKind::Internal);
    let error = &said["error"];
    if error.is_object() {
        let mut failure = Failure::new(kind(&error["kind"]), text(&error["message"]).unwrap_or_default());
        failure.hint = text(&error["hint"]);
        return Err(failure);
    }
    let verdict = &said["verdict"];
    Ok(Answer {
        document: said["document"].clone(),
        text: text(&said["text"]).unwrap_or_default(),
        brief: text(&said["brief"]),
        verdict: verdict
            .is_object()
            .then(|| (kind(&verdict["kind"]), text(&verdict["message"]).unwrap_or_default())),
        hint: text(&said["hint"]),
        exit: None,
    })
}

/// As [`received`] wants it.
pub(crate) fn sent(answer: &Result<Answer, Failure>) -> Value {
    match answer {
        Ok(Answer { document, text, brief, verdict, hint, .. }) => json!({
            "hint": hint,
            "document": document,
            "text": text,
            "brief": brief,
            "verdict": verdict.as_ref().map(|(kind, message)| json!({ "kind": codes::name(*kind), "message": message })),
        }),
        Err(failure) => json!(failure.document()),
    }
}
