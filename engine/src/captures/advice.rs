//! `advice` says what can be done about a capture that was refused or held back.

use store::{
    Error, ErrorKind,
    content::TenantStore,
    id::RecordId,
    name::Lineage,
    ops::{gc::quota, write::snapshot::Report},
};

use crate::{failure::Failure, text::size};

/// How many snapshots are named whose deletion would help.
const WAYS: usize = 3;

/// The failure of a capture that is too large for its tenant, with the commands that free space.
pub async fn over_quota(tenant: &TenantStore, error: Error) -> Failure {
    let failure = Failure::from(error);
    if failure.kind != ErrorKind::QuotaExceeded {
        return failure;
    }
    let Ok(advice) = quota::advice(tenant).await else { return failure };
    let mut ways = Vec::new();
    if advice.collectable_bytes > 0 {
        let bytes = size::bytes(advice.collectable_bytes);
        ways.push(format!("`pstore gc {}` frees {bytes}", tenant.tenant));
    }
    for (lineage, sha, bytes) in advice.snapshots.iter().take(WAYS).filter(|(.., bytes)| *bytes > 0) {
        let Lineage { name, chrome_major } = lineage;
        ways.push(format!(
            "`pstore delete {name} --chrome-major {chrome_major} --sha {sha}` and then gc {}",
            size::bytes(*bytes)
        ));
    }
    match ways.is_empty() {
        true => failure.hint("nothing can be freed: every snapshot is current or tagged"),
        false => failure.hint(ways.join("; ")),
    }
}

/// The command that moves the pointer to a snapshot that is stored already.
pub fn rollback_to(lineage: &Lineage, record: RecordId) -> String {
    let Lineage { name, chrome_major } = lineage;
    format!(
        "`pstore rollback {name} --chrome-major {chrome_major} --sha {record} --confirm` moves the pointer to it"
    )
}

/// The verdict on a snapshot that was stored and held back.
pub(super) fn held_back(lineage: &Lineage, report: &Report) -> Option<Failure> {
    let held = report.held_back.as_ref()?;
    let message = format!(
        "snapshot {} is stored, but is not made the current one: {}",
        report.sha256_prefix, held.reason
    );
    Some(Failure::new(ErrorKind::HeldBack, message).hint(rollback_to(lineage, report.record)))
}

/// Warnings about a snapshot, though it was stored.
pub fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = of_the_write(report);
    warnings.extend(of_the_profile(report));
    warnings
}

fn of_the_write(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let skipped = &report.skipped;
    if skipped.total() > 0 {
        let kinds = [
            (skipped.sockets, "socket", "sockets"),
            (skipped.fifos, "FIFO", "FIFOs"),
            (skipped.devices, "device", "devices"),
        ];
        let kinds: Vec<String> =
            kinds.iter().filter(|kind| kind.0 > 0).map(|kind| size::plural(kind.0, kind.1, kind.2)).collect();
        warnings.push(format!("{} left out: only files, directories and links are stored", kinds.join(", ")));
    }
    if report.index.left_out > 0 {
        warnings.push(format!(
            "{} not looked at; some content may be stored twice",
            size::plural(report.index.left_out, "older index was", "older indexes were")
        ));
    }
    warnings
}

fn of_the_profile(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(health) = &report.health else { return warnings };
    for found in &health.damaged {
        warnings.push(format!("the database {} is damaged: {}", found.path, found.problem));
    }
    for found in &health.unchecked {
        warnings.push(format!("the database {} was not checked: {}", found.path, found.problem));
    }
    if let Some(cookies) = health.cookies.as_ref().filter(|cookies| cookies.v11 > 0) {
        warnings.push(format!(
            "{} of {} cookies are encrypted with a key of this host (v11) and will not decrypt elsewhere; \
             run Chrome with --password-store=basic",
            cookies.v11, cookies.rows
        ));
    }
    if health.cookies.as_ref().is_some_and(|cookies| cookies.rows > 0) && !health.local_state {
        warnings.push("there is no `Local State`: what is encrypted cannot be read without it".to_owned());
    }
    if health.ended == "killed" {
        warnings.push(
            "the browser did not end by itself and was killed: what it had not written is lost".to_owned(),
        );
    }
    warnings
}
