//! Checks the rules that a store must keep even with a single writer.

use super::scratch::{ATTEMPTS, Outcome, Scratch, pause};
use crate::bucket::{BucketError, Checksum, Deleted, Result, Write};

/// The rules the store breaks, in words. Each is tried on keys of its own, beside the others.
pub(super) async fn broken(scratch: &Scratch) -> Result<Vec<String>> {
    let (create, replace, range, listing) =
        futures::try_join!(create(scratch), replace(scratch), range(scratch), listing(scratch))?;
    Ok([create, replace, range, listing].into_iter().flatten().map(str::to_owned).collect())
}

async fn create(scratch: &Scratch) -> Result<Option<&'static str>> {
    let (key, first, second) = (scratch.key(), scratch.body(0), scratch.body(0));
    let Outcome::Applied(_) = scratch.put(&key, &first, Write::Create).await? else {
        return Ok(Some("it refuses to create a key that is absent"));
    };
    if let Outcome::Applied(_) = scratch.put(&key, &second, Write::Create).await? {
        return Ok(Some(
            "it overwrites an existing object although the write was to create one (If-None-Match is ignored)",
        ));
    }
    match scratch.get(&key).await? {
        Some((bytes, _)) if bytes == first => Ok(None),
        _ => Ok(Some("it does not return what was written")),
    }
}

async fn replace(scratch: &Scratch) -> Result<Option<&'static str>> {
    let key = scratch.key();
    let bodies = [scratch.body(0), scratch.body(0), scratch.body(0)];
    let Outcome::Applied(stale) = scratch.put(&key, &bodies[0], Write::Create).await? else {
        return Ok(Some("it refuses to create a key that is absent"));
    };
    match scratch.put(&key, &bodies[1], Write::Replace(stale.clone())).await {
        Ok(Outcome::Applied(_)) => {}
        Ok(Outcome::Refused) => return Ok(Some("it refuses to replace the version that it holds")),
        Err(error) if error.is_ambiguous() && scratch.get(&key).await?.is_some() => {
            return Ok(Some(
                "it never accepts the replacement of the version that it holds (If-Match fails)",
            ));
        }
        Err(error) => return Err(error),
    }
    let missing = scratch.key();
    let (other, absent) = futures::try_join!(
        scratch.put(&key, &bodies[2], Write::Replace(stale.clone())),
        scratch.put(&missing, &bodies[2], Write::Replace(stale.clone())),
    )?;
    if let Outcome::Applied(_) = other {
        return Ok(Some("it replaces a version other than the one that was named (If-Match is ignored)"));
    }
    if let Outcome::Applied(_) = absent {
        return Ok(Some("it replaces an object that does not exist (If-Match is ignored)"));
    }
    match scratch.get(&key).await? {
        Some((bytes, _)) if bytes == bodies[1] => Ok(None),
        _ => Ok(Some("it does not return what was written last")),
    }
}

async fn range(scratch: &Scratch) -> Result<Option<&'static str>> {
    let (key, body) = (scratch.key(), scratch.body(1000));
    scratch.put(&key, &body, Write::Create).await?;
    let (within, beyond) = futures::future::join(
        scratch.bucket().get_range(&key, 5..500),
        scratch.bucket().get_range(&key, 990..1010),
    )
    .await;
    if within? != body[5..500] {
        return Ok(Some("it returns other bytes than the range that was asked for"));
    }
    match beyond {
        Err(BucketError::Truncated { .. }) => Ok(None),
        Err(error) if error.is_retryable() => Err(error),
        _ => Ok(Some("it does not tell that an object ends before the range that was asked for")),
    }
}

async fn listing(scratch: &Scratch) -> Result<Option<&'static str>> {
    let (first, second, third) =
        futures::try_join!(listing_once(scratch), listing_once(scratch), listing_once(scratch))?;
    Ok(first.or(second).or(third))
}

async fn listing_once(scratch: &Scratch) -> Result<Option<&'static str>> {
    let key = scratch.key();
    scratch.put(&key, &scratch.body(0), Write::Create).await?;
    if !scratch.lists(&key).await? {
        return Ok(Some("a listing does not show an object that was just written"));
    }
    scratch.bucket().delete(&key).await?;
    if scratch.lists(&key).await? {
        return Ok(Some("a listing shows an object that was just deleted"));
    }
    Ok(None)
}

/// Only a server that spares another version, says so, and removes the right one.
pub(super) async fn honours_conditional_delete(scratch: &Scratch) -> Result<bool> {
    let key = scratch.key();
    let Outcome::Applied(stale) = scratch.put(&key, &scratch.body(0), Write::Create).await? else {
        return Ok(false);
    };
    let Outcome::Applied(current) =
        scratch.put(&key, &scratch.body(0), Write::Replace(stale.clone())).await?
    else {
        return Ok(false);
    };
    match scratch.bucket().delete_if(&key, &stale).await {
        Err(BucketError::VersionMismatch { .. }) if scratch.get(&key).await?.is_some() => {}
        _ => return Ok(false),
    }
    let deleted = scratch.bucket().delete_if(&key, &current).await;
    Ok(matches!(deleted, Ok(Deleted::Yes)) && scratch.get(&key).await?.is_none())
}

/// The cheapest checksum that the store checks.
pub(super) async fn checksum(scratch: &Scratch) -> Result<Checksum> {
    let asked = futures::future::try_join_all(Checksum::ALL.map(|checksum| checks(scratch, checksum)));
    let found = Checksum::ALL.into_iter().zip(asked.await?).find(|(_, is_checked)| *is_checked);
    Ok(found.map_or(Checksum::Unchecked, |(checksum, _)| checksum))
}

/// Whether a body that does not fit is refused, and one that fits is taken.
async fn checks(scratch: &Scratch, checksum: Checksum) -> Result<bool> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match scratch.bucket().checks(&scratch.key(), checksum).await {
            Err(error) if error.is_retryable() && attempt < ATTEMPTS => pause(attempt).await,
            answer => return answer,
        }
    }
}
