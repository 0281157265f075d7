//! `pstore tag` and `pstore untag`

use engine::failure::Failure;
use serde_json::json;
use store::{Error, ErrorKind, catalog::controls::Controls, name::Lineage, ops::tag};

use super::Engine;
use crate::{answer::Answer, args::TagArgs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Tag,
    Untag,
}

/// Without a name it is the current snapshot's tag that is meant.
fn elsewhere(lineage: &Lineage, tag: &str, error: Error) -> Failure {
    let is_missing = error.kind() == ErrorKind::NotFound;
    let failure = Failure::from(error);
    match is_missing {
        true => failure.hint(format!(
            "`pstore untag {}@{tag} {tag}` takes it from the snapshot that has it",
            lineage.name
        )),
        false => failure,
    }
}

pub(super) async fn run(engine: Engine, args: &TagArgs, change: Change) -> Result<Answer, Failure> {
    tag::check_name(&args.tag)?;
    let reference = args.snapshot.reference()?;
    let (tenant, lineage) = engine.lineage_to_change(&args.snapshot.lineage()).await?;
    let record = engine.snapshot(&tenant, &lineage, reference).await?;
    let controls = Controls::new(tenant, lineage.clone(), engine.actor(&args.actor.name()));
    let tagged = match change {
        Change::Tag => tag::tag(&controls, record.record, &args.tag).await?,
        Change::Untag => tag::untag(&controls, record.record, &args.tag)
            .await
            .map_err(|error| elsewhere(&lineage, &args.tag, error))?,
    };
    let prefix = tagged.record.sha256_prefix();
    let (outcome, text) = match (change, tagged.changed) {
        (Change::Tag, true) => ("tagged", format!("{prefix} of {lineage} is tagged {}\n", args.tag)),
        (Change::Tag, false) => {
            ("unchanged", format!("{prefix} of {lineage} is tagged {} already\n", args.tag))
        }
        (Change::Untag, _) => {
            ("untagged", format!("{prefix} of {lineage} is no longer tagged {}\n", args.tag))
        }
    };
    let document = json!({
        "outcome": outcome,
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "sha256_prefix": prefix,
        "record": tagged.record.record,
        "tag": args.tag,
        "tags": tagged.record.tags.keys().collect::<Vec<_>>(),
    });
    Ok(Answer::new(document, text))
}
