//! `pstore run`: a command on a profile, from lock to unlock.
//!
//! The profile is mounted; where that cannot be, or is not wanted, it is copied.

mod alone;
mod command;
mod copied;
mod mounted;
mod place;

use capture::load::{Loaded, Outcome};
use engine::{failure::Failure, host::user::User, mount::Published};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde_json::{Value, json};
use store::{
    ErrorKind,
    name::Lineage,
    ops::{
        read::resolve::Reference,
        write::snapshot::{Outcome as Stored, Report},
    },
};

use super::{
    Engine, capture as capturing, copies,
    guard::{CommandEnd, Signals},
    mount::Notes,
};
use crate::{answer::Answer, args::RunArgs};

pub(super) async fn run(engine: Engine, args: &RunArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    super::load::check(&args.load, args.chrome_major)?;
    let reference = args.reference()?;
    let user = args.user.as_deref().map(User::find).transpose()?;
    // The command could read our environment in `/proc`, if it is started as the same user.
    if let Err(errno) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%errno, "the command may be able to read the credentials of the store");
    }
    copies::warn_of(&engine, args.profile());
    let mut signals = Signals::listen();
    let ended = if is_mounted(&engine, args, reference) {
        mounted::run(&engine, args, user.as_ref(), &mut signals).await
    } else {
        copied::run(&engine, args, user.as_ref(), &mut signals).await
    };
    let ended = match ended {
        Err(failure) if alone::is_wanted(&engine, args, reference, &failure) => {
            alone::run(&engine, args, user.as_ref(), &mut signals, failure).await?
        }
        ended => ended?,
    };
    Ok(answer(&engine, args, ended))
}

/// Whether the profile is mounted for the command.
fn is_mounted(engine: &Engine, args: &RunArgs, reference: Option<&Reference>) -> bool {
    // A chosen snapshot, or a directory that is to stay, cannot be a mount of the current one.
    if args.copy || args.directory.is_some() || reference.is_some() {
        return false;
    }
    match fuse::mount::is_possible() {
        Ok(()) => true,
        Err(error) => {
            engine.warn(&format!("the profile is copied, since nothing can be mounted: {error}"));
            false
        }
    }
}

/// How a run ended.
struct Ended {
    lineage: Lineage,
    mounted: bool,
    load: Load,
    guarded: CommandEnd,
    /// `None` if there was no capture, because the lock was lost.
    captured: Option<Result<Captured, Failure>>,
    /// The session that holds what was not captured.
    session: Option<String>,
}

/// How the profile was found.
struct Load {
    outcome: Outcome,
    reason: Option<String>,
    warnings: Vec<String>,
}

impl From<Loaded> for Load {
    fn from(loaded: Loaded) -> Self {
        Self { outcome: loaded.outcome, reason: loaded.reason, warnings: loaded.warnings }
    }
}

impl From<Notes> for Load {
    fn from(notes: Notes) -> Self {
        Self { outcome: notes.outcome, reason: notes.reason, warnings: notes.warnings }
    }
}

struct Captured {
    report: Report,
    /// About the directory where the command had it.
    remarks: Vec<String>,
}

impl From<Published> for Captured {
    fn from(published: Published) -> Self {
        Self { report: published.report, remarks: published.remarks }
    }
}

/// Which snapshot a run has left.
fn stored(lineage: &Lineage, report: &Report) -> String {
    let (name, prefix) = (&lineage.name, &report.sha256_prefix);
    match (report.outcome, &report.held_back) {
        (Stored::Unchanged, _) => format!("captured {name}: nothing has changed since snapshot {prefix}"),
        (Stored::Stored, None) => format!(
            "captured {name}: snapshot {prefix} is the current one, {} new",
            engine::text::size::bytes(report.counts.new_bytes)
        ),
        (Stored::Stored, Some(_)) => format!("captured {name}: snapshot {prefix} is stored and held back"),
    }
}

fn answer(engine: &Engine, args: &RunArgs, ended: Ended) -> Answer {
    let Ended { lineage, mounted, load, mut guarded, captured, session } = ended;
    // That somebody has taken the lock away may be noticed only when the pointer is to be moved.
    if let Some(Err(failure)) = &captured
        && failure.kind == ErrorKind::LockLost
    {
        guarded.lost.get_or_insert_with(|| failure.message.clone());
    }
    let mut document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "mounted": mounted,
        "load": load.outcome.as_str(),
        "load_reason": load.reason,
        "command_exit_code": guarded.code,
        "lock_lost": guarded.lost.is_some(),
        "snapshot_failed": false,
        "snapshot_error": Value::Null,
        "snapshot": Value::Null,
        "session": session,
        "warnings": load.warnings,
    });
    let (mut verdict, mut exit) = (None, Some(guarded.code));
    let mut text = String::new();
    let failed = match captured {
        _ if guarded.lost.is_some() => {
            verdict = guarded.lost.clone().map(|message| (ErrorKind::LockLost, message));
            exit = None;
            text.push_str("lock_lost: true\n");
            None
        }
        Some(Ok(Captured { report, remarks })) => {
            let warnings = super::snapshot::warnings(&report, remarks);
            warnings.iter().for_each(|warning| engine.warn(warning));
            document["snapshot"] = super::snapshot::document(&lineage, &report, &warnings);
            engine.say(&stored(&lineage, &report));
            let held_back = capturing::held_back(&report).map(|(kind, message)| {
                Failure::new(kind, message).hint(capturing::moving(&lineage, report.record))
            });
            held_back.inspect(|failure| engine.warn(&failure.message))
        }
        Some(Err(failure)) => {
            engine.warn(&format!("the profile was not captured: {}", failure.message));
            Some(failure)
        }
        None => None,
    };
    if let Some(failure) = failed {
        document["snapshot_failed"] = json!(true);
        document["snapshot_error"] = json!(failure.document().error);
        if let Some(hint) = &failure.hint {
            engine.say(&format!("hint: {hint}"));
        }
        text.push_str("snapshot_failed: true\n");
        if args.load.require {
            (verdict, exit) = (Some((failure.kind, failure.message)), None);
        }
    }
    Answer { verdict, exit, brief: Some(String::new()), ..Answer::new(document, text) }
}
