//! `opening` decides what to mount: a snapshot, an unfinished session, or an empty profile.

use std::{sync::Arc, time::Duration};

use capture::load;
use fuse::{
    mount::{
        Mount, ProfileAccess, Settled, Snapshot, Start,
        info::{Info, Mode},
    },
    overlay::session::SessionDir,
};
use store::{
    Error, ErrorKind,
    catalog::{
        lock::Terms,
        session_root::{self, Owner, Roots},
    },
    content::TenantStore,
    id::RecordId,
    name::Lineage,
    ops::read::{
        open::{self, OpenedTree},
        resolve,
    },
};

use super::{
    assembly::{blocking, give_back, info, new_id, new_session, opening, root, settle_roots},
    autosave::Autosave,
    choice::{Notes, choose, load_request},
    diverged,
    request::MountRequest,
    resume,
    search::{EarlierSession, Search},
    sessions::Candidate,
    wip::{self, LeftWork},
};
use crate::{Engine, failure::Failure, location::Purpose, names::LineageName};

/// The finished mount, with warnings for a person.
#[derive(Debug)]
pub(crate) struct Begun {
    pub mount: Mount,
    pub notes: Notes,
    pub autosave: Autosave,
}

/// Locks or pins, reads what there is to read, and begins or continues the session. One that cannot
/// be continued, because somebody has gone on elsewhere, is dealt with as it was asked for.
pub(crate) async fn open(engine: &Engine, args: &MountRequest) -> Result<Begun, Failure> {
    if args.mode != Mode::Locked {
        return without_lock(engine, args).await;
    }
    let mut settled = diverged::left_behind(engine, &args.source.profile)?;
    loop {
        match begin(engine, args).await {
            Ok(mut begun) => {
                begun.notes.warnings.append(&mut settled);
                return Ok(begun);
            }
            Err(failure) => settled.push(diverged::settle(engine, args, failure).await?),
        }
    }
}

async fn begin(engine: &Engine, args: &MountRequest) -> Result<Begun, Failure> {
    let search = Search::new(engine, args);
    // A command that waits for the lock takes nothing from anybody; what is here when it has the lock counts.
    let seen = search.look().await?;
    if args.resume && seen.is_none() {
        let message = format!("{} has no unfinished session on this host", args.source.profile);
        return Err(Failure::new(ErrorKind::NotFound, message).hint("without --resume it is mounted afresh"));
    }
    with_lock(engine, args, search, seen).await
}

