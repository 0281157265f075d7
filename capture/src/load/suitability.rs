//! `suitability` decides by its record whether a snapshot may be loaded here.

use std::cmp::Ordering;

use store::{
    Error, Result,
    format::record::{Mode, Record},
    ops::read::restore::Report,
};

use super::LoadRequest;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub(super) fn check(record: &Record, request: &LoadRequest) -> Result<()> {
    if record.mode == Mode::Hot && !request.policy.allow_hot {
        return Err(Error::NotImplemented {
            what: format!("snapshot {} was taken from a running browser; loading it", record.sha256_prefix()),
            page: "docs/hot-mode.md".to_owned(),
        });
    }
    if let (Some(ours), Some(theirs)) = (&request.chrome_version, &record.chrome_last_version)
        && compare(theirs, ours) == Ordering::Greater
    {
        let reason = format!(
            "snapshot {} was last used by Chrome {theirs}; the older Chrome {ours} would silently drop what it does not know",
            record.sha256_prefix()
        );
        return Err(Error::VersionMismatch { reason });
    }
    if record.uncompressed_size_bytes > request.policy.max_bytes {
        return Err(Error::ProfileTooLarge {
            path: format!("snapshot {} of {}", record.sha256_prefix(), request.profile).into(),
            bytes: record.uncompressed_size_bytes,
            limit: request.policy.max_bytes,
            largest: Vec::new(),
        });
    }
    Ok(())
}

/// Whether its databases were whole when it was captured. That holds for a mount: every byte is
/// verified when it is read.
pub fn whole(record: &Record) -> Result<()> {
    let found = record.health.as_ref().and_then(|health| health.damaged.first());
    found.map_or(Ok(()), |found| {
        Err(Error::IntegrityFailed {
            what: format!("the database {}", found.path),
            problem: found.problem.clone(),
        })
    })
}

/// The warning about a snapshot that has lost chunks. Its other chunks can be read.
pub fn damaged(record: &Record) -> Option<String> {
    let lost = record.damage.as_ref()?;
    let (tenant, profile, chrome) = (&record.tenant_id, &record.profile_id, record.chrome_major_version);
    Some(format!(
        "snapshot {} is damaged: {} of its {} files cannot be read; \
         `pstore verify {tenant}/{profile} --chrome-major {chrome}` names them",
        record.sha256_prefix(),
        lost.files,
        record.counts.files
    ))
}

/// The warning about a snapshot without its attributes that lend rights.
pub fn made_plain(report: &Report) -> Option<String> {
    let what = match report.made_plain {
        0 => return None,
        1 => "one file or directory".to_owned(),
        count => format!("{count} files or directories"),
    };
    Some(format!(
        "set-user-id and set-group-id bits and attributes other than user.* of {what} were left out; \
         `pstore restore --preserve-special` keeps them"
    ))
}

/// Warnings for a person that forbid nothing.
pub(super) fn warnings(record: &Record, request: &LoadRequest) -> Vec<String> {
    let mut warnings: Vec<String> = damaged(record).into_iter().collect();
    if record.notes.contains(crate::CRASHED) {
        warnings.push("the browser had crashed before this snapshot was taken".to_owned());
    }
    let age = request.now_ms.saturating_sub(record.captured_at_ms);
    if let (Some(here), Some(place)) = (&request.host_region, &record.captured_in)
        && !place.host_region.is_empty()
        && *here != place.host_region
        && age < DAY_MS
    {
        warnings.push(format!(
            "it was captured in {} less than a day ago and is loaded in {here}: sites may ask again who this is",
            place.host_region
        ));
    }
    warnings
}

/// Compares versions number by number.
fn compare(a: &str, b: &str) -> Ordering {
    let numbers =
        |text: &str| -> Vec<u64> { text.split('.').map(|part| part.parse().unwrap_or(0)).collect() };
    numbers(a).cmp(&numbers(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(compare("131.0.6778.85", "131.0.6778.100"), Ordering::Less);
        assert_eq!(compare("131.0.6778.85", "131.0.6778.85"), Ordering::Equal);
        assert_eq!(compare("132.0", "131.9.9.9"), Ordering::Greater);
    }
}
