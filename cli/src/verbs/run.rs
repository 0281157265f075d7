//! `pstore run`

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use capture::load::Loaded;
use serde_json::{Value, json};
use store::{
    ErrorKind,
    catalog::{
        controls::Controls,
        lock::{Hold, Terms},
    },
    name::{ChromeMajor, Lineage},
    ops::snapshot::{LockUse, Report},
};

use super::{
    Context,
    capture::{self as capturing, Job},
    context::LOCK_TOKEN,
    guard::{self, Guarded, Signals},
    load, retention,
};
use crate::{
    answer::Answer,
    args::{LineageArgs, RunArgs},
    failure::Failure,
    progress,
};

/// What stands for the profile's directory in the command.
const PROFILE: &str = "{profile}";
/// A load that nobody waits for any more has ended by then.
const LOADING_ENDS: Duration = Duration::from_secs(5);

pub(super) async fn run(context: Context, args: &RunArgs) -> Result<Answer, Failure> {
    capturing::check(&args.capture)?;
    let mut signals = Signals::listen();
    let settings = context.settings.tenant(&args.profile.tenant);
    let taking = async {
        let lineage = lineage(&context, args).await?;
        let tenant = context.writable_tenant(&lineage.name.tenant).await?;
        let controls = Controls::new(tenant, lineage, context.actor(&args.capture.actor));
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        Ok(controls.acquire(terms, args.wait).await?)
    };
    let hold = Arc::new(guard::take(&mut signals, taking).await?);
    let lineage = hold.controls().lineage();
    let (place, ended) = match Place::choose(args) {
        Ok(place) => {
            let ended = session(&context, args, &mut signals, &hold, &place, settings.lock_renew).await;
            (Some(place), ended)
        }
        Err(failure) => (None, Err(failure)),
    };
    if let Err(error) = hold.release().await {
        context.console.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
    let captured = ended.as_ref().map(|session| matches!(session.captured, Some(Ok(_))));
    match (place, captured) {
        (Some(place), Ok(captured)) => place.finish(&context, captured),
        (Some(place), Err(_)) => place.abandon(&context).await,
        (None, _) => {}
    }
    let Session { loaded, guarded, captured } = ended?;
    if let Some(Ok(captured)) = &captured {
        retention::prune(&context, hold.controls().store(), lineage, &captured.report).await;
    }
    Ok(answer(&context, args, lineage, &loaded, &guarded, captured))
}

struct Session {
    loaded: Loaded,
    guarded: Guarded,
    /// `None` if there was no capture, because the lock was lost.
    captured: Option<Result<Captured, Failure>>,
}

struct Captured {
    report: Report,
    /// About the directory where the command had it.
    remarks: Vec<String>,
}

async fn session(
    context: &Context,
    args: &RunArgs,
    signals: &mut Signals,
    hold: &Arc<Hold>,
    place: &Place,
    renew_every: Duration,
) -> Result<Session, Failure> {
    let keeper = hold.keep(renew_every);
    let lineage = hold.controls().lineage();
    let commitment = context.interrupt.commitment();
    let job = load::Job {
        profile: &lineage.name,
        chrome_major: lineage.chrome_major,
        sha: args.sha.as_deref(),
        target: place.path(),
        force: false,
        same_owner: false,
        check: args.capture.check,
        commitment: commitment.clone(),
        host_region: args.capture.host_region.clone(),
    };
    let loading = load::load(context, &args.load, job);
    let loaded = guard::prepare(signals, commitment, loading).await?;
    let command = command(&args.command, place.path());
    let environment = [
        (LOCK_TOKEN, OsString::from(hold.token().await.to_string())),
        ("PSTORE_RUN_ID", OsString::from(&hold.controls().actor().run_id)),
        ("PSTORE_PROFILE", place.path().as_os_str().to_owned()),
    ];
    let guarded = guard::run(context, signals, &command, &environment, &keeper).await?;
    if guarded.lost.is_some() {
        return Ok(Session { loaded, guarded, captured: None });
    }
    let captured = capture(context, args, hold, place.path()).await;
    Ok(Session { loaded, guarded, captured: Some(captured) })
}

async fn capture(
    context: &Context,
    args: &RunArgs,
    hold: &Hold,
    directory: &Path,
) -> Result<Captured, Failure> {
    let still = capturing::hold_still(directory, &args.capture).await?;
    let remarks = still.remarks();
    let job = Job {
        tenant: hold.controls().store(),
        lineage: hold.controls().lineage().clone(),
        directory,
        actor: hold.controls().actor().clone(),
        lock: LockUse::Held(hold.token().await),
    };
    let progress = progress::watch(context.console);
    let report = capturing::capture(context, &args.capture, job, still, progress).await?;
    Ok(Captured { report, remarks })
}

/// The lineage: as said, or the newest there is.
async fn lineage(context: &Context, args: &RunArgs) -> Result<Lineage, Failure> {
    let of_version =
        || -> Option<ChromeMajor> { args.load.chrome_version.as_deref()?.split('.').next()?.parse().ok() };
    match args.chrome_major.or_else(of_version) {
        Some(chrome_major) => Ok(Lineage { name: args.profile.clone(), chrome_major }),
        None => {
            let asked = LineageArgs { profile: args.profile.clone(), chrome_major: None };
            Ok(context.writable_lineage(&asked).await?.1)
        }
    }
}

/// Where the profile is while the command runs.
enum Place {
    /// Ours, to be removed.
    Temporary(tempfile::TempDir, PathBuf),
    /// The user's, to be left.
    Named(PathBuf),
}

impl Place {
    fn choose(args: &RunArgs) -> Result<Self, Failure> {
        if let Some(directory) = &args.directory {
            return Ok(Self::Named(std::path::absolute(directory).unwrap_or_else(|_| directory.clone())));
        }
        let made = tempfile::Builder::new().prefix("pstore-run-").tempdir();
        let directory = made.map_err(|error| {
            Failure::new(ErrorKind::Io, format!("no directory can be made for the profile: {error}"))
        })?;
        let profile = directory.path().join("profile");
        Ok(Self::Temporary(directory, profile))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(_, path) | Self::Named(path) => path,
        }
    }

    /// Nobody has used it. What was being loaded into it goes first: threads that are at work
    /// there notice a little later that they need not be.
    async fn abandon(self, context: &Context) {
        let Self::Temporary(directory, _) = self else { return };
        let started = Instant::now();
        // A profile is written beside its place, under a hidden name.
        let is_hidden = |entry: fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_loading = || fs::read_dir(directory.path()).into_iter().flatten().flatten().any(is_hidden);
        while is_loading() && started.elapsed() < LOADING_ENDS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let path = directory.path().to_owned();
        if let Err(error) = directory.close() {
            context.console.warn(&format!("{} could not be removed: {error}", path.display()));
        }
    }

    /// What was not captured is not thrown away.
    fn finish(self, context: &Context, captured: bool) {
        if let Self::Temporary(directory, _) = self
            && !captured
        {
            let kept = directory.keep();
            context
                .console
                .warn(&format!("what was not captured is kept in {}", kept.join("profile").display()));
        }
    }
}

