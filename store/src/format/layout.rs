//! `layout` makes the key of every object.
//!
//! Everything of a tenant lies below two prefixes, so that two rules on prefixes, each
//! ending in a slash, give a credential one tenant and nothing else.

use crate::{
    id::{EventId, JobId, PackId, RecordId, ReportId, Sha256},
    key::{InvalidKey, Key, Prefix},
    name::{Lineage, ProfileName, Tenant},
};

const VALID: &str = "names and ids are valid key segments";

/// The store's own configuration.
pub fn store_config() -> Key {
    Key::new("pstore.json").expect(VALID)
}

/// The jobs that servers were asked to do for the store as a whole.
pub fn jobs() -> Prefix {
    Prefix::new("operations/jobs/").expect(VALID)
}

/// One job.
pub fn job(id: JobId) -> Key {
    jobs().key(&format!("{id}.json")).expect(VALID)
}

/// The job a key names, if it names one.
pub(crate) fn job_of(key: &Key) -> Option<JobId> {
    key.name().strip_suffix(".json")?.parse().ok()
}

/// When work was last done that is due again and again.
pub fn schedule(name: &str) -> Result<Key, InvalidKey> {
    Key::new(format!("operations/schedules/{name}.json"))
}

/// The reports of programs' counts, one object each, until a server has folded them into the totals.
pub fn metrics_reports() -> Prefix {
    Prefix::new("operations/metrics/reports/").expect(VALID)
}

/// One report of a program's counts.
pub fn metrics_report(id: ReportId) -> Key {
    metrics_reports().key(&format!("{id}.json")).expect(VALID)
}

/// The report a key names, if it names one.
pub(crate) fn metrics_report_of(key: &Key) -> Option<ReportId> {
    key.name().strip_suffix(".json")?.parse().ok()
}

/// The total counts of all programs.
pub fn metrics_totals() -> Key {
    Key::new("operations/metrics/totals.json").expect(VALID)
}

/// The events of the store as a whole.
pub fn store_events() -> Prefix {
    Prefix::new("operations/events/").expect(VALID)
}

/// The events of servers that changed something of a tenant.
pub fn tenant_events(tenant: &Tenant) -> Prefix {
    content(tenant).join("events/").expect(VALID)
}

/// One event of a tenant, or of the store.
pub(crate) fn event_of_all(tenant: Option<&Tenant>, id: EventId) -> Key {
    let folder = tenant.map_or_else(store_events, tenant_events);
    folder.key(&format!("{id}.json")).expect(VALID)
}

/// All tenants that have content.
pub fn tenants() -> Prefix {
    Prefix::new("content/").expect(VALID)
}

/// The prefix of a tenant's content: packs, indexes, pins and the documents of collectors.
pub fn content(tenant: &Tenant) -> Prefix {
    Prefix::new(format!("content/{tenant}/")).expect(VALID)
}

/// The profiles of a tenant with their records are below this.
pub fn snapshots(tenant: &Tenant) -> Prefix {
    Prefix::new(format!("snapshots/{tenant}/")).expect(VALID)
}

/// `tenant.json`.
pub fn tenant_config(tenant: &Tenant) -> Key {
    content(tenant).key("tenant.json").expect(VALID)
}

/// The packs of a tenant are below this.
pub fn packs(tenant: &Tenant) -> Prefix {
    content(tenant).join("packs/").expect(VALID)
}

/// One pack.
pub fn pack(tenant: &Tenant, pack: PackId) -> Key {
    packs(tenant).key(&pack.to_string()).expect(VALID)
}

/// The indexes of a tenant are below this.
pub fn indexes(tenant: &Tenant) -> Prefix {
    content(tenant).join("index/").expect(VALID)
}

/// The index of one write.
pub fn index(tenant: &Tenant, write: RecordId) -> Key {
    indexes(tenant).key(&write.to_string()).expect(VALID)
}

/// The documents of packs that collections have condemned.
pub fn condemned(tenant: &Tenant) -> Prefix {
    content(tenant).join("condemned/").expect(VALID)
}

