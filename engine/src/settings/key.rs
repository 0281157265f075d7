//! `Key` names everything that can be set: its name in the file, its variables, its flag.

use store::format::record::Reason;

use super::kind::Kind;

/// Something that can be set.
#[derive(Debug)]
pub struct Key {
    /// With dots between tables: those of a tenant below `[defaults]` or `[tenants.NAME]`.
    pub name: &'static str,
    pub(super) kind: Kind,
    pub(super) variable: Option<&'static str>,
    /// Variables of other programs that count where nothing else says anything.
    pub(super) fallbacks: &'static [&'static str],
    pub(super) flag: Option<&'static str>,
    /// As it would be typed.
    pub(super) default: Option<&'static str>,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, variable: None, fallbacks: &[], flag: None, default: None }
}

impl Key {
    const fn variable(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }

    const fn fallbacks(self, fallbacks: &'static [&'static str]) -> Self {
        Self { fallbacks, ..self }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

const fn number(of: &'static str, from: u64, to: u64) -> Kind {
    Kind::Number { of, from, to }
}

pub static STORE: Key = key("store", Kind::StoreUrl).variable("PSTORE_STORE").flag("--store");
pub static CACHE_DIR: Key =
    key("cache_dir", Kind::Directory).variable("PSTORE_CACHE_DIR").flag("--cache-dir");
pub static SESSION_DIR: Key = key("session_dir", Kind::Directory).variable("PSTORE_SESSION_DIR");
pub static WORKSPACE_DIR: Key = key("workspace_dir", Kind::Directory).variable("PSTORE_WORKSPACE_DIR");
pub static WORKSPACE_AUTO_MAX: Key =
    key("workspace.auto_max", number("slots", 2, 64)).variable("PSTORE_WORKSPACE_AUTO_MAX").default("10");
pub static WORKSPACE_MANUAL_MAX: Key = key("workspace.manual_max", number("slots", 0, 1000))
    .variable("PSTORE_WORKSPACE_MANUAL_MAX")
    .default("12");
pub static WORKSPACE_AUTO_INTERVAL: Key = key("workspace.auto_interval", number("seconds", 1, 7 * 86_400))
    .variable("PSTORE_WORKSPACE_AUTO_INTERVAL")
    .default("300");
/// Which triggers take checkpoints; `none` stands for no trigger.
pub static WORKSPACE_TRIGGERS: Key = key(
    "workspace.triggers",
    Kind::Words(&["run_start", "run_end", "before_action", "after_action", "none"]),
)
.variable("PSTORE_WORKSPACE_TRIGGERS")
.default("run_start,run_end,before_action,after_action");
pub static RETRY_SECONDS: Key =
    key("retry_seconds", number("seconds", 0, u64::MAX)).variable("PSTORE_RETRY_SECONDS").default("60");
pub static S3_ENDPOINT: Key = key("s3.endpoint", Kind::Endpoint)
    .variable("PSTORE_S3_ENDPOINT")
    .fallbacks(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
    .flag("--endpoint");
pub static S3_REGION: Key = key("s3.region", Kind::Text).variable("PSTORE_S3_REGION").flag("--region");
pub static S3_PATH_STYLE: Key = key("s3.path_style", Kind::Switch).variable("PSTORE_S3_PATH_STYLE");
pub static S3_IF_MATCH: Key =
    key("s3.if_match", Kind::Word(&["quoted", "unquoted"])).variable("PSTORE_S3_IF_MATCH");
pub static S3_CONDITIONAL_DELETE: Key =
    key("s3.conditional_delete", Kind::Switch).variable("PSTORE_S3_CONDITIONAL_DELETE").default("false");
pub static HOST_NAME: Key = key("host.name", Kind::Text).variable("PSTORE_HOST_NAME");
pub static HOST_REGION: Key = key("host.region", Kind::Text).variable("PSTORE_HOST_REGION");
pub static HOST_EGRESS_GEO: Key = key("host.egress_geo", Kind::Geo).variable("PSTORE_HOST_EGRESS_GEO");

pub static METRICS_TEXTFILE: Key =
    key("metrics_textfile", Kind::Directory).variable("PSTORE_METRICS_TEXTFILE");
pub static METRICS_REPORTS: Key =
    key("metrics_reports", Kind::Switch).variable("PSTORE_METRICS_REPORTS").default("false");
pub static METRICS_PROFILES: Key = key("metrics_profiles", number("profiles", 0, 100_000))
    .variable("PSTORE_METRICS_PROFILES")
    .default("1000");

/// How often a server does each periodic job; 0 for never.
const fn every(name: &'static str) -> Key {
    key(name, number("seconds", 0, 366 * 86_400))
}

pub static SCHEDULES_REAP_SECONDS: Key =
    every("schedules.reap_seconds").variable("PSTORE_SCHEDULES_REAP_SECONDS").default("300");
pub static SCHEDULES_RETENTION_SECONDS: Key =
    every("schedules.retention_seconds").variable("PSTORE_SCHEDULES_RETENTION_SECONDS").default("0");
pub static SCHEDULES_GC_SECONDS: Key =
    every("schedules.gc_seconds").variable("PSTORE_SCHEDULES_GC_SECONDS").default("0");
pub static SCHEDULES_VERIFY_SECONDS: Key =
    every("schedules.verify_seconds").variable("PSTORE_SCHEDULES_VERIFY_SECONDS").default("0");
pub static SCHEDULES_VERIFY_PARTS: Key = key("schedules.verify_parts", number("parts", 1, 10_000))
    .variable("PSTORE_SCHEDULES_VERIFY_PARTS")
    .default("30");

pub static LOCK_TTL_SECONDS: Key =
    key("lock_ttl_seconds", number("seconds", 5, 86_400)).variable("PSTORE_LOCK_TTL_SECONDS").default("300");
pub static LOCK_RENEW_SECONDS: Key =
    key("lock_renew_seconds", number("seconds", 1, 43_200)).variable("PSTORE_LOCK_RENEW_SECONDS");
pub static MAX_PROFILE_BYTES: Key =
    key("max_profile_bytes", Kind::Bytes).variable("PSTORE_MAX_PROFILE_BYTES").default("8GB");
pub static ARCHIVE: Key =
    key("archive", Kind::Word(&["on-demand", "always"])).variable("PSTORE_ARCHIVE").default("on-demand");
pub static ARCHIVE_LEVEL: Key =
    key("archive_level", number("zstd's levels", 1, 22)).variable("PSTORE_ARCHIVE_LEVEL").default("9");
pub static MODES: Key = key("modes", Kind::Words(&["cold", "hot"])).variable("PSTORE_MODES").default("cold");
pub static UPGRADE: Key =
    key("upgrade", Kind::Word(&["refuse", "forward"])).variable("PSTORE_UPGRADE").default("refuse");
pub static ON_UNAVAILABLE: Key =
    key("on_unavailable", Kind::Word(&["fail", "fresh"])).variable("PSTORE_ON_UNAVAILABLE").default("fail");
pub static SESSION_COOKIES: Key =
    key("session_cookies", Kind::Word(&["drop", "keep"])).variable("PSTORE_SESSION_COOKIES").default("drop");
pub static WRITEBACK: Key = key("writeback", Kind::Switch).variable("PSTORE_WRITEBACK").default("false");
/// For one tenant at a time, as what is kept is.
pub static QUOTA_BYTES: Key = key("quota_bytes", Kind::Bytes);
// What is kept is never for a variable to say: it would hold for every tenant at once.
pub static KEEP: Key = key("retention.keep", Kind::Keep);
pub static TAGGED_DAYS: Key = key("retention.tagged_days", number("days", 1, u64::MAX));
pub static MAX_AGE_DAYS: Key = key("retention.max_age_days", number("days", 1, u64::MAX));
pub static MAX_COUNT: Key = key("retention.max_count", number("snapshots", 1, u64::MAX));
pub static AUTO: Key = key("retention.auto", number("snapshots", 1, u64::MAX));
pub static MANUAL: Key = key("retention.manual", number("snapshots", 1, u64::MAX));
pub static AUTOSAVE_KEPT: Key = key("retention.autosave", number("snapshots", 1, u64::MAX));
pub static RUN_END_KEPT: Key = key("retention.run_end", number("snapshots", 1, u64::MAX));
pub static COMMIT_KEPT: Key = key("retention.commit", number("snapshots", 1, u64::MAX));
pub static BEFORE_UPGRADE_KEPT: Key = key("retention.before-upgrade", number("snapshots", 1, u64::MAX));
pub static BEFORE_RESTORE_KEPT: Key = key("retention.before-restore", number("snapshots", 1, u64::MAX));
pub static BEFORE_ROLLBACK_KEPT: Key = key("retention.before-rollback", number("snapshots", 1, u64::MAX));
pub static IMPORT_KEPT: Key = key("retention.import", number("snapshots", 1, u64::MAX));
pub static MAX_BYTES: Key = key("retention.max_bytes", Kind::Bytes);
pub static TENANT_MAX_COUNT: Key = key("retention.tenant_max_count", number("snapshots", 1, u64::MAX));
pub static TENANT_MAX_BYTES: Key = key("retention.tenant_max_bytes", Kind::Bytes);

/// The settings of the whole program.
pub static PROGRAM: [&Key; 25] = [
    &STORE,
    &CACHE_DIR,
    &SESSION_DIR,
    &WORKSPACE_DIR,
    &WORKSPACE_AUTO_MAX,
    &WORKSPACE_MANUAL_MAX,
    &WORKSPACE_AUTO_INTERVAL,
    &WORKSPACE_TRIGGERS,
    &RETRY_SECONDS,
    &S3_ENDPOINT,
    &S3_REGION,
    &S3_PATH_STYLE,
    &S3_IF_MATCH,
    &S3_CONDITIONAL_DELETE,
    &HOST_NAME,
    &HOST_REGION,
    &HOST_EGRESS_GEO,
    &METRICS_TEXTFILE,
    &METRICS_REPORTS,
    &METRICS_PROFILES,
    &SCHEDULES_REAP_SECONDS,
    &SCHEDULES_RETENTION_SECONDS,
    &SCHEDULES_GC_SECONDS,
    &SCHEDULES_VERIFY_SECONDS,
    &SCHEDULES_VERIFY_PARTS,
];

/// The settings that may differ between tenants.
pub static TENANT: [&Key; 27] = [
    &LOCK_TTL_SECONDS,
    &LOCK_RENEW_SECONDS,
    &MAX_PROFILE_BYTES,
    &ARCHIVE,
    &ARCHIVE_LEVEL,
    &MODES,
    &UPGRADE,
    &ON_UNAVAILABLE,
    &SESSION_COOKIES,
    &WRITEBACK,
    &QUOTA_BYTES,
    &KEEP,
    &TAGGED_DAYS,
    &MAX_AGE_DAYS,
    &MAX_COUNT,
    &AUTO,
    &MANUAL,
    &AUTOSAVE_KEPT,
    &RUN_END_KEPT,
    &COMMIT_KEPT,
    &BEFORE_UPGRADE_KEPT,
    &BEFORE_RESTORE_KEPT,
    &BEFORE_ROLLBACK_KEPT,
    &IMPORT_KEPT,
    &MAX_BYTES,
    &TENANT_MAX_COUNT,
    &TENANT_MAX_BYTES,
];

/// The settings that may differ between profiles.
pub static PROFILE: [&Key; 14] = [
    &KEEP,
    &TAGGED_DAYS,
    &MAX_AGE_DAYS,
    &MAX_COUNT,
    &AUTO,
    &MANUAL,
    &AUTOSAVE_KEPT,
    &RUN_END_KEPT,
    &COMMIT_KEPT,
    &BEFORE_UPGRADE_KEPT,
    &BEFORE_RESTORE_KEPT,
    &BEFORE_ROLLBACK_KEPT,
    &IMPORT_KEPT,
    &MAX_BYTES,
];

/// How many are kept of those that were taken for a reason. Those somebody asked for have a rule
/// of another kind.
pub static OF_REASON: [(Reason, &Key); 7] = [
    (Reason::Autosave, &AUTOSAVE_KEPT),
    (Reason::RunEnd, &RUN_END_KEPT),
    (Reason::Commit, &COMMIT_KEPT),
    (Reason::BeforeUpgrade, &BEFORE_UPGRADE_KEPT),
    (Reason::BeforeRestore, &BEFORE_RESTORE_KEPT),
    (Reason::BeforeRollback, &BEFORE_ROLLBACK_KEPT),
    (Reason::Import, &IMPORT_KEPT),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, ffi::OsStr};

    use super::*;

    #[test]
    fn every_default_is_a_value_its_kind_allows() {
        for key in PROGRAM.iter().chain(&TENANT) {
            if let Some(text) = key.default {
                key.kind.of_text(OsStr::new(text)).unwrap_or_else(|_| panic!("{}", key.name));
            }
        }
    }

    #[test]
    fn every_reason_but_manual_has_a_rule_of_its_own() {
        for reason in Reason::KNOWN.iter().filter(|reason| **reason != Reason::Manual) {
            let rule = OF_REASON.iter().find(|(of, _)| of == reason);
            assert_eq!(rule.unwrap().1.name, format!("retention.{}", reason.as_str()));
        }
    }

    #[test]
    fn names_and_variables_are_used_once() {
        let all: Vec<&Key> = PROGRAM.iter().chain(&TENANT).copied().collect();
        let names: BTreeSet<&str> = all.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), all.len());
        let variables: Vec<&str> = all.iter().filter_map(|key| key.variable).collect();
        assert_eq!(variables.iter().collect::<BTreeSet<_>>().len(), variables.len());
    }

    #[test]
    fn the_page_on_configuration_lists_every_key_and_variable() {
        let page = include_str!("../../../docs/configuration.md");
        for key in PROGRAM.iter().chain(&TENANT) {
            let names = [Some(key.name), key.variable, key.flag];
            for name in names.into_iter().flatten() {
                let listed = [format!("`{name}`"), format!("`{name} ")];
                assert!(listed.iter().any(|form| page.contains(form)), "{name} is not documented");
            }
        }
    }
}