/// The command with the profile's place put in.
fn command(words: &[OsString], profile: &Path) -> Vec<OsString> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let place = profile.as_os_str().as_bytes();
    let mut named = false;
    let mut command: Vec<OsString> = words
        .iter()
        .map(|word| {
            let (mut rest, mut out) = (word.as_bytes(), Vec::new());
            while let Some(at) = rest.windows(PROFILE.len()).position(|part| part == PROFILE.as_bytes()) {
                out.extend_from_slice(&rest[..at]);
                out.extend_from_slice(place);
                rest = &rest[at + PROFILE.len()..];
                named = true;
            }
            out.extend_from_slice(rest);
            OsString::from_vec(out)
        })
        .collect();
    if !named {
        let mut option = OsString::from("--user-data-dir=");
        option.push(OsStr::from_bytes(place));
        command.insert(1.min(command.len()), option);
    }
    command
}

fn answer(
    context: &Context,
    args: &RunArgs,
    lineage: &Lineage,
    loaded: &Loaded,
    guarded: &Guarded,
    captured: Option<Result<Captured, Failure>>,
) -> Answer {
    let mut document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "load": loaded.outcome.as_str(),
        "load_reason": loaded.reason,
        "command_exit_code": guarded.code,
        "lock_lost": guarded.lost.is_some(),
        "snapshot_failed": false,
        "snapshot_error": Value::Null,
        "snapshot": Value::Null,
        "warnings": loaded.warnings,
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
            warnings.iter().for_each(|warning| context.console.warn(warning));
            document["snapshot"] = super::snapshot::document(lineage, &report, &warnings);
            let held_back = capturing::held_back(&report).map(|(kind, message)| {
                Failure::new(kind, message).hint(capturing::moving(lineage, report.record))
            });
            held_back.inspect(|failure| context.console.warn(&failure.message))
        }
        Some(Err(failure)) => {
            context.console.warn(&format!("the profile was not captured: {}", failure.message));
            Some(failure)
        }
        None => None,
    };
    if let Some(failure) = failed {
        document["snapshot_failed"] = json!(true);
        document["snapshot_error"] = failure.document()["error"].take();
        if let Some(hint) = &failure.hint {
            context.console.say(&format!("hint: {hint}"));
        }
        text.push_str("snapshot_failed: true\n");
        if args.load.require {
            (verdict, exit) = (Some((failure.kind, failure.message)), None);
        }
    }
    Answer { verdict, exit, brief: Some(String::new()), ..Answer::new(document, text) }
}
