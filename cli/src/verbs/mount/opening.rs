//! What is mounted: a snapshot, an unfinished session, or an empty profile.

use std::{path::Path, sync::Arc, time::Duration};

use capture::{
    chrome::profile,
    load::{self, Outcome, Policy},
    marker,
};
use fuse::{
    mount::{
        Mount, Opening, Right, Snapshot, Start, clean_up,
        info::{self, Info, Mode},
        is_stale, release_if_stuck,
    },
    overlay::{checkpoint::Below, recovery::Unfinished, session::SessionDir},
};
use store::{
    Error, ErrorKind,
    catalog::{clock, lock::Terms, records},
    content::TenantStore,
    format::record,
    name::{ChromeMajor, Lineage},
    ops::{
        find,
        open::{self, Opened},
    },
};

use super::super::{Context, export};
use crate::{
    args::{LineageArgs, MountArgs},
    failure::Failure,
    location::Purpose,
    settings::Settings,
};

/// A session that was cut short with changes in it.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) session: SessionDir,
    pub(crate) info: Info,
    pub(crate) unfinished: Unfinished,
}

/// What a mount became, with what a person should know.
pub(super) struct Begun {
    pub mount: Mount,
    pub notes: Notes,
}

/// How the profile was found.
pub(in crate::verbs) struct Notes {
    pub outcome: Outcome,
    /// Why it starts empty, if it does.
    pub reason: Option<String>,
    pub warnings: Vec<String>,
}

impl Notes {
    fn new() -> Self {
        Self { outcome: Outcome::Success, reason: None, warnings: Vec::new() }
    }

    fn fallback(&self) -> Option<String> {
        self.outcome.is_fallback().then(|| self.outcome.as_str().to_owned())
    }

    /// What a person should know, the reason for an empty profile included.
    pub fn told(&self) -> Vec<String> {
        let fresh = self
            .reason
            .as_ref()
            .filter(|_| self.outcome.is_fallback())
            .map(|reason| format!("{}: starting with an empty profile: {reason}", self.outcome.as_str()));
        self.warnings.iter().cloned().chain(fresh).collect()
    }
}

/// What is done with sessions that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// They are taken, to be continued or removed. Those that hold no changes are removed at
    /// once: there is nothing in them.
    Take,
    /// They are only told about.
    Look,
}

/// The sessions that nobody serves and that hold changes, of those that are wanted; and those
/// that somebody serves.
pub(crate) fn candidates(
    settings: &Settings,
    taking: Taking,
    wanted: impl Fn(&Path, &Info) -> bool,
) -> Result<(Vec<Candidate>, Vec<Info>), Failure> {
    let (mut found, mut busy) = (Vec::new(), Vec::new());
    for path in SessionDir::list(&settings.sessions()?)? {
        let info = match SessionDir::read_info::<Info>(&path) {
            Ok(info) => info,
            Err(error) => {
                tracing::warn!(%error, "a session cannot be read and is left alone");
                continue;
            }
        };
        if !wanted(&path, &info) {
            continue;
        }
        release_if_stuck(&info);
        let held = match taking {
            Taking::Take => SessionDir::open(&path)?,
            Taking::Look => SessionDir::look(&path)?,
        };
        let Some(session) = held else {
            busy.push(info);
            continue;
        };
        if taking == Taking::Take && is_stale(&info.mountpoint) {
            // Nobody serves it: whatever uses it gets errors, and it may be in the way.
            clean_up(&info.mountpoint)?;
        }
        let unfinished = match Unfinished::read(&session, info.is_of_this_boot()) {
            Ok(unfinished) => unfinished,
            Err(error) => {
                tracing::warn!(%error, "a session cannot be continued and is left alone");
                continue;
            }
        };
        if unfinished.has_changes() {
            found.push(Candidate { session, info, unfinished });
        } else if taking == Taking::Take {
            session.remove()?;
        }
    }
    Ok((found, busy))
}

