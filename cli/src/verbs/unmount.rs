//! `unmount` turns the arguments of `pstore unmount` into a request, and its outcome into text.

use engine::{
    failure::Failure,
    outcome::Outcome,
    settings::Settings,
    verbs::unmount::{self, EndedMount, UncommittedChanges, UnmountOutcome, UnmountRequest},
};

use super::commit;
use crate::{answer::Answer, args::UnmountArgs};

pub(super) async fn run(settings: &Settings, args: &UnmountArgs) -> Result<Answer, Failure> {
    let changes = match (args.commit, args.discard, args.keep) {
        (true, ..) => Some(UncommittedChanges::Commit),
        (_, true, _) => Some(UncommittedChanges::Discard),
        (_, _, true) => Some(UncommittedChanges::Keep),
        _ => None,
    };
    let request =
        UnmountRequest { mountpoint: args.mountpoint.clone(), changes, capture: args.capture.options() };
    let outcome = unmount::unmount(settings, &request).await?;
    match &outcome {
        UnmountOutcome::HeldBack(outcome) => commit::answer(outcome),
        UnmountOutcome::Ended(ended) if outcome.verdict().is_some() => Answer::of(&outcome, in_use(ended)),
        UnmountOutcome::Ended(ended) => {
            Ok(Answer { brief: Some(String::new()), ..Answer::of(&outcome, unmounted(ended))? })
        }
    }
}

fn in_use(ended: &EndedMount) -> String {
    let sha = ended.committed.as_ref().map_or("", |committed| &committed.captured.sha256_prefix);
    format!("committed {} as {sha}\n", ended.mountpoint.display())
}

fn unmounted(ended: &EndedMount) -> String {
    let mut text = ended.committed.as_ref().map_or_else(String::new, commit::text);
    text.push_str(&format!("unmounted {}\n", ended.mountpoint.display()));
    if ended.kept {
        text.push_str(&format!("changes that are not committed are kept in session {}\n", ended.session));
    }
    text
}
