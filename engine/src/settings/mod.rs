//! `settings` joins the sources of settings: a flag comes before its variable, a variable before the file, the file
//! before the default. In the file, a tenant's own section comes before the one for all.
//!
//! It reads and checks everything once, at the start. Later code only looks values up, each with its origin.

mod environment;
mod file;
mod key;
mod kind;
mod locations;
mod origin;
mod schedules;
mod tenant;

pub use key::Key;
pub use kind::Value;
pub use origin::Origin;
pub use schedules::Schedules;
pub use tenant::{ArchivePolicy, OnUnavailable, Retention, SessionCookies, TenantSettings};

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use store::{
    format::record::Geo,
    name::{Profile, ProfileName, Tenant},
};

use self::{environment::Environment, file::ConfigFile, kind::Misfit};
use crate::{failure::Failure, names::Scope, text::geo};

/// The options of a front end; they come before the environment and the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Where the snapshots are: `file:///path` or `s3://bucket/prefix`.
    pub store: Option<String>,
    /// An S3-compatible server.
    pub endpoint: Option<String>,
    /// The region of the S3 bucket.
    pub region: Option<String>,
    /// Where this host remembers what it has seen.
    pub cache_dir: Option<PathBuf>,
    /// Remember nothing on this host.
    pub no_cache: bool,
    /// The configuration file.
    pub config: Option<PathBuf>,
}

/// A setting that is in force. Without a value there is none, and that is fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The value, if there is one.
    pub value: Option<Value>,
    /// Where it comes from.
    pub origin: Origin,
}

/// The values of one source, by key.
type Layer = BTreeMap<&'static str, Effective>;

/// All settings, each with where it comes from.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    environment: Environment,
    flags: Layer,
    variables: Layer,
    file: Option<ConfigFile>,
    /// Other programs' variables.
    fallbacks: Layer,
}

impl Settings {
    /// Reads the environment and the file, and checks everything.
    pub fn load(overrides: &Overrides) -> Result<Self, Failure> {
        Self::collect(overrides, Environment::of_process())
    }

    fn collect(overrides: &Overrides, environment: Environment) -> Result<Self, Failure> {
        let file = ConfigFile::find(overrides.config.as_deref(), &environment)?;
        let mut settings = Self { environment, file, ..Self::default() };
        for (key, text) in flags(overrides) {
            settings.flags.insert(key.name, given(key, text, key.flag.map(Origin::Flag))?);
        }
        if overrides.no_cache {
            let nowhere = Effective { value: None, origin: Origin::Flag("--no-cache") };
            settings.flags.insert(key::CACHE_DIR.name, nowhere);
        }
        for key in key::PROGRAM.iter().chain(&key::TENANT).copied() {
            let set = |name: &'static str| Some((name, settings.environment.get(name)?.clone()));
            let told = |layer: &Layer| layer.contains_key(key.name);
            // What another source decides already may be wrong without harm.
            if told(&settings.flags) {
                continue;
            }
            if let Some((name, text)) = key.variable.and_then(set) {
                let found = given(key, text, Some(Origin::Variable(name)))?;
                settings.variables.insert(key.name, found);
            } else if !settings.file.as_ref().is_some_and(|file| told(&file.program))
                && let Some((name, text)) = key.fallbacks.iter().copied().find_map(set)
            {
                let found = given(key, text, Some(Origin::Variable(name)))?;
                settings.fallbacks.insert(key.name, found);
            }
        }
        tenant::check(settings.of(None))?;
        for name in settings.tenants() {
            tenant::check(settings.of(Some(&name)))?;
        }
        Ok(settings)
    }

    /// The configuration file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// The tenants with a section of their own.
    pub fn tenants(&self) -> Vec<Tenant> {
        self.file.iter().flat_map(|file| file.tenants.keys().cloned()).collect()
    }

    /// The profiles of a tenant that have a section of their own.
    pub fn profiles(&self, tenant: &Tenant) -> Vec<Profile> {
        let sections = self.file.iter().flat_map(|file| file.profiles.keys());
        sections.filter(|(of, _)| of == tenant).map(|(_, profile)| profile.clone()).collect()
    }

    /// The settings of this tenant, with or without a section in the file.
    pub fn tenant(&self, tenant: &Tenant) -> TenantSettings {
        TenantSettings::of(self.of(Some(tenant)))
    }

    /// The retention rules of this profile.
    pub fn retention(&self, name: &ProfileName) -> Retention {
        Retention::of(View { settings: self, tenant: Some(&name.tenant), profile: Some(&name.profile) })
    }

    /// The name of this host in records.
    pub fn host_name(&self) -> Option<String> {
        self.of(None).text(&key::HOST_NAME)
    }

    /// The region this host is in.
    pub fn host_region(&self) -> Option<String> {
        self.of(None).text(&key::HOST_REGION)
    }

    /// Where this host's requests come from.
    pub fn egress_geo(&self) -> Option<Geo> {
        geo::parse(&self.of(None).text(&key::HOST_EGRESS_GEO)?).ok()
    }

    /// The directory of node_exporter's textfile collector, if metrics are left there.
    pub fn metrics_textfile(&self) -> Option<PathBuf> {
        match self.of(None).value(&key::METRICS_TEXTFILE)? {
            Value::Path(directory) => Some(directory),
            _ => None,
        }
    }

    /// Whether programs report their metrics to the store, and servers fold the reports.
    pub fn metrics_reports(&self) -> bool {
        self.of(None).switch(&key::METRICS_REPORTS).unwrap_or(false)
    }

