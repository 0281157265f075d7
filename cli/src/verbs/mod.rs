//! The commands, each one call of the library and a way to tell about it.

mod completions;
mod context;
mod doctor;
mod init;
mod list;
mod man;
mod restore;
mod show;
mod snapshot;
mod stats;
mod verify;

pub(crate) use context::Context;

use crate::{
    answer::Answer,
    args::{Invocation, Verb},
    console::Console,
    failure::Failure,
};

pub(crate) async fn run(invocation: Invocation, console: Console) -> Result<Answer, Failure> {
    let context = || Context::new(&invocation.global, console);
    match &invocation.verb {
        Verb::Init(args) => init::run(context()?, args.chunking()).await,
        Verb::Snapshot(args) => snapshot::run(context()?, args).await,
        Verb::List(args) => list::run(context()?, args).await,
        Verb::Show(args) => show::run(context()?, args).await,
        Verb::Restore(args) => restore::run(context()?, args).await,
        Verb::Stats(args) => stats::run(context()?, args).await,
        Verb::Verify(args) => verify::run(context()?, args).await,
        Verb::Doctor(_) => doctor::run(context()?).await,
        Verb::Completions(args) => Ok(completions::run(args)),
        Verb::Man(args) => man::run(args),
    }
}
