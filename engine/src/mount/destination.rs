//! `Destination` is where a commit goes: to the profile that is mounted, or to another.
//!
//! A mount goes back to its own profile under the lock, and only if the current snapshot is the
//! one that it stands on. Force replaces another one, which is named.

use std::{sync::Arc, time::Duration};

use fuse::mount::{CommitTarget, Mount, info::Mode};
use store::{
    ErrorKind,
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Hold, Terms},
        records,
    },
    format::{event::Actor, pointer::Target},
    name::{Lineage, ProfileName},
};

use crate::{Engine, failure::Failure, text::time};

/// The profile that a commit is to go to.
#[derive(Clone, Copy, Debug, Default)]
pub struct DestinationRequest<'a> {
    /// This one, instead of the one that is mounted.
    pub other: Option<&'a ProfileName>,
    /// Replace what is current, though the mount does not stand on it.
    pub force: bool,
}

pub(super) struct Destination {
    pub(super) to: CommitTarget,
    pub(super) lineage: Lineage,
    /// A text about the replaced snapshot, which is not the base of the mount.
    pub(super) replaced: Option<String>,
}

impl Destination {
    pub(super) async fn choose(
        engine: &Engine,
        mount: &Mount,
        actor: &Actor,
        asked: DestinationRequest<'_>,
    ) -> Result<Self, Failure> {
        // One that began without the store has no lock. It takes it now, and its commit is held back.
        let began_alone = mount.info.mode == Mode::Locked && mount.hold().is_none();
        let own = Some(&mount.lineage.name).filter(|_| began_alone);
        let Some(name) = asked.other.or(own) else {
            return Ok(Self { to: CommitTarget::Own, lineage: mount.lineage.clone(), replaced: None });
        };
        if name.tenant != mount.lineage.name.tenant {
            let message =
                format!("{name} is another tenant's; a mount can be committed within its own alone");
            return Err(Failure::usage(message));
        }
        let is_own = *name == mount.lineage.name;
        if is_own && has_the_right(mount, asked.force).await? {
            return Ok(Self { to: CommitTarget::Own, lineage: mount.lineage.clone(), replaced: None });
        }
        let lineage = Lineage { name: name.clone(), chrome_major: mount.lineage.chrome_major };
        let handle = LineageHandle::new(mount.tenant()?.clone(), lineage.clone(), actor.clone());
        let ttl = engine.settings.tenant(&name.tenant).lock_ttl;
        let hold = handle.acquire(Terms { ttl, with_process: true }, Duration::ZERO).await?;
        let replaced = match is_own {
            true => match passed_by(mount, &hold).await {
                // One that began alone is held back instead, unless it is to replace what there is.
                Some(_) if !asked.force && !began_alone => {
                    give_back(&hold).await;
                    return Err(refused(mount));
                }
                passed_by => passed_by,
            },
            false => None,
        };
        Ok(Self {
            to: CommitTarget::Other { lineage: lineage.clone(), hold: Arc::new(hold) },
            lineage,
            replaced,
        })
    }

    pub(super) async fn leave(&self) {
        if let CommitTarget::Other { hold, .. } = &self.to {
            give_back(hold).await;
        }
    }
}

/// Whether the mount has its profile's lock, and the pointer is where it left it. If the pointer
/// is not, `force` gives the lock back, so that it can be taken anew.
async fn has_the_right(mount: &Mount, force: bool) -> Result<bool, Failure> {
    let Some(hold) = mount.hold() else { return Ok(false) };
    match hold.renew().await {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::LockLost | ErrorKind::PointerMoved) => {
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    }
    if hold.may_flip().await? {
        return Ok(true);
    }
    if !force {
        return Err(refused(mount));
    }
    if let Some(keeper) = mount.keeper() {
        keeper.stop();
    }
    hold.release().await?;
    Ok(false)
}

/// The current snapshot in words, if the mount does not stand on it.
pub(super) async fn passed_by(mount: &Mount, hold: &Hold) -> Option<String> {
    let pointer = hold.pointer().await;
    let current = match pointer.target() {
        Target::Nothing => None,
        Target::Record(record) => Some(record),
        Target::Foreign(_) => {
            return Some(format!("{}, an archive of another program", pointer.active_sha256_prefix));
        }
    };
    if mount.stands_on(current).await {
        return None;
    }
    let Some(record) = current else {
        return Some("nothing: all snapshots of the profile are gone".to_owned());
    };
    let tenant = mount.tenant().ok()?;
    Some(match records::get(tenant, &mount.lineage, record).await {
        Ok((record, _)) => format!(
            "{}, captured {} UTC by {}",
            record.sha256_prefix(),
            time::utc(record.captured_at_ms),
            if record.captured_by.host.is_empty() { "an unnamed host" } else { &record.captured_by.host },
        ),
        Err(_) => pointer.active_sha256_prefix.clone(),
    })
}

fn refused(mount: &Mount) -> Failure {
    let (name, mountpoint) = (&mount.lineage.name, mount.info.mountpoint.display());
    let message = format!("{name} has another current snapshot than the one that is mounted on {mountpoint}");
    Failure::new(ErrorKind::PointerMoved, message)
}

async fn give_back(hold: &Hold) {
    if let Err(error) = hold.release().await {
        tracing::warn!(%error, "the lock could not be given back; it expires by itself");
    }
}