async fn with_lock(
    engine: &Engine,
    args: &MountRequest,
    search: Search,
    seen: Option<EarlierSession>,
) -> Result<Begun, Failure> {
    let profile = &args.source.profile;
    let settings = engine.settings.tenant(&profile.tenant);
    let major = seen.as_ref().and_then(|seen| seen.chrome_major).or(args.chrome_major);
    let major = major.or_else(|| args.load.major_of_version());
    if engine.location.is_missing() {
        engine.say(&format!("making a store at {}", engine.location.shown()));
    }
    let store = engine.store(Purpose::Write).await?;
    let actor = engine.actor(&args.actor);
    let run_id = actor.run_id.clone();
    let terms = Terms { ttl: settings.lock_ttl, with_process: true };
    let is_new = seen.is_none();
    let (host, rooted) = (actor.host.clone(), seen.map_or_else(new_id, |seen| seen.id));
    let owner = |id: &str| id.parse().ok().map(|session| Owner { session, host: host.clone() });
    let patience = engine.patience(profile, args.wait);
    let locked = open::locked(&store, profile, major, actor, terms, patience, owner(&rooted));
    let locked = locked.await.map_err(|error| {
        let missing = error.kind() == ErrorKind::NotFound;
        let failure = Failure::from(error);
        if missing {
            failure.hint("name a new one with its Chrome, for example --chrome-major 131")
        } else {
            failure
        }
    })?;
    let open::Locked { store: tenant, lineage, hold, opened, in_progress, mut roots } = locked;
    let hold = Arc::new(hold);
    let (candidate, others) = match search.take().await {
        Ok(taken) => taken,
        Err(failure) => {
            give_back(&hold, roots.as_deref(), None).await;
            return Err(failure);
        }
    };
    if candidate.as_ref().is_some_and(|found| found.info.chrome_major != u64::from(lineage.chrome_major)) {
        // It was left by the last user of another lineage of the profile.
        drop((candidate, others));
        give_back(&hold, roots.as_deref(), None).await;
        return Box::pin(begin(engine, args)).await;
    }
    let id = match &candidate {
        Some(candidate) => candidate.session.id(),
        None if is_new => rooted.clone(),
        None => new_id(),
    };
    if id != rooted {
        // The session that was to be continued is over, or there is one now.
        if let Some(roots) = &roots {
            roots.keep_only(None).await;
        }
        roots = owner(&id).map(|owner| Arc::new(Roots::new(tenant.clone(), owner)));
    }
    // From now on: an archive that is taken in may take longer than the lock lasts.
    let keeper = hold.keep(settings.lock_renew.max(Duration::from_millis(1)));
    let opened = match opened {
        Err(Error::Foreign { .. }) => adopted(engine, &tenant, &lineage).await,
        opened => opened,
    };
    let built_on = candidate.as_ref().and_then(|candidate| candidate.unfinished.below());
    let built_on = built_on.map(|below| below.record);
    let started = async {
        let mut notes = Notes::new();
        drop_empty(&tenant, others.empty).await?;
        let request = load_request(engine, args, lineage.chrome_major);
        // What the session has saved of itself is not left by another.
        let own = in_progress.as_ref().filter(|wip| wip.session.is_some() && wip.session == id.parse().ok());
        let own = own.map(|wip| wip.record);
        let left = match &in_progress {
            _ if args.from_wip => LeftWork::find(&tenant, &lineage).await?,
            Some(_) if own.is_none() => LeftWork::look(&tenant, &lineage).await,
            _ => None,
        };
        if let (true, Some(candidate)) = (args.from_wip, &candidate) {
            return Err(wip::has_session(profile, &candidate.session.id()));
        }
        let autosave = Autosave::new(own, left.as_ref().map(LeftWork::record));
        if let (None, Some(other)) = (&candidate, others.busy.first()) {
            return Err(lock_was_lost(other));
        }
        let (snapshot, start, fallback) = match candidate {
            Some(candidate) => {
                let fate = resume::fate(&candidate, &hold).await;
                let snapshot = resume::below(&tenant, &lineage, &candidate, fate, opened?).await?;
                let Candidate { session, unfinished, info } = candidate;
                // A session that had started afresh still must not replace what it could not load.
                (snapshot, Start::Resume { session, unfinished: Box::new(unfinished) }, info.fallback)
            }
            None if args.from_wip => {
                let left = left.ok_or_else(|| wip::none(profile))?;
                let of = (&tenant, &lineage);
                let snapshot = left.open(engine, of, &hold, &request, &mut notes).await?;
                (Some(snapshot), new_session(engine, id)?, None)
            }
            None => {
                if let Some(left) = left {
                    let current =
                        opened.as_ref().ok().and_then(Option::as_ref).map(|opened| opened.record.record);
                    notes.warnings.push(left.told(current));
                }
                let mut of = lineage.clone();
                let opened = match opened {
                    Ok(None) => match upgraded(&tenant, &lineage, &request, &search, &mut notes).await? {
                        Some(snapshot) => {
                            of = snapshot.lineage;
                            Ok(Some(snapshot.opened))
                        }
                        None => Err(load::nothing_to_load(&tenant, &lineage).await?),
                    },
                    opened => opened,
                };
                let opened = choose(&tenant, opened, &request, Mode::Locked, &mut notes).await?;
                let snapshot = opened.map(|opened| Snapshot { lineage: of, opened });
                (snapshot, new_session(engine, id)?, notes.fallback())
            }
        };
        let info = info(engine, args, &lineage, Mode::Locked, snapshot.as_ref(), fallback, run_id);
        let access = ProfileAccess::Held { hold: Arc::clone(&hold), keeper };
        root(roots.as_deref(), snapshot.as_ref()).await?;
        let opening = opening(tenant, lineage, access, roots.clone(), snapshot, info, engine.limits());
        let mount = blocking(move || Ok(Mount::start(opening, start)?)).await?;
        let settled = mount.settle(&engine.publish_policy(&profile.tenant)).await?;
        if let Settled::Unknown { record, sha256_prefix } = settled {
            return Err(resume::in_doubt(&mount, record, sha256_prefix));
        }
        settle_roots(&mount, roots.as_deref()).await;
        Ok((Begun { mount, notes, autosave }, settled))
    }
    .await;
    if started.is_err() {
        give_back(&hold, roots.as_deref(), built_on).await;
    }
    match started? {
        (Begun { mount, .. }, Settled::Passed { record, finished }) => {
            passed(engine, args, mount, record, finished).await
        }
        (begun, _) => Ok(begun),
    }
}

/// The snapshot of an older Chrome that this one, which has none, starts from.
async fn upgraded(
    tenant: &TenantStore,
    lineage: &Lineage,
    request: &load::LoadRequest,
    search: &Search,
    notes: &mut Notes,
) -> Result<Option<Snapshot>, Failure> {
    let Some(older) = load::older(tenant, lineage, request.upgrade, None).await? else { return Ok(None) };
    let major = older.lineage.chrome_major;
    if let Some(EarlierSession { id, .. }) = search.of(major).look().await? {
        let message = format!(
            "session {id} has changes to {} of Chrome {major} that are not committed: they would be left behind",
            lineage.name
        );
        return Err(Failure::new(ErrorKind::Uncommitted, message).hint(format!(
            "`pstore sessions rescue {id}` makes them its current snapshot, `pstore sessions discard {id} --confirm` drops them"
        )));
    }
    notes.warnings.push(older.told());
    notes.transforms.push(older.transform());
    let opened = OpenedTree::load(tenant, older.record).await?;
    Ok(Some(Snapshot { lineage: older.lineage, opened }))
}

