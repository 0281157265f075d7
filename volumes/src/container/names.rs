//! `names` gives containers their names in the store and their labels.

use engine::{
    failure::Failure,
    names::{LineageName, SnapshotChoice, SnapshotName},
};
use store::{
    ErrorKind,
    name::{ChromeMajor, Lineage, ProfileName, Tenant},
};

/// The tenant of containers for which nobody names one.
const TENANT: &str = "containers";

/// The label of a container that says which tenant's it is, to servers that store containers for callers.
pub(super) const TENANT_LABEL: &str = "pstore.tenant";

/// The label of a record that names the container.
pub(super) const CONTAINER: &str = "container";
/// The label of a record that names the container's image.
pub(super) const IMAGE: &str = "image";
/// The label of a record that says at which moment of a run it was taken.
pub(super) const TRIGGER: &str = "trigger";
/// The label of a record that names the agent's run.
pub(super) const RUN_ID: &str = "run_id";

/// The name of a container's snapshots for which nobody gives one.
pub fn default_name(container: &str, tenant: Option<&Tenant>) -> Result<ProfileName, Failure> {
    let name = format!("{}/{container}", tenant.map_or(TENANT, Tenant::as_str)).parse::<ProfileName>();
    name.map_err(|error| {
        let hint = match tenant {
            Some(_) => "give its snapshots a name".to_owned(),
            None => format!("name them: `pstore container snapshot {container} TENANT/NAME`"),
        };
        Failure::usage(format!("{container:?} cannot name snapshots: {error}")).hint(hint)
    })
}

/// The lineage of a container's snapshots.
pub(super) fn lineage(name: &ProfileName) -> Lineage {
    Lineage { name: name.clone(), chrome_major: ChromeMajor::CONTAINER }
}

/// The same, as the engine's verbs are asked for it.
pub(super) fn lineage_name(name: &ProfileName) -> LineageName {
    LineageName { profile: name.clone(), chrome_major: Some(ChromeMajor::CONTAINER) }
}

/// One snapshot of a container.
pub(super) fn choice(name: &SnapshotName) -> SnapshotChoice {
    SnapshotChoice { name: name.clone(), chrome_major: Some(ChromeMajor::CONTAINER), sha: None }
}

/// The same failure, with the commands that are about containers.
pub(super) fn told(failure: Failure, name: &ProfileName) -> Failure {
    match failure.kind {
        ErrorKind::NotFound => {
            // Which number stands for containers is nobody's business.
            let message = failure.message.replace(&format!(" for Chrome {}", ChromeMajor::CONTAINER), "");
            Failure { message, ..failure }
                .hint(format!("`pstore container list {}` shows the snapshots there are", name.tenant))
        }
        _ => failure,
    }
}
