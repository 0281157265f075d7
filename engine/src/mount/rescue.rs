//! `rescue` makes an interrupted session a snapshot.

use std::{sync::Arc, time::Duration};

use fuse::{
    adapter::{Adapter, Options},
    mount::{
        Commit, CommitRequest, CommitTarget, Kernel, Moment, Mount, ProfileAccess, Settled, Start,
        info::{Info, Mode},
        is_possible,
    },
};
use store::{
    ErrorKind,
    catalog::{
        lock::Terms,
        pointer::{Fate, Flip},
        session_root::Owner,
    },
    format::event::Actor,
    name::ProfileName,
    ops::read::open::{Locked, locked},
    progress::Silent,
};
use tokio::runtime::Handle;

use super::{
    assembly::{blocking, give_back, opening, root, settle_roots},
    destination,
    publication::{self, Published},
    resume::{at, below, fate, gone_past, in_doubt},
    sessions::Candidate,
    wip,
};
use crate::{
    Engine,
    captures::{CaptureOptions, about_rescued},
    engine::threads,
    failure::Failure,
    host::mountpoint::Mountpoint,
    location::Purpose,
};

const THREADS: usize = 2;

/// Makes what an unfinished session holds a snapshot.
#[derive(Clone, Debug)]
pub struct RescueRequest {
    /// The first digits of the session's id.
    pub session: String,
    /// The profile that it becomes a snapshot of; its own, if nobody has moved the pointer, if it is not said.
    pub other: Option<ProfileName>,
    /// Replace the current snapshot of its own profile, though the session builds on another.
    pub force: bool,
    /// How it is captured.
    pub capture: CaptureOptions,
}

/// Stores what the session holds as a snapshot of its own profile, if nobody has moved its
/// pointer, or of another. Its databases are looked at as those of any commit are.
pub(crate) async fn rescue(
    engine: &Engine,
    candidate: Candidate,
    args: &RescueRequest,
) -> Result<Published, Failure> {
    let actor = engine.actor(&args.capture.actor);
    let point = match is_possible() {
        Ok(()) => {
            Mountpoint::sweep_mounts();
            Some(Mountpoint::make()?)
        }
        Err(error) => {
            engine.warn(&format!("the databases are not checked: {error}"));
            None
        }
    };
    let rescued = on(engine, candidate, args, actor, point.as_ref()).await;
    if let Some(point) = point {
        point.remove(engine);
    }
    rescued
}

async fn on(
    engine: &Engine,
    candidate: Candidate,
    args: &RescueRequest,
    actor: Actor,
    point: Option<&Mountpoint>,
) -> Result<Published, Failure> {
    let fallback = candidate.info.fallback.clone();
    let aim = Aim::of(&candidate, args);
    let (mount, replaced) = open(engine, candidate, &aim, actor.clone(), point).await?;
    let mount = Arc::new(mount);
    let kernel = match point {
        Some(point) => shown(engine, &mount, point).await,
        None => None,
    };
    let published = match kernel {
        Some(mut kernel) => {
            let published = publication::rescued(engine, &mount, &args.capture, aim.replaces()).await;
            // Whatever becomes of that: what was stored is.
            if let Err(failure) = blocking(move || Ok(kernel.unmount(true)?)).await {
                engine.warn(&format!("the session could not be unmounted: {}", failure.message));
            }
            published
        }
        None => unexamined(engine, &mount, args, &actor, fallback, aim.replaces()).await,
    };
    let published = published.map(|published| Published {
        replaced: replaced.filter(|_| published.report.flip != Flip::Unchanged),
        ..published
    });
    match &published {
        // Stored where somebody has to decide about it: until then the session stays as well.
        Ok(published) if published.report.held_back.is_some() => mount.let_go().await,
        Ok(published) => {
            if published.lineage == mount.lineage {
                wip::end_of_session(&mount).await;
            }
            if let Err(error) = mount.end().await {
                engine.warn(&format!("the session is stored, but could not be removed: {error}"));
            }
        }
        Err(_) => mount.let_go().await,
    }
    published
}

/// Which profile a session is to become a snapshot of.
enum Aim {
    /// Its own, if nobody has moved its pointer.
    Own,
    /// Its own, whatever is current.
    OwnByForce,
    Other(ProfileName),
}

impl Aim {
    fn of(candidate: &Candidate, args: &RescueRequest) -> Self {
        let own = candidate.info.lineage().map(|lineage| lineage.name);
        match &args.other {
            None => Self::Own,
            Some(name) if own.as_ref() == Some(name) => {
                if args.force {
                    Self::OwnByForce
                } else {
                    Self::Own
                }
            }
            Some(name) => Self::Other(name.clone()),
        }
    }