/// Locks or pins, reads what there is to read, and begins or continues the session.
pub(super) async fn open(context: &Context, args: &MountArgs) -> Result<Begun, Failure> {
    if args.read_only || args.fork {
        return without_lock(context, args).await;
    }
    let (settings, store) = (context.settings.clone(), context.location.shown());
    let (profile, major) = (args.source.profile.to_string(), args.chrome_major);
    let named = profile.clone();
    let wanted = move |_: &Path, info: &Info| {
        info.store == store
            && info.profile == named
            && info.mode == Mode::Locked
            && major.is_none_or(|major| u64::from(major) == info.chrome_major)
    };
    let (mine, busy) = blocking(move || candidates(&settings, Taking::Take, wanted)).await?;
    let mut mine = mine.into_iter();
    let candidate = mine.next();
    if let (Some(first), Some(_)) = (&candidate, mine.next()) {
        let message =
            format!("{profile} has several unfinished sessions, one of them {}", first.session.id());
        return Err(Failure::new(ErrorKind::Conflict, message).hint(SESSIONS));
    }
    if args.resume && candidate.is_none() {
        let message = format!("{profile} has no unfinished session on this host");
        return Err(Failure::new(ErrorKind::NotFound, message).hint("without --resume it is mounted afresh"));
    }
    let of_session =
        candidate.as_ref().and_then(|candidate| ChromeMajor::try_from(candidate.info.chrome_major).ok());
    with_lock(context, args, candidate, &busy, of_session.or(args.chrome_major)).await
}

const SESSIONS: &str = "`pstore sessions` lists them; `pstore sessions rescue` and `discard` settle one";

async fn with_lock(
    context: &Context,
    args: &MountArgs,
    candidate: Option<Candidate>,
    busy: &[Info],
    major: Option<ChromeMajor>,
) -> Result<Begun, Failure> {
    let profile = &args.source.profile;
    let settings = context.settings.tenant(&profile.tenant);
    let major = major.or_else(|| args.load.chrome_version.as_deref()?.split('.').next()?.parse().ok());
    if context.location.is_missing() {
        context.console.say(&format!("making a store at {}", context.location.shown()));
    }
    let store = context.store(Purpose::Write).await?;
    let actor = context.actor(&args.actor);
    let run_id = actor.run_id.clone();
    let terms = Terms { ttl: settings.lock_ttl, with_process: true };
    let locked = open::locked(&store, profile, major, actor, terms, args.wait).await.map_err(|error| {
        let missing = error.kind() == ErrorKind::NotFound;
        let failure = Failure::from(error);
        if missing {
            failure.hint("name a new one with its Chrome, for example --chrome-major 131")
        } else {
            failure
        }
    })?;
    let open::Locked { store: tenant, lineage, hold, opened } = locked;
    let hold = Arc::new(hold);
    // From now on: an archive that is taken in may take longer than the lock lasts.
    let keeper = hold.keep(settings.lock_renew.max(Duration::from_millis(1)));
    let opened = match opened {
        Err(Error::Foreign { .. }) => adopted(context, &tenant, &lineage).await,
        opened => opened,
    };
    let started = async {
        let mut notes = Notes::new();
        let request = load_request(context, args, lineage.chrome_major);
        if let (None, Some(other)) = (&candidate, busy.first()) {
            return Err(lock_was_lost(other));
        }
        let (snapshot, start, fallback) = match candidate {
            Some(candidate) => {
                let snapshot = below(&tenant, &lineage, &candidate, opened?).await?;
                let Candidate { session, unfinished, info } = candidate;
                // A session that had started afresh still must not replace what it could not load.
                (snapshot, Start::Resume { session, unfinished: Box::new(unfinished) }, info.fallback)
            }
            None => {
                let opened = match opened {
                    Ok(None) => Err(load::nothing_to_load(&tenant, &lineage).await?),
                    opened => opened,
                };
                let opened = choose(opened, &request, &mut notes)?;
                let snapshot = opened.map(|opened| Snapshot { lineage: lineage.clone(), opened });
                (snapshot, new_session(context)?, notes.fallback())
            }
        };
        let info = info(context, args, &lineage, Mode::Locked, snapshot.as_ref(), fallback, run_id);
        let right = Right::Held { hold: Arc::clone(&hold), keeper };
        let opening = opening(tenant, lineage, right, snapshot, info);
        let mount = blocking(move || Ok(Mount::start(opening, start)?)).await?;
        mount.settle(&export::policy(context, &profile.tenant)).await?;
        Ok(Begun { mount, notes })
    }
    .await;
    if started.is_err()
        && let Err(error) = hold.release().await
    {
        tracing::warn!(%error, "the lock could not be given back; it expires by itself");
    }
    started
}