    /// So many profiles have metrics of their own.
    pub fn metrics_profiles(&self) -> usize {
        let profiles = self.of(None).number(&key::METRICS_PROFILES).unwrap_or_default();
        usize::try_from(profiles).unwrap_or(usize::MAX)
    }

    /// A variable that belongs to one run and is no setting; `None` if it is set to nothing.
    pub fn of_this_run(&self, variable: &str) -> Option<String> {
        self.environment.get(variable).map(|value| value.to_string_lossy().into_owned())
    }

    /// All that is in force, in the order of the documentation.
    pub fn all(&self, scope: Option<&Scope>) -> Vec<(&'static Key, Effective)> {
        let view = match scope {
            Some(Scope::Profile(name)) => {
                View { settings: self, tenant: Some(&name.tenant), profile: Some(&name.profile) }
            }
            Some(Scope::Tenant(tenant)) => self.of(Some(tenant)),
            None => self.of(None),
        };
        key::PROGRAM.iter().chain(&key::TENANT).map(|key| (*key, view.get(key))).collect()
    }

    /// Digits that are the same for all hosts with the same settings, wherever each of them comes from, and tell
    /// nothing else of them. What is about this host alone plays no part.
    pub fn digest(&self) -> String {
        let host = [
            &key::CACHE_DIR,
            &key::SESSION_DIR,
            &key::WORKSPACE_DIR,
            &key::HOST_NAME,
            &key::METRICS_TEXTFILE,
        ];
        let is_shared = |key: &Key| !host.iter().any(|own| std::ptr::eq(*own, key));
        let mut scopes = vec![None];
        for tenant in self.tenants() {
            scopes.extend(
                self.profiles(&tenant)
                    .into_iter()
                    .map(|profile| Some(Scope::Profile(ProfileName { tenant: tenant.clone(), profile }))),
            );
            scopes.push(Some(Scope::Tenant(tenant)));
        }
        let mut hasher = Sha256::new();
        for scope in scopes {
            hasher.update(format!("{scope:?}\n"));
            for (key, found) in self.all(scope.as_ref()).into_iter().filter(|(key, _)| is_shared(key)) {
                hasher.update(format!("{} = {:?}\n", key.name, found.value));
            }
        }
        hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn of<'a>(&'a self, tenant: Option<&'a Tenant>) -> View<'a> {
        View { settings: self, tenant, profile: None }
    }
}

/// The settings as one tenant has them, or as those have them that are not mentioned.
#[derive(Clone, Copy, Debug)]
struct View<'a> {
    settings: &'a Settings,
    tenant: Option<&'a Tenant>,
    /// One of the tenant's.
    profile: Option<&'a Profile>,
}

impl View<'_> {
    fn get(&self, key: &'static Key) -> Effective {
        let Settings { flags, variables, file, fallbacks, .. } = self.settings;
        let file = file.iter().flat_map(|file| {
            let own = self.tenant.and_then(|tenant| file.tenants.get(tenant));
            let profile = self.tenant.zip(self.profile);
            let profile =
                profile.and_then(|(tenant, profile)| file.profiles.get(&(tenant.clone(), profile.clone())));
            profile.into_iter().chain(own).chain([&file.defaults, &file.program])
        });
        let mut layers = [flags, variables].into_iter().chain(file).chain([fallbacks]);
        let found = layers.find_map(|layer| layer.get(key.name)).cloned();
        found.unwrap_or_else(|| Effective { value: self.default(key), origin: Origin::Default })
    }

    fn value(&self, key: &'static Key) -> Option<Value> {
        self.get(key).value
    }

    fn text(&self, key: &'static Key) -> Option<String> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self, key: &'static Key) -> Option<u64> {
        match self.value(key)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    fn switch(&self, key: &'static Key) -> Option<bool> {
        match self.value(key)? {
            Value::Switch(switch) => Some(switch),
            _ => None,
        }
    }

    /// The default; some follow from other settings.
    fn default(&self, key: &'static Key) -> Option<Value> {
        if let Some(text) = key.default {
            return key.kind.of_text(text.as_ref()).ok();
        }
        if std::ptr::eq(key, &key::LOCK_RENEW_SECONDS) {
            let ttl = self.number(&key::LOCK_TTL_SECONDS)?;
            return Some(Value::Number(tenant::default_renew_seconds(ttl)));
        }
        self.settings.default_place(key)
    }
}

fn flags(overrides: &Overrides) -> Vec<(&'static Key, OsString)> {
    let text = |text: &Option<String>| text.as_ref().map(OsString::from);
    let all = [
        (&key::STORE, text(&overrides.store)),
        (&key::S3_ENDPOINT, text(&overrides.endpoint)),
        (&key::S3_REGION, text(&overrides.region)),
        (&key::CACHE_DIR, overrides.cache_dir.clone().map(OsString::from)),
    ];
    // A flag that is given nothing is as good as one that is not given: scripts do that.
    all.into_iter().filter_map(|(key, text)| Some((key, text.filter(|text| !text.is_empty())?))).collect()
}

/// A value that was typed or exported.
fn given(key: &'static Key, text: OsString, origin: Option<Origin>) -> Result<Effective, Failure> {
    let origin = origin.unwrap_or(Origin::Default);
    let value = key.kind.of_text(&text).map_err(|misfit| {
        let name = origin.place().unwrap_or_default();
        let failure = match misfit {
            Misfit::Takes(what) => Failure::usage(format!("{name} is {text:?}; it takes {what}")),
            Misfit::Says(what) => Failure::usage(what),
        };
        match locations::advice(key) {
            Some(advice) => failure.hint(advice),
            None => failure,
        }
    })?;
    Ok(Effective { value: Some(value), origin })
}
