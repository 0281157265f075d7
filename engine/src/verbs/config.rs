//! `config` shows the settings in force, and where each comes from. It needs no store.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;
use store::name::{Profile, Tenant};

use crate::{
    names::Scope,
    outcome::Outcome,
    settings::{Effective, Key, Origin, Settings},
};

/// Asks for the settings in force.
#[derive(Clone, Debug, Default)]
pub struct ConfigShowRequest {
    /// For this tenant or profile; for all others if it is not said.
    pub scope: Option<Scope>,
}

/// The sources that a setting can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// Nobody said it.
    Default,
    /// A file of settings.
    File,
    /// A variable of the environment.
    Environment,
    /// An option of the command.
    Flag,
}

/// A setting in force.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingFields {
    /// The setting's name.
    pub key: String,
    /// Its value, if it has one.
    #[schemars(schema_with = "values")]
    pub value: Value,
    /// The kind of source that it comes from.
    pub source: SettingSource,
    /// The file and line, the variable or the option that it comes from.
    pub from: Option<String>,
    /// The value for people, if there is one.
    #[serde(skip)]
    pub shown: Option<String>,
    /// The source for people.
    #[serde(skip)]
    pub origin: String,
}

/// The settings in force.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigShowOutcome {
    /// The file of settings that was read, if there is one.
    pub file: Option<String>,
    /// The tenant that they are for.
    pub tenant_id: Option<Tenant>,
    /// The profile that they are for.
    pub profile_id: Option<Profile>,
    /// Every setting.
    pub settings: Vec<SettingFields>,
    /// The tenants that have other settings.
    pub tenants: Vec<Tenant>,
    /// The profiles of the tenant that have other settings.
    pub profiles: Vec<Profile>,
}

impl Outcome for ConfigShowOutcome {}

impl Settings {
    /// Shows the settings in force.
    pub fn show(&self, request: &ConfigShowRequest) -> ConfigShowOutcome {
        let (tenant, profile) = match &request.scope {
            Some(Scope::Tenant(tenant)) => (Some(tenant), None),
            Some(Scope::Profile(name)) => (Some(&name.tenant), Some(&name.profile)),
            None => (None, None),
        };
        let profiles = tenant.filter(|_| profile.is_none()).map(|tenant| self.profiles(tenant));
        ConfigShowOutcome {
            file: self.path().map(|path| path.to_string_lossy().into_owned()),
            tenant_id: tenant.cloned(),
            profile_id: profile.cloned(),
            settings: self.all(request.scope.as_ref()).into_iter().map(setting).collect(),
            tenants: self.tenants(),
            profiles: profiles.unwrap_or_default(),
        }
    }
}

fn setting((key, Effective { value, origin }): (&'static Key, Effective)) -> SettingFields {
    SettingFields {
        key: key.name.to_owned(),
        value: value.as_ref().map_or(Value::Null, crate::settings::Value::json),
        source: match &origin {
            Origin::Default => SettingSource::Default,
            Origin::File { .. } => SettingSource::File,
            Origin::Variable(_) => SettingSource::Environment,
            Origin::Flag(_) => SettingSource::Flag,
        },
        from: origin.place(),
        shown: value.as_ref().map(crate::settings::Value::shown),
        origin: origin.to_string(),
    }
}

fn values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["array", "boolean", "integer", "null", "string"],
        "items": { "type": "string" },
    })
}
