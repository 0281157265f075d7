//! `export` turns the arguments of `pstore export` into a request, and its outcome into text.

use std::{
    fmt::Write,
    io::{self, IsTerminal},
    path::Path,
};

use engine::{
    Engine,
    failure::Failure,
    text::{size, time},
    verbs::export::{ExportChange, ExportDestination, ExportOutcome, ExportRequest},
};
use serde_json::Value;

use crate::{answer::Answer, args::ExportArgs};

impl ExportArgs {
    fn request(&self) -> ExportRequest {
        ExportRequest {
            snapshot: self.snapshot.choice(),
            destination: match self.output.as_deref() {
                None => ExportDestination::Store,
                Some(output) if output == Path::new("-") => ExportDestination::Stream,
                Some(output) => ExportDestination::Directory(output.to_owned()),
            },
            actor: self.actor.name(),
            splice: self.splice,
            level: self.level,
            whole_seconds: self.whole_seconds,
        }
    }
}

pub(super) async fn run(engine: Engine, args: &ExportArgs) -> Result<Answer, Failure> {
    let request = args.request();
    if request.destination == ExportDestination::Stream {
        return to_stdout(engine, &request).await;
    }
    let outcome = engine.export(&request).await?;
    let brief = Some(format!("{}\n", outcome.archive));
    Ok(Answer { brief, ..Answer::of(&outcome, text(&outcome))? })
}

/// An archive takes stdout for itself, and a terminal makes nothing of it.
async fn to_stdout(engine: Engine, request: &ExportRequest) -> Result<Answer, Failure> {
    request.snapshot.reference()?;
    if engine.observer.owns_stdout() {
        return Err(Failure::usage("with -o - stdout is the archive, and has no room for --json"));
    }
    if io::stdout().is_terminal() {
        return Err(Failure::usage("an archive is not for a terminal").hint("pipe it, or name a directory"));
    }
    let archive = engine.export_stream(request, io::stdout(), "stdout").await?;
    engine.say(&format!("{}, SHA-256 {}", size::bytes(archive.size_bytes), archive.sha256));
    Ok(Answer::new(Value::Null, String::new()))
}

fn text(outcome: &ExportOutcome) -> String {
    let mut text = String::new();
    let word = match outcome.outcome {
        ExportChange::Exported => "Exported",
        ExportChange::Published => "Published",
        ExportChange::Unchanged => "Published before:",
    };
    let _ = writeln!(
        text,
        "{word} {} of {}/{} in {}",
        outcome.sha256_prefix,
        outcome.lineage.tenant_id,
        outcome.lineage.profile_id,
        size::seconds(outcome.elapsed)
    );
    let (captured, major) = (time::utc(outcome.captured_at_ms), outcome.lineage.chrome_major_version);
    let _ = writeln!(text, "  captured  {captured} UTC, Chrome {major}");
    let uncompressed = size::bytes(outcome.uncompressed_size_bytes);
    let _ = writeln!(text, "  files     {}, {uncompressed}", size::count(outcome.snapshot_files));
    let (bytes, sha256) = (size::bytes(outcome.archive_size_bytes), outcome.archive_sha256);
    let _ = writeln!(text, "  archive   {bytes}, SHA-256 {sha256}");
    let _ = writeln!(text, "            {}", outcome.archive);
    let _ = writeln!(text, "  manifest  {}", outcome.manifest);
    if let Some(is_current) = outcome.current {
        let names = if is_current { "names it" } else { "names another snapshot" };
        let _ = writeln!(text, "  pointer   {names}");
    }
    text
}