/// The document of the packs that the collection `id` has condemned.
pub fn condemned_by(tenant: &Tenant, id: RecordId) -> Key {
    condemned(tenant).key(&id.to_string()).expect(VALID)
}

/// The pins by which readers keep packs from being collected.
pub fn pins(tenant: &Tenant) -> Prefix {
    content(tenant).join("pins/").expect(VALID)
}

/// One pin of a reader.
pub fn pin(tenant: &Tenant, id: RecordId) -> Key {
    pins(tenant).key(&id.to_string()).expect(VALID)
}

/// The roots of one session.
pub(crate) fn session_roots(tenant: &Tenant, session: RecordId) -> Prefix {
    pins(tenant).join(&format!("{session}/")).expect(VALID)
}

/// One root of a session.
pub fn session_root(tenant: &Tenant, session: RecordId, id: RecordId) -> Key {
    session_roots(tenant, session).key(&id.to_string()).expect(VALID)
}

/// All lineages of a profile.
pub fn profile(name: &ProfileName) -> Prefix {
    Prefix::new(format!("snapshots/{name}/")).expect(VALID)
}

/// The expectations of a profile, for every Chrome that it was captured with.
pub fn expectations(name: &ProfileName) -> Key {
    profile(name).key("expectations.json").expect(VALID)
}

const TOMBSTONE: &str = "deleted.json";

/// The tombstone of a profile that was deleted.
pub fn tombstone(of: &ProfileName) -> Key {
    profile(of).key(TOMBSTONE).expect(VALID)
}

/// The profile whose tombstone a key names, if it names one.
pub(crate) fn tombstone_of(tenant: &Tenant, key: &Key) -> Option<ProfileName> {
    let (profile, name) = key.as_str().strip_prefix(snapshots(tenant).as_str())?.split_once('/')?;
    let profile = profile.parse().ok()?;
    (name == TOMBSTONE).then(|| ProfileName { tenant: tenant.clone(), profile })
}

/// Everything of one lineage is below this.
pub fn lineage(lineage: &Lineage) -> Prefix {
    profile(&lineage.name).join(&format!("{}/", lineage.chrome_major)).expect(VALID)
}

/// The pointer of a lineage.
pub fn latest(of: &Lineage) -> Key {
    lineage(of).key("latest.json").expect(VALID)
}

/// The lock of a lineage.
pub fn lock(of: &Lineage) -> Key {
    lineage(of).key("lock.json").expect(VALID)
}

/// The document that names the work in progress of a lineage.
pub fn work_in_progress(of: &Lineage) -> Key {
    lineage(of).key("wip.json").expect(VALID)
}

/// One record.
pub fn record(of: &Lineage, id: RecordId) -> Key {
    lineage(of).key(&format!("snap-{id}.json")).expect(VALID)
}

/// The record a key names, if it names one.
pub fn record_of(key: &Key) -> Option<RecordId> {
    key.name().strip_prefix("snap-")?.strip_suffix(".json")?.parse().ok()
}

/// The lineage whose object a key of the catalog is, if its name is one.
pub(crate) fn lineage_of(tenant: &Tenant, key: &Key) -> Option<Lineage> {
    let below = key.as_str().strip_prefix(snapshots(tenant).as_str())?;
    let mut parts = below.split('/');
    let profile = parts.next()?.parse().ok()?;
    let chrome_major = parts.next()?.parse().ok()?;
    (parts.count() == 1)
        .then(|| Lineage { name: ProfileName { tenant: tenant.clone(), profile }, chrome_major })
}

/// Scratch of the probe that tests the server.
pub fn probe(tenant: &Tenant) -> Prefix {
    content(tenant).join("probe/").expect(VALID)
}

const MERGED: &str = "merged-";

/// The events of a lineage: one object for each event, and merged ones.
pub fn events(of: &Lineage) -> Prefix {
    lineage(of).join("events/").expect(VALID)
}

/// One event that was not merged yet.
pub fn event(of: &Lineage, id: EventId) -> Key {
    events(of).key(&format!("{id}.json")).expect(VALID)
}