/// The archive that another program has made the current one, as a snapshot.
async fn adopted(
    context: &Context,
    tenant: &TenantStore,
    lineage: &Lineage,
) -> store::Result<Option<Opened>> {
    let adoption = context.adoption(&lineage.name.tenant);
    let record = match adoption.adopt(tenant, lineage, crate::progress::watch(context.console)).await? {
        Some(record) => record,
        // Somebody else has just done so, or has moved the pointer.
        None => match find::snapshot(tenant, lineage, None).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        },
    };
    Ok(Some(Opened::load(tenant, record).await?))
}

/// Somebody serves a session of this profile on this host, and yet the lock could be had.
fn lock_was_lost(other: &Info) -> Failure {
    let (profile, mountpoint) = (&other.profile, other.mountpoint.display());
    let message = format!(
        "{profile} is mounted on {mountpoint} by process {}, which has lost its lock and may hold changes that are not committed",
        other.pid
    );
    Failure::new(ErrorKind::InUse, message).hint(format!(
        "`pstore commit {mountpoint} --as TENANT/PROFILE` stores them, `pstore unmount {mountpoint} --keep` or `--discard` ends it"
    ))
}

async fn without_lock(context: &Context, args: &MountArgs) -> Result<Begun, Failure> {
    let store = context.store(Purpose::Change).await?;
    let (profile, sha) = (&args.source.profile, args.source.sha.as_deref());
    let pinned = || open::pinned(&store, profile, args.chrome_major, sha);
    let opened = match pinned().await {
        Err(Error::Foreign { .. }) => {
            let asked = LineageArgs { profile: profile.clone(), chrome_major: args.chrome_major };
            let (_, lineage) = context.lineage(&asked).await?;
            context.adopt(&lineage).await?;
            pinned().await?
        }
        opened => opened?,
    };
    let open::Unlocked { store: tenant, lineage, kept: (pinned, keeper), opened } = opened;
    let mode = if args.fork { Mode::Fork } else { Mode::ReadOnly };
    let mut notes = Notes::new();
    let request = load_request(context, args, lineage.chrome_major);
    let opened = choose(Ok(Some(opened)), &request, &mut notes)?;
    let snapshot = opened.map(|opened| Snapshot { lineage: lineage.clone(), opened });
    let run_id = context.actor(&args.actor).run_id;
    let info = info(context, args, &lineage, mode, snapshot.as_ref(), notes.fallback(), run_id);
    let opening = opening(tenant, lineage, Right::Pinned { pinned, keeper }, snapshot, info);
    let start = new_session(context)?;
    let mount = blocking(move || Ok(Mount::start(opening, start)?)).await?;
    if mode == Mode::ReadOnly {
        mount.fs.make_read_only();
    }
    Ok(Begun { mount, notes })
}

