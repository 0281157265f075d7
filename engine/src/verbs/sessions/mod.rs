//! `sessions` lists the interrupted sessions of this host, and rescues, discards or sets aside one.

mod discard;
pub mod remote;

use std::path::{Path, PathBuf};

use fuse::{
    mount::info::Mode,
    overlay::session::{SessionDir, SessionPlace},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{ErrorKind, catalog::clock, id::RecordId};

use crate::{
    Engine,
    captures::CapturedFields,
    copies::{self, CopyFields},
    failure::Failure,
    mount::{
        rescue,
        sessions::{About, Candidate, Sessions, Taking, Unreadable, is_named},
    },
    outcome::Outcome,
    settings::Settings,
};

pub use self::discard::{DiscardOutcome, DiscardRequest, discard};
pub use crate::mount::RescueRequest;

/// Lists the interrupted sessions of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionsRequest {}

/// The interrupted sessions of this host, and the copies that runs have left.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionsOutcome {
    /// Each session.
    pub sessions: Vec<ListedSession>,
    /// Each copy.
    pub copies: Vec<CopyFields>,
    /// A description of each copy, and the commands that store and remove it.
    #[serde(skip)]
    pub copy_advice: Vec<String>,
}

impl Outcome for SessionsOutcome {}

/// The state of a session that nobody serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// The next mount of its profile continues it.
    Unfinished,
    /// Its content cannot be read.
    Unreadable,
    /// It was set aside; no mount uses it.
    SetAside,
}

impl SessionState {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::Unreadable => "unreadable",
            Self::SetAside => "set_aside",
        }
    }
}

/// A session that nobody serves. A field is null if the session does not say it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ListedSession {
    /// Its id.
    pub session: String,
    /// Its state.
    pub state: SessionState,
    /// Why it cannot be read.
    pub problem: Option<String>,
    /// The directory where it lies.
    pub path: PathBuf,
    /// The store that it is of.
    pub store: Option<String>,
    /// The tenant.
    pub tenant_id: Option<String>,
    /// The profile of the tenant.
    pub profile_id: Option<String>,
    /// The Chrome that used it.
    pub chrome_major_version: Option<u64>,
    /// Whether it can be committed to its profile.
    pub mode: Option<Mode>,
    /// Where it was mounted.
    pub mountpoint: Option<PathBuf>,
    /// The snapshot that it was mounted from.
    pub record: Option<RecordId>,
    /// When it began.
    pub started_at_ms: Option<u64>,
    /// How long ago that is.
    pub age_ms: Option<u64>,
    /// How many bytes were written in it.
    pub dirty_bytes: Option<u64>,
}

/// Puts a session where no mount looks for it.
#[derive(Clone, Debug)]
pub struct SetAsideRequest {
    /// The first digits of the session's id.
    pub session: String,
}

/// A session that was set aside.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SetAsideOutcome {
    /// Its id.
    pub session: String,
    /// The directory where it lies now.
    pub path: PathBuf,
    /// Whether it lay there before.
    #[serde(skip)]
    pub was_aside: bool,
}

impl Outcome for SetAsideOutcome {}

/// The snapshot that a session became.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RescueOutcome {
    /// The snapshot, and what it took to store it.
    #[serde(flatten)]
    pub captured: CapturedFields,
    /// The session's id.
    pub session: String,
    /// The snapshot that was current before, though this one does not stand on it, in words.
    pub replaced: Option<String>,
}

impl Outcome for RescueOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        // The session is kept as well, and the engine has said what can be done with it.
        self.captured.verdict().map(|verdict| Failure { hint: None, ..verdict })
    }
}

impl Engine {
    /// Lists the interrupted sessions of this host.
    pub fn sessions(&self, request: &SessionsRequest) -> Result<SessionsOutcome, Failure> {
        list(&self.settings, request)
    }

    /// Makes what an unfinished session holds a snapshot.
    #[crate::boxed(?Send)]
    pub async fn rescue_session(&self, request: &RescueRequest) -> Result<RescueOutcome, Failure> {
        request.capture.check()?;
        request.capture.require_cold("a session that was cut short")?;
        let candidate = match ChosenSession::find(&self.settings, &request.session, Taking::Take)? {
            ChosenSession::Readable(candidate) => *candidate,
            ChosenSession::Unreadable(Unreadable { id, path, problem, .. }) => {
                let message = format!("session {id} cannot be read: {problem}");
                return Err(Failure::new(ErrorKind::SessionUnreadable, message)
                    .hint(format!("it lies in {}; the pstore that wrote it may read it", path.display())));
            }
        };
        let (id, stored_in) = (candidate.session.id(), candidate.info.store.clone());
        if stored_in != self.location.shown() {
            let message = format!("session {id} is of the store {stored_in}");
            return Err(Failure::usage(message).hint(format!("--store {stored_in}")));
        }
        let published = rescue::rescue(self, candidate, request).await?;
        if published.report.held_back.is_some() {
            self.say(&format!("session {id} is kept; `pstore sessions discard {id} --confirm` drops it"));
        }
        Ok(RescueOutcome { captured: published.fields(), session: id, replaced: published.replaced })
    }

    /// Throws an unfinished session, or a copy that a run has left, away.
    #[crate::boxed]
    pub async fn discard_session(&self, request: &DiscardRequest) -> Result<DiscardOutcome, Failure> {
        discard(&self.settings, request, || Ok(self.clone())).await
    }