    /// Whether what the session began with is replaced.
    fn replaces(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// Mounts it for as long as it takes to look at it and to store it, if that can be done.
async fn shown(engine: &Engine, mount: &Arc<Mount>, point: &Mountpoint) -> Option<Kernel> {
    let options = Options {
        mountpoint: point.path().to_owned(),
        name: format!("pstore:{}", mount.lineage.name),
        read_only: false,
        allow_other: false,
        threads: THREADS,
        near: mount.is_near(),
        writeback: false,
    };
    let adapter = Adapter::new(Arc::clone(&mount.fs), Handle::current());
    match blocking(move || Ok(Kernel::mount(adapter, &options)?)).await {
        Ok(kernel) => Some(kernel),
        Err(failure) => {
            engine.warn(&format!("the databases are not checked: {}", failure.message));
            None
        }
    }
}

/// Stores it where nothing can be mounted that databases could be read through.
async fn unexamined(
    engine: &Engine,
    mount: &Arc<Mount>,
    args: &RescueRequest,
    actor: &Actor,
    fallback: Option<String>,
    replaces: bool,
) -> Result<Published, Failure> {
    let hold_back = args.capture.fallback_hold_back(fallback.as_deref()).filter(|_| replaces);
    let request = CommitRequest {
        to: CommitTarget::Own,
        about: about_rescued(engine, &args.capture, actor, fallback)?,
        hold_back,
        examiner: None,
        threads: threads(),
        max_bytes: None,
        quota_bytes: engine.settings.tenant(&mount.lineage.name.tenant).quota_bytes,
        archive: Some(engine.publish_policy(&mount.lineage.name.tenant)),
        moment: Moment::Quiet { patience: Duration::ZERO },
    };
    let Commit { report, frozen_for, left, .. } = mount.commit(request, Arc::new(Silent)).await?;
    let (lineage, remarks) = (mount.lineage.clone(), Vec::new());
    Ok(Published { lineage, report, remarks, replaced: None, frozen_for, left })
}

/// An unfinished session under the lock of the profile its changes are to go to: its own, if
/// nobody has moved its pointer, or another. With the current snapshot in words, if that is one
/// the session does not build on.
async fn open(
    engine: &Engine,
    candidate: Candidate,
    aim: &Aim,
    actor: Actor,
    mountpoint: Option<&Mountpoint>,
) -> Result<(Mount, Option<String>), Failure> {
    let own = candidate.info.lineage().ok_or_else(|| {
        Failure::new(
            ErrorKind::Damaged,
            format!("session {} does not say whose it is", candidate.session.id()),
        )
    })?;
    let name = match aim {
        Aim::Other(name) => name,
        Aim::Own | Aim::OwnByForce => &own.name,
    };
    let settings = engine.settings.tenant(&name.tenant);
    let store = engine.store(Purpose::Write).await?;
    let terms = Terms { ttl: settings.lock_ttl, with_process: true };
    let host = actor.host.clone();
    let owner = candidate.session.id().parse().ok().map(|session| Owner { session, host });
    let found =
        locked(&store, name, Some(own.chrome_major), actor, terms, Duration::ZERO.into(), owner).await?;
    let Locked { store: tenant, lineage, hold, opened, roots, .. } = found;
    let hold = Arc::new(hold);
    let built_on = candidate.unfinished.below().map(|below| below.record);
    let started = async {
        let snapshot = match (aim, candidate.unfinished.below()) {
            (Aim::Own, _) => match fate(&candidate, &hold).await {
                // The pointer was where this would move it, and somebody wants it elsewhere.
                Some(Fate::Passed) => return Err(gone_past(&lineage, &candidate.session.id())),
                fate => below(&tenant, &lineage, &candidate, fate, opened?).await?,
            },
            (_, None) => None,
            (_, Some(below)) => Some(at(&tenant, below).await?),
        };
        let Candidate { session, info, unfinished } = candidate;
        let keeper = hold.keep(settings.lock_renew.max(Duration::from_millis(1)));
        let access = ProfileAccess::Held { hold: Arc::clone(&hold), keeper };
        let mountpoint = mountpoint.map_or(info.mountpoint, |point| point.path().to_owned());
        let info = Info { mode: Mode::Locked, pid: std::process::id(), mountpoint, ..info };
        root(roots.as_deref(), snapshot.as_ref()).await?;
        let opening = opening(tenant, lineage, access, roots.clone(), snapshot, info, engine.limits());
        let mount = blocking(move || {
            Ok(Mount::start(opening, Start::Rescue { session, unfinished: Box::new(unfinished) })?)
        })
        .await?;
        if matches!(aim, Aim::Own)
            && let Settled::Unknown { record, sha256_prefix } =
                mount.settle(&engine.publish_policy(&name.tenant)).await?
        {
            return Err(in_doubt(&mount, record, sha256_prefix));
        }
        settle_roots(&mount, roots.as_deref()).await;
        let replaced = match aim {
            Aim::OwnByForce => destination::passed_by(&mount, &hold).await,
            Aim::Own | Aim::Other(_) => None,
        };
        Ok((mount, replaced))
    }
    .await;
    if started.is_err() {
        give_back(&hold, roots.as_deref(), built_on).await;
    }
    started
}
