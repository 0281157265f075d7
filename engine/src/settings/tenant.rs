//! `TenantSettings` holds the settings of one tenant.

use std::time::Duration;

use capture::load::Upgrade;
use store::{
    format::record::Mode,
    ops::retention::{Keep, Limits, Policy},
};

use super::{
    View, key,
    kind::{ONE, Value},
};
use crate::failure::Failure;

/// How often a lock is renewed if nothing says so: early enough to be late several times.
const RENEWALS_PER_TTL: u64 = 5;
const MAX_RENEW_SECONDS: u64 = 60;
const DAY_SECONDS: u64 = 86_400;

/// The settings of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSettings {
    /// How long a lock holds without being renewed.
    pub lock_ttl: Duration,
    /// At most half of `lock_ttl`.
    pub lock_renew: Duration,
    /// Larger profiles are refused.
    pub max_profile_bytes: u64,
    /// Which snapshots get an archive.
    pub archive: ArchivePolicy,
    /// How hard zstd tries, from 1 to 22.
    pub archive_level: i32,
    /// Never empty.
    pub modes: Vec<Mode>,
    /// The start of a Chrome that has no snapshot yet, where an older one has.
    pub upgrade: Upgrade,
    /// The behaviour of a run when the store cannot be reached.
    pub on_unavailable: OnUnavailable,
    /// What becomes of session cookies when a profile is loaded.
    pub session_cookies: SessionCookies,
    /// Whether the kernel keeps what is written to a mount for a while.
    pub writeback: bool,
    /// How much its packs may hold.
    pub quota_bytes: Option<u64>,
    /// Which snapshots stay.
    pub retention: Retention,
}

/// Which snapshots get an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchivePolicy {
    /// Those that somebody asks for.
    OnDemand,
    /// All that become current.
    Always,
}

/// The behaviour of a run while the store cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnavailable {
    /// It fails.
    Fail,
    /// It starts with an empty profile, whose capture replaces nothing.
    Fresh,
}

/// What becomes of session cookies when a profile is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCookies {
    /// They stay as they are, and Chrome drops them when it starts.
    Drop,
    /// They become cookies that lapse later.
    Keep,
}

/// The retention rules. A rule that is absent removes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The rules of a profile.
    pub policy: Policy,
    /// The limits of all profiles of the tenant together.
    pub limits: Limits,
}

impl Retention {
    pub(super) fn of(view: View<'_>) -> Self {
        let days = |key| Some(Duration::from_secs(view.number(key)?.saturating_mul(DAY_SECONDS)));
        let policy = Policy {
            keep: match view.value(&key::KEEP) {
                Some(Value::Text(word)) if word == ONE => Some(Keep::One),
                Some(Value::Number(count)) => Some(Keep::Newest(count)),
                _ => None,
            },
            tagged_for: days(&key::TAGGED_DAYS),
            max_age: days(&key::MAX_AGE_DAYS),
            max_count: view.number(&key::MAX_COUNT),
            auto: view.number(&key::AUTO),
            of_reason: key::OF_REASON
                .iter()
                .filter_map(|(reason, key)| Some((reason.clone(), view.number(key)?)))
                .collect(),
            manual: view.number(&key::MANUAL),
            max_bytes: view.number(&key::MAX_BYTES),
        };
        let limits = Limits {
            max_count: view.number(&key::TENANT_MAX_COUNT),
            max_bytes: view.number(&key::TENANT_MAX_BYTES),
        };
        Self { policy, limits }
    }
}

impl TenantSettings {
    pub(super) fn of(view: View<'_>) -> Self {
        let number = |key| view.number(key).unwrap_or_default();
        let words = match view.value(&key::MODES) {
            Some(Value::Words(words)) => words,
            _ => Vec::new(),
        };
        let mode = |word: &String| if word == "hot" { Mode::Hot } else { Mode::Cold };
        Self {
            lock_ttl: Duration::from_secs(number(&key::LOCK_TTL_SECONDS)),
            lock_renew: Duration::from_secs(number(&key::LOCK_RENEW_SECONDS)),
            max_profile_bytes: number(&key::MAX_PROFILE_BYTES),
            archive: match view.text(&key::ARCHIVE).as_deref() {
                Some("always") => ArchivePolicy::Always,
                _ => ArchivePolicy::OnDemand,
            },
            archive_level: i32::try_from(number(&key::ARCHIVE_LEVEL)).unwrap_or_default(),
            modes: words.iter().map(mode).collect(),
            upgrade: match view.text(&key::UPGRADE).as_deref() {
                Some("forward") => Upgrade::Forward,
                _ => Upgrade::Refuse,
            },
            on_unavailable: match view.text(&key::ON_UNAVAILABLE).as_deref() {
                Some("fresh") => OnUnavailable::Fresh,
                _ => OnUnavailable::Fail,
            },
            session_cookies: match view.text(&key::SESSION_COOKIES).as_deref() {
                Some("keep") => SessionCookies::Keep,
                _ => SessionCookies::Drop,
            },
            writeback: view.switch(&key::WRITEBACK).unwrap_or_default(),
            quota_bytes: view.number(&key::QUOTA_BYTES),
            retention: Retention::of(view),
        }
    }
}

