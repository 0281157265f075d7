//! `verbs` runs the commands: each makes one call of the engine and writes its outcome as text.

mod cat;
mod commit;
pub(crate) mod complete;
mod completions;
mod config;
mod container;
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
mod mcp;
mod metrics;
pub(crate) mod mount;
mod mounts;
mod project;
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
mod workspace;

pub(crate) use engine::Engine;

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use engine::{failure::Failure, interrupt::Interrupt, settings::Settings};
use store::ErrorKind;
use tokio::task::JoinHandle;
use volumes::project::recover;

use crate::{
    answer::Answer,
    args::{ContainerArgs, ContainerVerb, Invocation, Verb},
    console::Console,
};

/// How long a command tries to undo what dead ones have left. A service may take its time to end before it is started again.
const RECOVERS: Duration = Duration::from_secs(60);

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
    macro_rules! by_engine {
        ($run:path, $args:expr) => {{
            let opened = engine()?;
            apart(|| $run(opened, $args)).await
        }};
    }
    // These may be what is typed next when something was left at rest.
    macro_rules! by_recovered_engine {
        ($run:path, $args:expr) => {{
            let opened = engine()?;
            recovered(&opened).await;
            apart(|| $run(opened, $args)).await
        }};
    }
    match &invocation.verb {
        Verb::Init(args) => by_engine!(init::run, args),
        Verb::Snapshot(args) => by_engine!(snapshot::run, args),
        Verb::List(args) => by_engine!(list::run, args),
        Verb::Show(args) => by_engine!(show::run, args),
        Verb::Ls(args) => by_engine!(ls::run, args),
        Verb::Cat(args) => by_engine!(cat::run, args),
        Verb::Find(args) => by_engine!(find::run, args),
        Verb::Diff(args) => by_engine!(diff::run, args),
        Verb::History(args) => by_engine!(history::run, args),
        Verb::Restore(args) => by_engine!(restore::run, args),
        Verb::Export(args) => by_engine!(export::run, args),
        Verb::Mount(args) => by_engine!(mount::run, args),
        Verb::Commit(args) => commit::run(&Settings::load(&invocation.global.overrides())?, args).await,
        Verb::Unmount(args) => unmount::run(&Settings::load(&invocation.global.overrides())?, args).await,
        Verb::Mounts(_) => mounts::run(&Settings::load(&invocation.global.overrides())?).await,
        Verb::Sessions(args) => {
            let settings = Settings::load(&invocation.global.overrides())?;
            apart(|| sessions::run(engine, &settings, args)).await
        }
        Verb::Run(args) => by_engine!(run::run, args),
        // These look at their daemon themselves, within the time that they have.
        Verb::Container(
            args @ ContainerArgs { verb: ContainerVerb::Snapshot(_) | ContainerVerb::Restore(_) },
        ) => {
            by_engine!(container::run, args)
        }
        Verb::Container(args) => by_recovered_engine!(container::run, args),
        Verb::Stats(args) => by_engine!(stats::run, args),
        Verb::Verify(args) => by_engine!(verify::run, args),
        Verb::Lock(args) => by_engine!(lock::run, args),
        Verb::Reap(args) => by_recovered_engine!(reap::run, args),
        Verb::ForceUnlock(args) => by_engine!(force_unlock::run, args),
        Verb::Rollback(args) => by_engine!(rollback::run, args),
        Verb::Delete(args) => by_engine!(delete::run, args),
        Verb::Retention(args) => by_engine!(retention::run, args),
        Verb::Gc(args) => by_engine!(gc::run, args),
        Verb::Tag(args) => by_engine!(tag::tag, args),
        Verb::Untag(args) => by_engine!(tag::untag, args),
        Verb::Expect(args) => by_engine!(expect::run, args),
        Verb::Project(args) => by_recovered_engine!(project::run, args),
        Verb::Workspace(args) => by_engine!(workspace::run, args),
        Verb::Checkpoint(args) => match engine() {
            Err(failure) if args.is_automatic() => workspace::unopened(console, &failure),
            opened => {
                let opened = opened?;
                apart(|| workspace::checkpoint(opened, args)).await
            }
        },
        Verb::Import(args) => by_engine!(import::run, args),
        Verb::Log(args) => by_engine!(log::run, args),
        Verb::Serve(args) => {
            let engine = engine()?;
            apart(|| serve::run(engine, &invocation.global, args)).await
        }
        Verb::Mcp(args) => by_engine!(mcp::run, args),
        Verb::Token(args) => token::run(console, args),
        Verb::Metrics(_) => metrics::run(&Settings::load(&invocation.global.overrides())?, console),
        Verb::Top(args) => {
            let settings = Settings::load(&invocation.global.overrides())?;
            apart(|| top::run(engine, &settings, console, args)).await
        }
        Verb::Doctor(args) => by_recovered_engine!(doctor::run, args),
        Verb::Config(args) => config::run(&Settings::load(&invocation.global.overrides())?, args),
        Verb::Completions(args) => Ok(completions::run(args)),
        Verb::Man(args) => man::run(args),
    }
}

/// Undoes what dead commands have left at rest, as far as it can be done in some time.
async fn recovered(engine: &Engine) {
    if tokio::time::timeout(RECOVERS, apart(|| recover::recover_noted(engine))).await.is_err() {
        engine.warn("what dead commands have left could not be undone yet; the next command tries again");
    }
}

/// Makes the future of a command on the heap. Those of all commands together would not fit the stack of the caller that awaits
/// one of them.
fn apart<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
