//! `verbs` runs the commands: each makes one call of the engine and writes its outcome as text.

mod cat;
mod commit;
pub(crate) mod complete;
mod completions;
mod config;
mod delete;
mod diff;
mod doctor;
mod expect;
mod export;
mod find;
mod force_unlock;
mod gc;
mod history;
mod import;
mod init;
mod list;
mod lock;
mod log;
mod ls;
mod man;
mod metrics;
pub(crate) mod mount;
mod mounts;
mod reap;
mod restore;
mod retention;
mod rollback;
mod run;
mod serve;
mod sessions;
mod show;
mod snapshot;
mod stats;
mod tag;
mod token;
mod top;
mod unmount;
mod verify;

pub(crate) use engine::Engine;

use std::sync::{Arc, OnceLock};

use engine::{failure::Failure, interrupt::Interrupt, settings::Settings};
use store::ErrorKind;
use tokio::task::JoinHandle;

use crate::{
    answer::Answer,
    args::{Invocation, Verb},
    console::Console,
};

pub(crate) async fn run(
    invocation: Invocation,
    console: Console,
    interrupt: Interrupt,
) -> Result<Answer, Failure> {
    let waits = invocation.verb.waits();
    let counting = Counting::default();
    let ended = done(invocation, console, interrupt, &counting).await;
    counting.leave().await;
    ended.map_err(|failure| match &failure.hint {
        Some(hint) if waits && failure.kind == ErrorKind::LockHeld => {
            let hint = format!("--wait SECONDS waits for it; {hint}");
            failure.hint(hint)
        }
        _ => failure,
    })
}

/// The engine of the command, if it has one, and what leaves its metrics while it works.
#[derive(Debug, Default)]
struct Counting {
    engine: OnceLock<(Engine, JoinHandle<()>)>,
    stopped: Interrupt,
}

impl Counting {
    /// Leaves the metrics of this engine from now on.
    fn begin(&self, engine: &Engine) {
        let leaving = engine.clone().keep_leaving_metrics(self.stopped.clone());
        let _ = self.engine.set((engine.clone(), tokio::spawn(leaving)));
    }

    /// Leaves the rest.
    async fn leave(self) {
        if let Some((engine, leaving)) = self.engine.into_inner() {
            self.stopped.raise();
            let _ = leaving.await;
            engine.metrics.end_serving();
            engine.leave_metrics().await;
        }
    }
}

async fn done(
    invocation: Invocation,
    console: Console,
    interrupt: Interrupt,
    counting: &Counting,
) -> Result<Answer, Failure> {
    let engine = || {
        let engine = Engine::open(&invocation.global.overrides(), Arc::new(console), interrupt.clone())?;
        counting.begin(&engine);
        Ok::<_, Failure>(engine)
    };
    match &invocation.verb {
        Verb::Init(args) => init::run(engine()?, args).await,
        Verb::Snapshot(args) => snapshot::run(engine()?, args).await,
        Verb::List(args) => list::run(engine()?, args).await,
        Verb::Show(args) => show::run(engine()?, args).await,
        Verb::Ls(args) => ls::run(engine()?, args).await,
        Verb::Cat(args) => cat::run(engine()?, args).await,
        Verb::Find(args) => find::run(engine()?, args).await,
        Verb::Diff(args) => diff::run(engine()?, args).await,
        Verb::History(args) => history::run(engine()?, args).await,
        Verb::Restore(args) => restore::run(engine()?, args).await,
        Verb::Export(args) => export::run(engine()?, args).await,
        Verb::Mount(args) => mount::run(engine()?, args).await,
        Verb::Commit(args) => commit::run(&Settings::load(&invocation.global.overrides())?, args).await,
        Verb::Unmount(args) => unmount::run(&Settings::load(&invocation.global.overrides())?, args).await,
        Verb::Mounts(_) => mounts::run(&Settings::load(&invocation.global.overrides())?).await,
        Verb::Sessions(args) => {
            sessions::run(engine, &Settings::load(&invocation.global.overrides())?, args).await
        }
        Verb::Run(args) => run::run(engine()?, args).await,
        Verb::Stats(args) => stats::run(engine()?, args).await,
        Verb::Verify(args) => verify::run(engine()?, args).await,
        Verb::Lock(args) => lock::run(engine()?, args).await,
        Verb::Reap(args) => reap::run(engine()?, args).await,
        Verb::ForceUnlock(args) => force_unlock::run(engine()?, args).await,
        Verb::Rollback(args) => rollback::run(engine()?, args).await,
        Verb::Delete(args) => delete::run(engine()?, args).await,
        Verb::Retention(args) => retention::run(engine()?, args).await,
        Verb::Gc(args) => gc::run(engine()?, args).await,
        Verb::Tag(args) => tag::tag(engine()?, args).await,
        Verb::Untag(args) => tag::untag(engine()?, args).await,
        Verb::Expect(args) => expect::run(engine()?, args).await,
        Verb::Import(args) => import::run(engine()?, args).await,
        Verb::Log(args) => log::run(engine()?, args).await,
        Verb::Serve(args) => serve::run(engine()?, &invocation.global, args).await,
        Verb::Token(args) => token::run(console, args),
        Verb::Metrics(_) => metrics::run(&Settings::load(&invocation.global.overrides())?, console),
        Verb::Top(args) => {
            top::run(engine, &Settings::load(&invocation.global.overrides())?, console, args).await
        }
        Verb::Doctor(args) => doctor::run(engine()?, args).await,
        Verb::Config(args) => config::run(&Settings::load(&invocation.global.overrides())?, args),
        Verb::Completions(args) => Ok(completions::run(args)),
        Verb::Man(args) => man::run(args),
    }
}
