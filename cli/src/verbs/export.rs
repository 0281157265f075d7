//! `pstore export`

mod told;

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Instant,
};

use engine::{failure::Failure, text::size};
use serde_json::Value;
use store::{
    Error, ErrorKind,
    catalog::lineage_handle::LineageHandle,
    name::{Lineage, Tenant},
    ops::archive::{
        export::{self, Archive, Framing, Request, Times},
        publish::{self, PublishJob},
    },
};

use super::Engine;
use crate::{answer::Answer, args::ExportArgs};

pub(super) async fn run(engine: Engine, args: &ExportArgs) -> Result<Answer, Failure> {
    args.snapshot.reference()?;
    match args.output.as_deref() {
        None => to_store(engine, args).await,
        Some(output) if output == Path::new("-") => to_stdout(engine, args).await,
        Some(output) => to_directory(engine, args, output).await,
    }
}

async fn to_directory(engine: Engine, args: &ExportArgs, output: &Path) -> Result<Answer, Failure> {
    engine.location.keep_apart(output)?;
    let started = Instant::now();
    let (tenant, lineage) = engine.lineage(&args.snapshot.lineage()).await?;
    let record = engine.snapshot(&tenant, &lineage, args.snapshot.reference()?).await?;
    let (request, progress) = (request(&engine, args), engine.progress());
    let exported = export::to_directory(&tenant, &lineage, &record, request, output, progress).await;
    let exported = exported.map_err(|error| explained(error, &lineage))?;
    let warnings = warn(&engine, Some(&exported.archive));
    Ok(told::exported(&record, &exported, request.framing, started.elapsed(), &warnings))
}

/// An archive takes stdout for itself, and a terminal makes nothing of it.
async fn to_stdout(engine: Engine, args: &ExportArgs) -> Result<Answer, Failure> {
    if engine.observer.owns_stdout() {
        return Err(Failure::usage("with -o - stdout is the archive, and has no room for --json"));
    }
    if io::stdout().is_terminal() {
        return Err(Failure::usage("an archive is not for a terminal").hint("pipe it, or name a directory"));
    }
    let (tenant, lineage) = engine.lineage(&args.snapshot.lineage()).await?;
    let record = engine.snapshot(&tenant, &lineage, args.snapshot.reference()?).await?;
    let (request, progress) = (request(&engine, args), engine.progress());
    let out = (io::stdout(), PathBuf::from("stdout"));
    let written = export::write(&tenant, &record, request, out, progress).await;
    let (archive, _) = written.map_err(|error| explained(error, &lineage))?;
    warn(&engine, Some(&archive));
    engine.say(&format!("{}, SHA-256 {}", size::bytes(archive.size_bytes), archive.sha256));
    Ok(Answer::new(Value::Null, String::new()))
}

async fn to_store(engine: Engine, args: &ExportArgs) -> Result<Answer, Failure> {
    let started = Instant::now();
    let (tenant, lineage) = engine.lineage_to_change(&args.snapshot.lineage()).await?;
    let record = engine.snapshot(&tenant, &lineage, args.snapshot.reference()?).await?;
    let controls = LineageHandle::new(tenant, lineage.clone(), engine.actor(&args.actor.name()));
    let job = PublishJob { export: request(&engine, args), always: true, scratch: engine.archive_scratch() };
    let progress = engine.progress();
    let published = publish::publish(&controls, record.record, &job, progress).await;
    let published = published.map_err(|error| explained(error, &lineage))?;
    let warnings = warn(&engine, published.written.as_ref());
    Ok(told::published(&record, &published, job.export.framing, started.elapsed(), &warnings))
}

fn explained(error: Error, lineage: &Lineage) -> Failure {
    match error.kind() {
        ErrorKind::Damaged => Failure::from(error).hint(format!(
            "`pstore verify {} --chrome-major {} --read-data` shows how much is affected",
            lineage.name, lineage.chrome_major
        )),
        _ => error.into(),
    }
}

fn request(engine: &Engine, args: &ExportArgs) -> Request {
    let settings = engine.settings.tenant(&args.snapshot.name.profile.tenant);
    let level = args.level.unwrap_or(settings.archive_level);
    let framing = if args.splice { Framing::Splice } else { engine::archives::solid(level) };
    let times = if args.whole_seconds { Times::Seconds } else { Times::Exact };
    Request { framing, times, seal: None, max_bytes: settings.max_profile_bytes }
}

/// How a tenant's snapshots are published before the pointer is moved to them, and which.
pub(super) fn policy(engine: &Engine, tenant: &Tenant) -> PublishJob {
    engine.publish_policy(tenant)
}

fn warn(engine: &Engine, archive: Option<&Archive>) -> Vec<String> {
    let skipped = archive.map_or(0, |archive| archive.skipped);
    if skipped == 0 {
        return Vec::new();
    }
    let what = size::plural(skipped, "socket, FIFO or device is", "sockets, FIFOs or devices are");
    let warning = format!("{what} not in the archive");
    engine.warn(&warning);
    vec![warning]
}
