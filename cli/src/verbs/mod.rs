//! The commands, each one call of the library and a way to tell about it.

mod anothers;
mod capture;
mod cat;
mod commit;
pub(crate) mod complete;
mod completions;
mod config;
mod context;
mod copies;
mod delete;
mod diff;
mod doctor;
mod expect;
mod export;
mod find;
mod force_unlock;
mod gc;
mod guard;
mod history;
mod import;
mod init;
mod inside;
mod list;
mod load;
mod lock;
mod log;
mod ls;
mod man;
mod mount;
mod mounts;
mod reap;
mod restore;
mod retention;
mod rollback;
mod run;
mod sessions;
mod show;
mod snapshot;
mod stats;
mod tag;
mod tenants;
mod unmount;
mod verify;

pub(crate) use context::Context;

use store::ErrorKind;

use crate::{
    answer::Answer,
    args::{Invocation, Verb},
    console::Console,
    failure::Failure,
    interrupt::Interrupt,
    settings::Settings,
};

pub(crate) async fn run(
    invocation: Invocation,
    console: Console,
    interrupt: Interrupt,
) -> Result<Answer, Failure> {
    let waits = invocation.verb.waits();
    done(invocation, console, interrupt).await.map_err(|failure| match &failure.hint {
        Some(hint) if waits && failure.kind == ErrorKind::LockHeld => {
            let hint = format!("--wait SECONDS waits for it; {hint}");
            failure.hint(hint)
        }
        _ => failure,
    })
}

async fn done(invocation: Invocation, console: Console, interrupt: Interrupt) -> Result<Answer, Failure> {
    let context = || Context::new(&invocation.global, console, interrupt.clone());
    match &invocation.verb {
        Verb::Init(args) => init::run(context()?, args.chunking()).await,
        Verb::Snapshot(args) => snapshot::run(context()?, args).await,
        Verb::List(args) => list::run(context()?, args).await,
        Verb::Show(args) => show::run(context()?, args).await,
        Verb::Ls(args) => ls::run(context()?, args).await,
        Verb::Cat(args) => cat::run(context()?, args).await,
        Verb::Find(args) => find::run(context()?, args).await,
        Verb::Diff(args) => diff::run(context()?, args).await,
        Verb::History(args) => history::run(context()?, args).await,
        Verb::Restore(args) => restore::run(context()?, args, interrupt.commitment().clone()).await,
        Verb::Export(args) => export::run(context()?, args).await,
        Verb::Mount(args) => mount::run(context()?, args).await,
        Verb::Commit(args) => commit::run(&Settings::load(&invocation.global)?, args).await,
        Verb::Unmount(args) => unmount::run(&Settings::load(&invocation.global)?, args).await,
        Verb::Mounts(_) => mounts::run(&Settings::load(&invocation.global)?).await,
        Verb::Sessions(args) => sessions::run(context, &Settings::load(&invocation.global)?, args).await,
        Verb::Run(args) => run::run(context()?, args).await,
        Verb::Stats(args) => stats::run(context()?, args).await,
        Verb::Verify(args) => verify::run(context()?, args).await,
        Verb::Lock(args) => lock::run(context()?, args).await,
        Verb::Reap(args) => reap::run(context()?, args).await,
        Verb::ForceUnlock(args) => force_unlock::run(context()?, args).await,
        Verb::Rollback(args) => rollback::run(context()?, args).await,
        Verb::Delete(args) => delete::run(context()?, args).await,
        Verb::Retention(args) => retention::run(context()?, args).await,
        Verb::Gc(args) => gc::run(context()?, args).await,
        Verb::Tag(args) => tag::run(context()?, args, tag::Change::Tag).await,
        Verb::Untag(args) => tag::run(context()?, args, tag::Change::Untag).await,
        Verb::Expect(args) => expect::run(context()?, args).await,
        Verb::Import(args) => import::run(context()?, args).await,
        Verb::Log(args) => log::run(context()?, args).await,
        Verb::Doctor(args) => doctor::run(context()?, args.tenant.as_ref()).await,
        Verb::Config(args) => config::run(&Settings::load(&invocation.global)?, args),
        Verb::Completions(args) => Ok(completions::run(args)),
        Verb::Man(args) => man::run(args),
    }
}