/// The event a key names, if it names one.
pub fn event_of(key: &Key) -> Option<EventId> {
    key.name().strip_suffix(".json")?.parse().ok()
}

/// Events of a lineage that were put together.
pub fn merged_events(of: &Lineage, id: EventId) -> Key {
    events(of).key(&format!("{MERGED}{id}.json")).expect(VALID)
}

/// The document of merged events a key names, if it names one.
pub(crate) fn merged_events_of(key: &Key) -> Option<EventId> {
    key.name().strip_prefix(MERGED)?.strip_suffix(".json")?.parse().ok()
}

/// The lineage whose event, or events, a key names.
pub(crate) fn lineage_of_event(tenant: &Tenant, key: &Key) -> Option<Lineage> {
    let name = key.name();
    let beside = key.as_str().strip_suffix(name)?.strip_suffix("events/")?;
    lineage_of(tenant, &Key::new(format!("{beside}{name}")).ok()?)
}

/// The archive of a snapshot whose short name is `prefix`, as the pointer names it.
pub fn archive(of: &Lineage, prefix: &str) -> String {
    format!("{}{}", lineage(of), archive_name(prefix))
}

/// The key of a manifest, by the short name of its archive, as the pointer spells it.
pub fn manifest(of: &Lineage, prefix: &str) -> String {
    format!("{}{}", lineage(of), manifest_name(prefix))
}

/// The name of an archive, in a bucket or in a directory.
pub fn archive_name(prefix: &str) -> String {
    format!("profile-{prefix}{ARCHIVE}")
}

/// The name of the manifest of the archive with this short name.
pub fn manifest_name(prefix: &str) -> String {
    format!("profile-{prefix}{MANIFEST}")
}

const ARCHIVE: &str = ".tar.zst";
const MANIFEST: &str = ".manifest.json";

/// Where the archive with this digest lies.
pub fn archive_key(of: &Lineage, sha256: &Sha256) -> Key {
    lineage(of).key(&archive_name(&sha256.prefix())).expect(VALID)
}

/// The manifest of an archive.
pub fn manifest_key(of: &Lineage, sha256: &Sha256) -> Key {
    lineage(of).key(&manifest_name(&sha256.prefix())).expect(VALID)
}

/// The short name of the archive that a key names, if it names one.
pub(crate) fn archive_of(key: &Key) -> Option<&str> {
    short_name(key, ARCHIVE)
}

/// The short name of the archive whose manifest a key names, if it names one.
pub(crate) fn manifest_of(key: &Key) -> Option<&str> {
    short_name(key, MANIFEST)
}

fn short_name<'a>(key: &'a Key, suffix: &str) -> Option<&'a str> {
    let digits = key.name().strip_prefix("profile-")?.strip_suffix(suffix)?;
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == 12 && digits.bytes().all(is_digit)).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_and_manifests_are_known_by_their_names() {
        let lineage = Lineage { name: "acme/alice".parse().unwrap(), chrome_major: "131".parse().unwrap() };
        let sha = Sha256::from_bytes([0x1a; 32]);
        let (archive, manifest) = (archive_key(&lineage, &sha), manifest_key(&lineage, &sha));
        assert_eq!(archive.as_str(), "snapshots/acme/alice/131/profile-1a1a1a1a1a1a.tar.zst");
        assert_eq!(archive.as_str(), super::archive(&lineage, &sha.prefix()));
        assert_eq!(manifest.as_str(), super::manifest(&lineage, &sha.prefix()));
        assert_eq!((archive_of(&archive), manifest_of(&archive)), (Some("1a1a1a1a1a1a"), None));
        assert_eq!((archive_of(&manifest), manifest_of(&manifest)), (None, Some("1a1a1a1a1a1a")));
        for other in
            ["profile-1A1a1a1a1a1a.tar.zst", "profile-1a1a.tar.zst", "latest.json", "1a1a1a1a1a1a.tar.zst"]
        {
            assert_eq!(archive_of(&super::lineage(&lineage).key(other).unwrap()), None, "{other}");
        }
    }
}
