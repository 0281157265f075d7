//! `hooks` runs the commands of a project before and after a save.
//!
//! A hook gets no shell unless its table asks for one.

use engine::{Engine, failure::Failure};
use store::ErrorKind;

use super::{
    file::{Hook, OnError, Project},
    program,
};

/// Runs the hooks one after the other. The first that fails and may not ends that.
#[crate::boxed]
pub async fn run(engine: &Engine, project: &Project, hooks: &[Hook]) -> Result<(), Failure> {
    for hook in hooks {
        let Err(problem) = run_one(project, hook).await else { continue };
        let message = format!("the hook {} {problem}", hook.command.join(" "));
        match hook.on_error {
            OnError::Continue => engine.warn(&message),
            OnError::Abort => {
                return Err(Failure::new(ErrorKind::CommandFailed, message).hint(
                    "mend the command, or write on_error = \"continue\" in its table to save without it",
                ));
            }
        }
    }
    Ok(())
}

async fn run_one(project: &Project, hook: &Hook) -> Result<(), String> {
    let Some((program, arguments)) = hook.command.split_first() else { return Ok(()) };
    let mut command = program::command(program.as_ref());
    command
        .args(arguments)
        .envs(&hook.environment)
        .env("PSTORE_PROJECT", project.name.to_string())
        .env("PSTORE_STATE", &project.state)
        .current_dir(project.file.parent().unwrap_or(&project.state));
    program::run(&mut command, hook.time_limit).await
}
