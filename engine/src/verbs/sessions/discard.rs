//! `discard` drops an unfinished session, or a copy that a run has left.

use fuse::overlay::session::SessionDir;
use schemars::JsonSchema;
use serde::Serialize;
use store::{Error, ErrorKind, catalog::session_root, id::RecordId, name::Tenant};

use super::ChosenSession;
use crate::{
    Engine, copies,
    failure::Failure,
    mount::sessions::{Taking, Unreadable},
    outcome::Outcome,
    settings::Settings,
    text::size,
};

/// Throws an unfinished session, or a copy that a run has left, away.
#[derive(Clone, Debug)]
pub struct DiscardRequest {
    /// The first digits of its id.
    pub session: String,
    /// Do it; without this it is refused, and said what would be gone.
    pub confirm: bool,
}

/// A session, or a copy, that is gone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiscardOutcome {
    /// Its id.
    pub session: String,
    /// Whether it is gone.
    pub discarded: bool,
    /// Whether it was a copy that a run had left.
    #[serde(skip)]
    pub was_copy: bool,
    /// Why the snapshot below stays for its sake, if it does.
    #[serde(skip)]
    pub root_problem: Option<String>,
}

impl Outcome for DiscardOutcome {}

/// Throws an unfinished session, or a copy that a run has left, away. The store is opened only when the
/// session is gone: what lies on this host can be discarded without it.
pub async fn discard(
    settings: &Settings,
    request: &DiscardRequest,
    engine: impl FnOnce() -> Result<Engine, Failure>,
) -> Result<DiscardOutcome, Failure> {
    if let Some(copy) = copies::find(&request.session)? {
        let session = copy.discard(request.confirm)?;
        return Ok(DiscardOutcome { session, discarded: true, was_copy: true, root_problem: None });
    }
    let found = ChosenSession::find(settings, &request.session, Taking::Take)?;
    let id = found.id();
    if !request.confirm {
        return Err(unconfirmed(&found));
    }
    let about = match found {
        ChosenSession::Readable(candidate) => {
            candidate.session.remove()?;
            Some((candidate.info.store.clone(), candidate.info.lineage().map(|of| of.name.tenant)))
        }
        ChosenSession::Unreadable(Unreadable { path, about, .. }) => {
            // One that is in use is not unreadable because of that: it must be free.
            let aside = SessionDir::set_aside(&path)?;
            let Some(aside) = aside else {
                return Err(Failure::new(ErrorKind::InUse, format!("somebody uses session {id}")));
            };
            std::fs::remove_dir_all(&aside).map_err(|error| Error::io("cannot remove", &aside, error))?;
            let tenant = about.profile.and_then(|profile| profile.split('/').next()?.parse().ok());
            about.store.map(|store| (store, tenant))
        }
    };
    // After it: while there is a session, what it builds on stays.
    let root_problem = match (id.parse::<RecordId>(), about) {
        (Ok(session), Some((store, Some(tenant)))) => forget(engine, &store, &tenant, session).await.err(),
        _ => Some("where that is stored is not known".to_owned()),
    };
    Ok(DiscardOutcome { session: id, discarded: true, was_copy: false, root_problem })
}

fn unconfirmed(found: &ChosenSession) -> Failure {
    let id = found.id();
    let message = match found {
        ChosenSession::Readable(candidate) => {
            let bytes = size::bytes(candidate.unfinished.written_bytes());
            format!("{bytes} that were written in session {id} of {} would be gone", candidate.info.profile)
        }
        ChosenSession::Unreadable(unreadable) => format!(
            "what was written in session {id} would be gone, which cannot be read: {}",
            unreadable.problem
        ),
    };
    Failure::usage(message).hint(format!("`pstore sessions discard {id} --confirm` drops them"))
}

/// Nothing is kept in the store for a session any more; else why.
async fn forget(
    engine: impl FnOnce() -> Result<Engine, Failure>,
    store: &str,
    tenant: &Tenant,
    session: RecordId,
) -> Result<(), String> {
    let engine = engine().map_err(|failure| failure.message)?;
    if engine.location.shown() != store {
        return Err(format!("it is of the store {store}"));
    }
    let tenant = engine.writable_tenant(tenant).await.map_err(|failure| failure.message)?;
    session_root::forget(&tenant, session).await.map(drop).map_err(|error| error.to_string())
}