    /// Puts a session where no mount looks for it. Nothing in it is changed.
    pub fn set_session_aside(&self, request: &SetAsideRequest) -> Result<SetAsideOutcome, Failure> {
        set_aside(&self.settings, request)
    }
}

/// Lists the interrupted sessions of this host; it need not know the store.
pub fn list(settings: &Settings, _: &SessionsRequest) -> Result<SessionsOutcome, Failure> {
    let now = clock::unix_ms();
    let mut sessions = Vec::new();
    for place in [SessionPlace::Here, SessionPlace::Aside] {
        let found = Sessions::find(settings, place, Taking::Look, |_, _| true)?;
        sessions.extend(found.unfinished.iter().map(|candidate| listed(candidate, place, now)));
        sessions.extend(found.unreadable.into_iter().map(|unreadable| listed_unreadable(unreadable, place)));
    }
    let copies = copies::left();
    Ok(SessionsOutcome {
        sessions,
        copies: copies.iter().map(copies::Copy::fields).collect(),
        copy_advice: copies.iter().map(copies::Copy::advice).collect(),
    })
}

/// Puts a session where no mount looks for it. Nothing in it is changed, and the store need not be known.
pub fn set_aside(settings: &Settings, request: &SetAsideRequest) -> Result<SetAsideOutcome, Failure> {
    // Only looked at: the command that is to move a session could not move one that is held.
    let found = ChosenSession::find(settings, &request.session, Taking::Look)?;
    let (session, path) = (found.id(), found.path());
    drop(found);
    if path.parent().and_then(Path::file_name).is_some_and(|folder| folder == ".aside") {
        return Ok(SetAsideOutcome { session, path, was_aside: true });
    }
    let Some(path) = SessionDir::set_aside(&path)? else {
        let message = format!("somebody uses session {session}");
        return Err(Failure::new(ErrorKind::InUse, message).hint("`pstore mounts` shows what is mounted"));
    };
    Ok(SetAsideOutcome { session, path, was_aside: false })
}

fn state(place: SessionPlace, is_readable: bool) -> SessionState {
    match (place, is_readable) {
        (SessionPlace::Aside, _) => SessionState::SetAside,
        (SessionPlace::Here, true) => SessionState::Unfinished,
        (SessionPlace::Here, false) => SessionState::Unreadable,
    }
}

/// The tenant and the profile that a name consists of.
fn parts(profile: Option<&str>) -> (Option<String>, Option<String>) {
    let mut parts = profile.into_iter().flat_map(|profile| profile.split('/')).map(str::to_owned);
    (parts.next(), parts.next())
}

fn listed(candidate: &Candidate, place: SessionPlace, now: u64) -> ListedSession {
    let info = &candidate.info;
    let (tenant_id, profile_id) = parts(Some(&info.profile));
    ListedSession {
        session: candidate.session.id(),
        state: state(place, true),
        problem: None,
        path: candidate.session.path().to_owned(),
        store: Some(info.store.clone()),
        tenant_id,
        profile_id,
        chrome_major_version: Some(info.chrome_major),
        mode: Some(info.mode),
        mountpoint: Some(info.mountpoint.clone()),
        record: info.record,
        started_at_ms: Some(info.started_at_ms),
        age_ms: Some(now.saturating_sub(info.started_at_ms)),
        dirty_bytes: Some(candidate.unfinished.written_bytes()),
    }
}

fn listed_unreadable(unreadable: Unreadable, place: SessionPlace) -> ListedSession {
    let Unreadable { id, path, problem, about: About { store, profile, chrome_major, mode } } = unreadable;
    let (tenant_id, profile_id) = parts(profile.as_deref());
    ListedSession {
        session: id,
        state: state(place, false),
        problem: Some(problem),
        path,
        store,
        tenant_id,
        profile_id,
        chrome_major_version: chrome_major,
        mode,
        mountpoint: None,
        record: None,
        started_at_ms: None,
        age_ms: None,
        dirty_bytes: None,
    }
}

/// The one session whose id starts as it was said, wherever it lies.
enum ChosenSession {
    Readable(Box<Candidate>),
    Unreadable(Unreadable),
}

impl ChosenSession {
    fn find(settings: &Settings, prefix: &str, taking: Taking) -> Result<Self, Failure> {
        let named = [prefix.to_owned()];
        let fits = |path: &Path, _: &About| is_named(path, &named);
        let mut fitting = Vec::new();
        for place in [SessionPlace::Here, SessionPlace::Aside] {
            let found = Sessions::find(settings, place, taking, fits)?;
            fitting.extend(found.unfinished.into_iter().map(|candidate| Self::Readable(Box::new(candidate))));
            fitting.extend(found.unreadable.into_iter().map(Self::Unreadable));
        }
        match (fitting.pop(), fitting.is_empty()) {
            (Some(found), true) => Ok(found),
            (None, _) => {
                Err(Failure::new(ErrorKind::NotFound, format!("there is no unfinished session {prefix}"))
                    .hint("`pstore sessions` lists them; one that is mounted is among `pstore mounts`"))
            }
            _ => Err(Failure::new(ErrorKind::Ambiguous, format!("{prefix} fits several sessions"))
                .hint("give more of it")),
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Readable(candidate) => candidate.session.path().to_owned(),
            Self::Unreadable(unreadable) => unreadable.path.clone(),
        }
    }

    fn id(&self) -> String {
        match self {
            Self::Readable(candidate) => candidate.session.id(),
            Self::Unreadable(unreadable) => unreadable.id.clone(),
        }
    }
}
