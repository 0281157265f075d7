//! `run` turns the arguments of `pstore run` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    outcome::Outcome,
    verbs::run::{RunOutcome, RunRequest},
};

use crate::{answer::Answer, args::RunArgs};

impl RunArgs {
    fn request(&self) -> RunRequest {
        RunRequest {
            source: self.source.clone(),
            sha: self.sha.clone(),
            chrome_major: self.chrome_major,
            load: self.load.options(),
            capture: self.capture.options(),
            copy: self.copy,
            ignore_session: self.ignore_session.clone(),
            on_diverged: self.diverged.on_diverged.clone(),
            directory: self.directory.clone(),
            wait: self.wait,
            autosave: self.progress.autosave,
            from_wip: self.progress.from.is_some(),
            writeback: self.writing.writeback,
            pass_env: self.pass_env.clone(),
            user: self.user.clone(),
            command: self.command.clone(),
        }
    }
}

/// The exit code is the command's, unless there is a verdict on the run.
pub(super) async fn run(engine: Engine, args: &RunArgs) -> Result<Answer, Failure> {
    let outcome = engine.run(&args.request()).await?;
    let exit = outcome.verdict().is_none().then_some(outcome.command_exit_code);
    Ok(Answer { exit, brief: Some(String::new()), ..Answer::of(&outcome, text(&outcome))? })
}

fn text(outcome: &RunOutcome) -> String {
    let mut text = String::new();
    if outcome.lock_lost {
        text.push_str("lock_lost: true\n");
    }
    if outcome.snapshot_failed {
        text.push_str("snapshot_failed: true\n");
    }
    text
}
