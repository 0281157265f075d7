//! `pstore config`: never needs a store.

use engine::{
    failure::Failure,
    names::Scope,
    settings::{Effective, Key, Settings},
};
use serde_json::{Value, json};

use crate::{
    answer::Answer,
    args::{ConfigArgs, ConfigShowArgs, ConfigVerb},
    table::{Align::Left, Table},
};

pub(super) fn run(settings: &Settings, args: &ConfigArgs) -> Result<Answer, Failure> {
    match &args.verb {
        ConfigVerb::Show(args) => Ok(show(settings, args)),
    }
}

fn show(settings: &Settings, args: &ConfigShowArgs) -> Answer {
    let all = settings.all(args.scope.as_ref());
    let (tenant, profile) = match &args.scope {
        Some(Scope::Tenant(tenant)) => (Some(tenant), None),
        Some(Scope::Profile(name)) => (Some(&name.tenant), Some(&name.profile)),
        None => (None, None),
    };
    let profiles = tenant.filter(|_| profile.is_none()).map(|tenant| settings.profiles(tenant));
    let profiles = profiles.unwrap_or_default();
    let document = json!({
        "file": settings.path().map(|path| path.to_string_lossy()),
        "tenant_id": tenant,
        "profile_id": profile,
        "settings": all.iter().map(line).collect::<Vec<Value>>(),
        "tenants": settings.tenants(),
        "profiles": profiles,
    });
    let mut table = Table::new(&[("SETTING", Left), ("VALUE", Left), ("FROM", Left)]);
    for (key, Effective { value, origin }) in &all {
        let shown = value.as_ref().map_or_else(|| "-".to_owned(), engine::settings::Value::shown);
        table.row(vec![key.name.to_owned(), shown, origin.to_string()]);
    }
    let mut text = table.render();
    if let Some(tenant) = tenant.filter(|_| !profiles.is_empty()) {
        let names: Vec<String> = profiles.iter().map(|profile| format!("{tenant}/{profile}")).collect();
        text.push_str(&format!("\nOther settings for {}\n", names.join(", ")));
    }
    if tenant.is_none() && !settings.tenants().is_empty() {
        let names: Vec<String> = settings.tenants().iter().map(ToString::to_string).collect();
        text.push_str(&format!("\nOther settings for {}\n", names.join(", ")));
    }
    Answer::new(document, text)
}

fn line((key, Effective { value, origin }): &(&'static Key, Effective)) -> Value {
    json!({
        "key": key.name,
        "value": value.as_ref().map(engine::settings::Value::json),
        "source": origin.word(),
        "from": origin.place(),
    })
}
