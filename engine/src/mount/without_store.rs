//! `without_store` mounts an empty profile without the store, which could not be reached.
//!
//! Nobody holds a lock meanwhile. A commit needs the store and takes the lock, and replaces nothing by itself, since
//! the session had started with an empty profile.

use capture::{chrome::startup, load::Outcome};
use fuse::mount::{Mount, Opening, ProfileAccess, info::Mode};
use store::{ErrorKind, name::Lineage};

use super::{
    assembly::{blocking, exclusions, info, new_id, new_session},
    autosave::Autosave,
    choice::Notes,
    opening::Begun,
    request::MountRequest,
    search::Search,
};
use crate::{Engine, failure::Failure, loads::NO_MAJOR};

/// Whether a mount that could not begin for this reason begins without the store.
pub(super) fn is_wanted(engine: &Engine, args: &MountRequest, failure: &Failure) -> bool {
    let takes_the_lock = args.mode == Mode::Locked && !args.resume && !args.from_wip;
    takes_the_lock && engine.begins_without_store(&args.load, &args.source.profile.tenant, failure)
}

pub(super) async fn open(engine: &Engine, args: &MountRequest, failure: Failure) -> Result<Begun, Failure> {
    let Some(chrome_major) = args.chrome_major.or_else(|| args.load.major_of_version()) else {
        return Err(failure.hint(NO_MAJOR));
    };
    let (seen, mounted_on) = Search::new(engine, args).look_around().await?;
    if let Some(mountpoint) = mounted_on {
        let message = format!("{} is mounted on {} already", args.source.profile, mountpoint.display());
        return Err(Failure::new(ErrorKind::InUse, message).hint(format!(
            "`pstore unmount {}` ends it; an empty profile beside it would be a second one to settle",
            mountpoint.display()
        )));
    }
    if let Some(seen) = seen {
        let id = seen.id;
        return Err(failure.hint(format!(
            "session {id} has changes to {} that are not committed, and needs the store to be continued; \
             `--ignore-session {id}` starts with an empty profile beside it",
            args.source.profile
        )));
    }
    let lineage = Lineage { name: args.source.profile.clone(), chrome_major };
    let mut notes = Notes::new();
    (notes.outcome, notes.reason) = (Outcome::FreshFallback, Some(failure.message));
    notes.warnings.push(format!(
        "nobody holds the lock of {} meanwhile: a commit takes it, and is held back",
        lineage.name
    ));
    let run_id = engine.actor(&args.actor).run_id;
    let opening = Opening {
        tenant: None,
        info: info(engine, args, &lineage, Mode::Locked, None, notes.fallback(), run_id),
        exclusions: exclusions(&lineage),
        lineage,
        access: ProfileAccess::None,
        roots: None,
        snapshot: None,
        runtime: tokio::runtime::Handle::current(),
        limits: engine.limits(),
        guess: Some(startup::guess),
    };
    let start = new_session(engine, new_id())?;
    let mount = blocking(move || Ok(Mount::start(opening, start)?)).await?;
    Ok(Begun { mount, notes, autosave: Autosave::default() })
}
