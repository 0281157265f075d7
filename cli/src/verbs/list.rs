//! `list` turns the arguments of `pstore list` into a request, and its outcome into text.

mod expiry;
mod rows;

use engine::{
    Engine,
    failure::Failure,
    verbs::list::{ListOutcome, ListRequest, ProfileList, TenantList},
};
use store::name::ProfileName;

use crate::{
    answer::Answer,
    args::ListArgs,
    table::{Align::Left, Table},
};

pub(super) async fn run(engine: Engine, args: &ListArgs) -> Result<Answer, Failure> {
    let request =
        ListRequest { scope: args.scope.clone(), chrome_major: args.chrome_major, expiry: args.expiry };
    let outcome = engine.list(&request).await?;
    let text = match &outcome {
        ListOutcome::Tenants(list) => tenants(list),
        ListOutcome::Profiles(list) => profiles(list),
        ListOutcome::Snapshots(list) => rows::table(list),
        ListOutcome::Expiry(list) => expiry::table(list),
    };
    Answer::of(&outcome, text)
}

fn tenants(list: &TenantList) -> String {
    let mut text: String = list.tenants.iter().map(|tenant| format!("{tenant}\n")).collect();
    for deleted in &list.deleted {
        text.push_str(&format!("{}  deleted {}\n", deleted.tenant_id, deleted.deletion.told));
    }
    text
}

fn profiles(list: &ProfileList) -> String {
    let mut table = Table::new(&[("PROFILE", Left), ("CHROME", Left), ("STATE", Left)]);
    for row in &list.profiles {
        let name = ProfileName { tenant: list.tenant_id.clone(), profile: row.profile_id.clone() };
        let majors: Vec<String> = row.chrome_major_versions.iter().map(ToString::to_string).collect();
        let state = row.deletion.as_ref().map(|deletion| format!("deleted {}", deletion.told));
        table.row(vec![name.to_string(), majors.join(", "), state.unwrap_or_default()]);
    }
    table.render()
}
