//! `delete` deletes one snapshot of a container.

use engine::{
    Engine,
    failure::Failure,
    names::{ActorName, SnapshotName, Subject},
    verbs::delete::{DeleteOutcome, DeleteRequest},
};
use store::name::ChromeMajor;

use super::names::told;

/// Deletes one snapshot of a container, which is not the current one.
#[crate::boxed]
pub async fn delete(
    engine: &Engine,
    name: &SnapshotName,
    (reason, actor): (&str, &ActorName),
) -> Result<DeleteOutcome, Failure> {
    let profile = name.profile.clone();
    if name.typed().is_none() {
        let message = format!("container delete must be told which snapshot of {profile}");
        return Err(Failure::usage(message).hint(format!(
            "`pstore container delete {profile}@REF`; `pstore container list {profile}` shows those there are"
        )));
    }
    let request = DeleteRequest {
        name: Subject::Snapshot(name.clone()),
        chrome_major: Some(ChromeMajor::CONTAINER),
        sha: None,
        all: false,
        ignore_session: Vec::new(),
        tombstone: false,
        actor: actor.clone(),
        reason: reason.to_owned(),
        tagged: false,
        damaged: false,
        confirm: true,
    };
    engine.delete(&request).await.map_err(|failure| told(failure, &profile))
}