/// The renewal that goes with a time to live, where none is set.
pub(super) fn default_renew_seconds(ttl_seconds: u64) -> u64 {
    (ttl_seconds / RENEWALS_PER_TTL).clamp(1, MAX_RENEW_SECONDS)
}

/// What no value can tell by itself.
pub(super) fn check(view: View<'_>) -> Result<(), Failure> {
    let ttl = view.number(&key::LOCK_TTL_SECONDS).unwrap_or_default();
    let renew = view.number(&key::LOCK_RENEW_SECONDS).unwrap_or_default();
    if renew.saturating_mul(2) <= ttl {
        return Ok(());
    }
    let origin = |key| view.get(key).origin;
    let whose = view.tenant.map(|tenant| format!(" for {tenant}")).unwrap_or_default();
    let message = format!(
        "lock_renew_seconds is {renew} ({}), but lock_ttl_seconds{whose} is {ttl} ({}): \
         a lock that is renewed so late may be lost",
        origin(&key::LOCK_RENEW_SECONDS),
        origin(&key::LOCK_TTL_SECONDS),
    );
    Err(Failure::usage(message).hint("renew at least twice within the time to live"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::settings::{Overrides, Settings, environment::Environment};

    fn settings(text: &str, variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pstore.toml");
        fs::write(&path, text).unwrap();
        let global = Overrides { config: Some(path), ..Overrides::default() };
        Settings::collect(&global, Environment::of(variables))
    }

    fn tenant(settings: &Settings, name: &str) -> TenantSettings {
        settings.tenant(&name.parse().unwrap())
    }

    #[test]
    fn a_tenant_nobody_mentions_has_the_defaults() {
        let found = tenant(&settings("", &[]).unwrap(), "acme");
        let expected = TenantSettings {
            lock_ttl: Duration::from_secs(300),
            lock_renew: Duration::from_secs(60),
            max_profile_bytes: 8_000_000_000,
            archive: ArchivePolicy::OnDemand,
            archive_level: 9,
            modes: vec![Mode::Cold],
            upgrade: Upgrade::Refuse,
            on_unavailable: OnUnavailable::Fail,
            session_cookies: SessionCookies::Drop,
            writeback: false,
            quota_bytes: None,
            retention: Retention::default(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn values_are_those_of_the_nearest_section() {
        let text = "[defaults]\narchive = \"always\"\nretention.auto = 3\n\
                    [tenants.acme]\nmodes = [\"hot\"]\nlock_ttl_seconds = 30\nretention.keep = 4\n";
        let found = settings(text, &[("PSTORE_ARCHIVE_LEVEL", "19")]).unwrap();
        let acme = tenant(&found, "acme");
        assert_eq!(
            (acme.archive, acme.archive_level, &acme.modes),
            (ArchivePolicy::Always, 19, &vec![Mode::Hot])
        );
        assert_eq!((acme.lock_ttl.as_secs(), acme.lock_renew.as_secs()), (30, 6));
        let expected = Policy { keep: Some(Keep::Newest(4)), auto: Some(3), ..Policy::default() };
        assert_eq!(acme.retention.policy, expected);
        let other = tenant(&found, "other").retention.policy;
        assert_eq!((other.keep, other.auto), (None, Some(3)));
    }

    #[test]
    fn a_profile_may_have_rules_of_its_own() {
        let text = "[tenants.acme]\nretention = { keep = 4, tenant_max_count = 9 }\n\
                    [tenants.acme.profiles.alice]\nretention.keep = \"one\"\n";
        let found = settings(text, &[]).unwrap();
        let keep = |name: &str| found.retention(&name.parse().unwrap());
        assert_eq!(keep("acme/alice").policy.keep, Some(Keep::One));
        assert_eq!(keep("acme/alice").limits.max_count, Some(9));
        assert_eq!(keep("acme/bob").policy.keep, Some(Keep::Newest(4)));
        assert_eq!(keep("other/alice").policy.keep, None);
        for wrong in ["archive = \"always\"", "retention.tenant_max_count = 1", "keep = 1"] {
            let text = format!("[tenants.acme.profiles.alice]\n{wrong}\n");
            assert!(settings(&text, &[]).unwrap_err().message.contains("there is no setting"), "{wrong}");
        }
    }

    #[test]
    fn a_lock_is_renewed_at_least_twice_in_its_life() {
        let renew = |ttl: u64, renew: u64| {
            let text = format!("[defaults]\nlock_ttl_seconds = {ttl}\nlock_renew_seconds = {renew}\n");
            settings(&text, &[]).map(|_| ())
        };
        renew(10, 5).unwrap();
        renew(11, 6).unwrap_err();
        for ttl in 5..400 {
            assert!(default_renew_seconds(ttl) * 2 <= ttl, "{ttl}");
        }
    }
}
