//! `pstore restore`

use std::{fmt::Write, sync::Arc};

use capture::{
    chrome::stop,
    load::{WithoutLeftovers, damaged, made_plain},
};
use engine::{
    failure::Failure,
    text::{size, time},
};
use serde_json::json;
use store::{
    ErrorKind,
    content::workers::blocking,
    format::{record::Record, tree::TreePath},
    name::ChromeMajor,
    ops::{
        point_of_no_return::PointOfNoReturn,
        read::restore::{self, Inspector, Report, Request},
    },
    tree::write::Keeping,
};

use super::{Engine, capture::in_use, inside, load::Job};
use crate::{answer::Answer, args::RestoreArgs};

pub(super) async fn run(
    engine: Engine,
    args: &RestoreArgs,
    point_of_no_return: PointOfNoReturn,
) -> Result<Answer, Failure> {
    super::load::check(&args.load, args.snapshot.chrome_major)?;
    engine.location.keep_apart(&args.target)?;
    require_unused(args).await?;
    if let Some(chrome_major) = for_chrome(args) {
        return load(engine, args, chrome_major, point_of_no_return).await;
    }
    if args.load.require || args.load.normalise_exit {
        let message = match args.paths.is_empty() {
            true => {
                "--require and --normalise-exit go with --chrome-major, which loads a profile for a Chrome"
            }
            false => {
                "--path takes files out of a snapshot: --require and --normalise-exit are for whole profiles"
            }
        };
        return Err(Failure::usage(message));
    }
    let paths =
        args.paths.iter().map(|path| inside::path(path)).collect::<Result<Vec<TreePath>, Failure>>()?;
    let reference = args.snapshot.reference()?;
    let (tenant, lineage) = engine.lineage_to_load(&args.snapshot.lineage()).await?;
    let record = engine.snapshot_to_load(&tenant, &lineage, reference).await?;
    let marked = damaged(&record);
    marked.iter().for_each(|warning| engine.warn(warning));
    let leftovers = Arc::new(WithoutLeftovers::default());
    let request = Request {
        paths: paths.clone(),
        target: args.target.clone(),
        force: args.force,
        keeping: keeping(args),
        threads: engine::threads(),
        // Who names paths gets these, whatever they are.
        inspector: paths.is_empty().then(|| leftovers.clone() as Arc<dyn Inspector>),
        point_of_no_return,
    };
    let progress = engine.progress();
    let restored = restore::restore(&tenant, &record, &request, progress).await;
    let report = restored.map_err(|error| match error.kind() {
        ErrorKind::Damaged => Failure::from(error).hint(format!(
            "`pstore verify {} --chrome-major {} --read-data` shows how much is affected",
            lineage.name, lineage.chrome_major
        )),
        ErrorKind::NotFound if !paths.is_empty() => inside::elsewhere(&record, error),
        _ => error.into(),
    })?;
    let mut warnings = warnings(&report);
    warnings.extend(leftovers.warnings());
    warnings.iter().for_each(|warning| engine.warn(warning));
    warnings.splice(0..0, marked);
    let document = json!({
        "outcome": "restored",
        "reason": null,
        "transforms": [],
        "tenant_id": record.tenant_id,
        "profile_id": record.profile_id,
        "chrome_major_version": record.chrome_major_version,
        "snapshot_id": report.snapshot_id,
        "record": record.record,
        "sha256_prefix": record.sha256_prefix(),
        "archive_sha256": record.archive_sha256,
        "captured_at_ms": record.captured_at_ms,
        "uncompressed_size_bytes": report.bytes,
        "target": args.target,
        "files": report.files,
        "fetched_bytes": report.fetched_bytes,
        "skipped": report.skipped,
        "lost_xattrs": report.lost_xattrs,
        "elapsed_ms": report.elapsed.as_millis() as u64,
        "warnings": warnings,
    });
    let brief = Some(format!("{}\n", report.snapshot_id));
    Ok(Answer { brief, ..Answer::new(document, text(args, &record, &report)) })
}

/// Refuses to take a directory away from a browser that runs on it.
async fn require_unused(args: &RestoreArgs) -> Result<(), Failure> {
    if !args.force || !args.target.is_dir() {
        return Ok(());
    }
    let target = args.target.clone();
    let looked = blocking(move || stop::require_unused(&target).map_err(|error| in_use(&target, error)));
    looked.await.map_err(|error| match error.kind() {
        ErrorKind::InUse => Failure::from(error).hint(
            "close the browser and run this again, or restore to another directory; what it has changed since is in no snapshot",
        ),
        _ => error.into(),
    })
}

fn keeping(args: &RestoreArgs) -> Keeping {
    Keeping { owner: args.same_owner, special: args.preserve_special }
}

/// The Chrome it is loaded for, if it is said.
fn for_chrome(args: &RestoreArgs) -> Option<ChromeMajor> {
    // Some files are no profile.
    if !args.paths.is_empty() {
        return None;
    }
    args.snapshot.chrome_major.or_else(|| args.load.major_of_version())
}

async fn load(
    engine: Engine,
    args: &RestoreArgs,
    chrome_major: ChromeMajor,
    point_of_no_return: PointOfNoReturn,
) -> Result<Answer, Failure> {
    let profile = &args.snapshot.name.profile;
    let job = Job {
        profile,
        chrome_major,
        reference: args.snapshot.reference()?,
        target: &args.target,
        force: args.force,
        keeping: keeping(args),
        check: args.check,
        point_of_no_return,
        host_region: None,
    };
    let loaded = super::load::load(&engine, &args.load, job).await?;
    let document = super::load::document(profile, chrome_major, &args.target, &loaded);
    let text = match (&loaded.record, &loaded.report) {
        (Some(record), Some(report)) => text(args, record, report),
        _ => format!("Made an empty profile at {}\n", args.target.display()),
    };
    let brief = loaded.report.as_ref().map(|report| format!("{}\n", report.snapshot_id));
    Ok(Answer { brief: brief.or_else(|| Some(String::new())), ..Answer::new(document, text) })
}

fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.skipped > 0 {
        let what =
            size::plural(report.skipped, "socket, FIFO or device was", "sockets, FIFOs or devices were");
        warnings.push(format!("{what} not made"));
    }
    if report.lost_xattrs > 0 {
        let what = size::plural(report.lost_xattrs, "extended attribute", "extended attributes");
        warnings.push(format!("the target's file system did not take {what}"));
    }
    warnings.extend(made_plain(report));
    warnings
}

fn text(args: &RestoreArgs, record: &Record, report: &Report) -> String {
    let mut text = String::new();
    let speed = report.bytes as f64 / report.elapsed.as_secs_f64().max(0.001);
    let _ = writeln!(
        text,
        "Restored {} of {}/{} to {} in {}",
        record.sha256_prefix(),
        record.tenant_id,
        record.profile_id,
        args.target.display(),
        size::seconds(report.elapsed)
    );
    let _ = writeln!(
        text,
        "  captured  {} UTC, Chrome {}",
        time::utc(record.captured_at_ms),
        record.chrome_major_version
    );
    let _ = writeln!(text, "  files     {}, {}", size::count(report.files), size::bytes(report.bytes));
    let _ = writeln!(text, "  fetched   {}", size::bytes(report.fetched_bytes));
    let _ = writeln!(text, "  speed     {}/s, every byte verified", size::bytes(speed as u64));
    text
}
