//! `config` prints the settings in force. It never needs a store.

use engine::{
    failure::Failure,
    settings::Settings,
    verbs::config::{ConfigShowOutcome, ConfigShowRequest},
};

use crate::{
    answer::Answer,
    args::{ConfigArgs, ConfigVerb},
    table::{Align::Left, Table},
};

pub(super) fn run(settings: &Settings, args: &ConfigArgs) -> Result<Answer, Failure> {
    match &args.verb {
        ConfigVerb::Show(args) => {
            let outcome = settings.show(&ConfigShowRequest { scope: args.scope.clone() });
            Answer::of(&outcome, text(&outcome))
        }
    }
}

fn text(outcome: &ConfigShowOutcome) -> String {
    let mut table = Table::new(&[("SETTING", Left), ("VALUE", Left), ("FROM", Left)]);
    for setting in &outcome.settings {
        let shown = setting.shown.clone().unwrap_or_else(|| "-".to_owned());
        table.row(vec![setting.key.clone(), shown, setting.origin.clone()]);
    }
    let mut text = table.render();
    let others: Vec<String> = match &outcome.tenant_id {
        Some(tenant) => outcome.profiles.iter().map(|profile| format!("{tenant}/{profile}")).collect(),
        None => outcome.tenants.iter().map(ToString::to_string).collect(),
    };
    if !others.is_empty() {
        text.push_str(&format!("\nOther settings for {}\n", others.join(", ")));
    }
    text
}
