//! `tag` turns the arguments of `pstore tag` and `pstore untag` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    verbs::tag::{TagChange, TagOutcome, TagRequest},
};

use crate::{answer::Answer, args::TagArgs};

impl TagArgs {
    fn request(&self) -> TagRequest {
        TagRequest { snapshot: self.snapshot.choice(), tag: self.tag.clone(), actor: self.actor.name() }
    }
}

pub(super) async fn tag(engine: Engine, args: &TagArgs) -> Result<Answer, Failure> {
    let outcome = engine.tag(&args.request()).await?;
    Answer::of(&outcome, text(&outcome))
}

pub(super) async fn untag(engine: Engine, args: &TagArgs) -> Result<Answer, Failure> {
    let outcome = engine.untag(&args.request()).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &TagOutcome) -> String {
    let TagOutcome { sha256_prefix, tag, lineage, .. } = outcome;
    let lineage = lineage.lineage();
    match outcome.outcome {
        TagChange::Tagged => format!("{sha256_prefix} of {lineage} is tagged {tag}\n"),
        TagChange::Unchanged => format!("{sha256_prefix} of {lineage} is tagged {tag} already\n"),
        TagChange::Untagged => format!("{sha256_prefix} of {lineage} is no longer tagged {tag}\n"),
    }
}