/// The snapshot, if it may be used; `None` to start empty.
fn choose(
    opened: store::Result<Option<Opened>>,
    request: &load::Request,
    notes: &mut Notes,
) -> Result<Option<Opened>, Failure> {
    let judged = opened.and_then(|opened| {
        if let Some(opened) = &opened {
            notes.warnings.extend(load::suitable(&opened.record, request)?);
        }
        Ok(opened)
    });
    let error = match judged {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    match Outcome::of(&error) {
        Some(outcome) if !request.policy.require || outcome == Outcome::NoPriorState => {
            (notes.outcome, notes.reason) = (outcome, Some(error.to_string()));
            Ok(None)
        }
        _ => Err(error.into()),
    }
}

/// The snapshot a session was built on, if the session may still move the pointer.
pub(super) async fn below(
    tenant: &TenantStore,
    lineage: &Lineage,
    candidate: &Candidate,
    current: Option<Opened>,
) -> Result<Option<Snapshot>, Failure> {
    let wanted: Option<&Below> = candidate.unfinished.below();
    let now = current.as_ref().map(|opened| opened.record.record);
    let intended = candidate.unfinished.intent();
    if now == wanted.map(|below| below.record) {
        return Ok(current.map(|opened| Snapshot { lineage: lineage.clone(), opened }));
    }
    if intended.is_none() || intended != now {
        let id = candidate.session.id();
        let message = format!(
            "{} was changed by somebody else since session {id} began, which has changes that were not committed",
            lineage.name
        );
        return Err(Failure::new(ErrorKind::PointerMoved, message).hint(format!(
            "`pstore sessions rescue {id} --as TENANT/PROFILE` keeps them, `pstore sessions discard {id} --confirm` drops them"
        )));
    }
    match wanted {
        None => Ok(None),
        Some(below) => at(tenant, below).await.map(Some),
    }
}

pub(super) async fn at(tenant: &TenantStore, below: &Below) -> Result<Snapshot, Failure> {
    let (record, _) = records::get(tenant, &below.lineage, below.record).await?;
    Ok(Snapshot { lineage: below.lineage.clone(), opened: Opened::load(tenant, record).await? })
}

pub(super) fn opening(
    tenant: TenantStore,
    lineage: Lineage,
    right: Right,
    snapshot: Option<Snapshot>,
    info: Info,
) -> Opening {
    Opening {
        tenant,
        lineage,
        right,
        snapshot,
        info,
        exclusions: exclusions(),
        runtime: tokio::runtime::Handle::current(),
        limits: Default::default(),
    }
}

/// What is never stored.
pub(super) fn exclusions() -> Vec<String> {
    profile::EXCLUSIONS.iter().copied().chain([marker::NAME]).map(str::to_owned).collect()
}

fn new_session(context: &Context) -> Result<Start, Failure> {
    Ok(Start::New { sessions: context.settings.sessions()?, id: clock::new_record_id().to_string() })
}

fn info(
    context: &Context,
    args: &MountArgs,
    lineage: &Lineage,
    mode: Mode,
    snapshot: Option<&Snapshot>,
    fallback: Option<String>,
    run_id: String,
) -> Info {
    let (endpoint, region) = context.settings.server();
    let record = snapshot.map(|snapshot| &snapshot.opened.record);
    Info {
        v: info::VERSION,
        store: context.location.shown(),
        endpoint,
        region,
        profile: lineage.name.to_string(),
        chrome_major: lineage.chrome_major.into(),
        mode,
        mountpoint: super::remote::absolute(&args.mountpoint),
        pid: std::process::id(),
        boot_id: info::boot_id().unwrap_or_default(),
        started_at_ms: clock::unix_ms(),
        record: record.map(|record| record.record),
        sha256_prefix: record.map(record::Record::sha256_prefix),
        fallback,
        run_id,
    }
}

fn load_request(context: &Context, args: &MountArgs, chrome_major: ChromeMajor) -> load::Request {
    let settings = context.settings.tenant(&args.source.profile.tenant);
    load::Request {
        profile: args.source.profile.clone(),
        chrome_major,
        chrome_version: args.load.chrome_version.clone(),
        sha: args.source.sha.clone(),
        target: args.mountpoint.clone(),
        force: false,
        same_owner: false,
        threads: crate::threads(),
        commitment: Default::default(),
        policy: Policy {
            allow_hot: settings.modes.contains(&record::Mode::Hot),
            max_bytes: settings.max_profile_bytes,
            depth: None,
            require: args.load.require,
        },
        host_region: args.host_region.clone().or_else(|| context.settings.host_region()),
        now_ms: clock::unix_ms(),
        normalise_exit: args.load.normalise_exit,
        adoption: None,
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::from(Error::Internal { what: error.to_string() })))
}