/// Removes sessions that hold nothing: first what they keep in the store, of which nobody would
/// know any more.
async fn drop_empty(tenant: &TenantStore, empty: Vec<(SessionDir, Info)>) -> Result<(), Failure> {
    for (session, _) in empty {
        if let Ok(id) = session.id().parse() {
            session_root::forget(tenant, id).await?;
        }
        session.remove()?;
    }
    Ok(())
}

/// The archive that another program has made the current one, as a snapshot.
async fn adopted(
    engine: &Engine,
    tenant: &TenantStore,
    lineage: &Lineage,
) -> store::Result<Option<OpenedTree>> {
    let adoption = engine.adoption(&lineage.name.tenant);
    let record = match adoption.adopt(tenant, lineage, engine.progress()).await? {
        Some(record) => record,
        // Somebody else has just done so, or has moved the pointer.
        None => match resolve::snapshot(tenant, lineage, None).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        },
    };
    Ok(Some(OpenedTree::load(tenant, record).await?))
}

/// Somebody serves a session of this profile on this host, and yet the lock could be had.
fn lock_was_lost(other: &Info) -> Failure {
    let (profile, mountpoint) = (&other.profile, other.mountpoint.display());
    let message = format!(
        "{profile} is mounted on {mountpoint} by process {}, which has lost its lock and may hold changes that are not committed",
        other.pid
    );
    Failure::new(ErrorKind::InUse, message).hint(format!(
        "`pstore commit {mountpoint} --as {profile}-rescued` stores them, `pstore unmount {mountpoint} --keep` or `--discard` ends it"
    ))
}

/// The warning of a read-only mount without a pin.
const UNPINNED: &str = "nothing keeps this snapshot, because nothing may be written to the store: if it is deleted, reads fail \
                        once `pstore gc` has removed it";

async fn without_lock(engine: &Engine, args: &MountRequest) -> Result<Begun, Failure> {
    let purpose = if args.mode == Mode::Fork { Purpose::Change } else { engine.purpose_of_keeping().await? };
    let store = engine.store(purpose).await?;
    let (profile, reference) = (&args.source.profile, args.source.chosen());
    let id = new_id();
    let host = engine.actor(&args.actor).host;
    let owner = id.parse().ok().filter(|_| args.mode == Mode::Fork).map(|session| Owner { session, host });
    let pinned = || open::pinned(&store, profile, args.chrome_major, reference, owner.clone());
    let opened = match pinned().await {
        Err(Error::Foreign { .. }) => {
            let asked = LineageName { profile: profile.clone(), chrome_major: args.chrome_major };
            let (_, lineage) = engine.lineage(&asked).await?;
            engine.adopt(&lineage).await?;
            pinned().await?
        }
        opened => opened.map_err(|error| match (reference, error.kind()) {
            (Some(_), ErrorKind::NotFound) => {
                Failure::from(error).hint(format!("`pstore list {profile}` shows the snapshots there are"))
            }
            _ => error.into(),
        })?,
    };
    let open::Unlocked { store: tenant, lineage, kept, opened, roots } = opened;
    let mode = args.mode;
    let mut notes = Notes::new();
    let request = load_request(engine, args, lineage.chrome_major);
    let opened = choose(&tenant, Ok(Some(opened)), &request, mode, &mut notes).await?;
    let snapshot = opened.map(|opened| Snapshot { lineage: lineage.clone(), opened });
    let run_id = engine.actor(&args.actor).run_id;
    let info = info(engine, args, &lineage, mode, snapshot.as_ref(), notes.fallback(), run_id);
    let access = match kept {
        Some((pinned, keeper)) => ProfileAccess::Pinned { pinned, keeper },
        None => {
            notes.warnings.push(UNPINNED.to_owned());
            ProfileAccess::None
        }
    };
    let opening = opening(tenant, lineage, access, roots, snapshot, info, engine.limits());
    let start = new_session(engine, id)?;
    let mount = blocking(move || Ok(Mount::start(opening, start)?)).await?;
    if mode == Mode::ReadOnly {
        mount.fs.make_read_only();
    }
    mount.keep_roots().await;
    Ok(Begun { mount, notes, autosave: Autosave::default() })
}

/// The last commit was the current snapshot, and somebody has moved the pointer since.
/// That is respected: what is current is mounted, if the session has nothing else to lose.
async fn passed(
    engine: &Engine,
    args: &MountRequest,
    mount: Mount,
    record: RecordId,
    finished: bool,
) -> Result<Begun, Failure> {
    if !finished || mount.is_at_stake() {
        let failure = resume::gone_past(&mount.lineage, &mount.session_id());
        mount.set_aside().await;
        return Err(failure);
    }
    let told = format!(
        "all changes of session {} were committed, as {record}; somebody has moved the pointer of {} since, and what that names now is mounted",
        mount.session_id(),
        mount.lineage.name
    );
    mount.end().await?;
    drop(mount);
    let mut begun = Box::pin(open(engine, args)).await?;
    begun.notes.warnings.push(told);
    Ok(begun)
}
