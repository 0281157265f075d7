//! `pstore import`

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use capture::{examiner::ProfileExaminer, judge::ArchiveJudge};
use engine::{failure::Failure, names::LineageName, text::size};
use serde_json::json;
use store::{
    Error, ErrorKind,
    catalog::{lineage_handle::LineageHandle, pointer::Flip},
    content::TenantStore,
    format::{
        event::{Actor, EventKind},
        limits,
        manifest::Manifest,
        pointer::{Pointer, Target},
        record::{Reason, Record},
    },
    name::{ChromeMajor, Lineage},
    ops::{
        archive::import::{self, Imported, Request},
        pointer_move,
        read::resolve,
        retention,
        write::snapshot::{Outcome, Report},
    },
};

use super::{Engine, capture as capturing, snapshot};
use crate::{answer::Answer, args::ImportArgs};

const STDIN: &str = "-";
const ARCHIVE: &str = ".tar.zst";
const MANIFEST: &str = ".manifest.json";

pub(super) async fn run(engine: Engine, args: &ImportArgs) -> Result<Answer, Failure> {
    let Some(file) = &args.file else { return current(&engine, args).await };
    let manifest = manifest(&engine, args, file)?;
    let lineage =
        Lineage { name: args.profile.clone(), chrome_major: chrome_major(args, file, manifest.as_ref())? };
    if let Some(manifest) = manifest.as_ref().filter(|manifest| manifest.lineage() != lineage) {
        engine.say(&format!("the archive is of {}, and is stored as {lineage}", manifest.lineage()));
    }
    let stream = require_zstd(open(file)?, file, &lineage)?;
    let tenant = engine.writable_tenant(&lineage.name.tenant).await?;
    let actor = engine.actor(&args.actor.name());
    let controls = LineageHandle::new(tenant.clone(), lineage.clone(), actor.clone());
    let (pointer, _) = engine.pointer_to_move(&controls, args.force).await?;
    let policy = engine.settings.retention(&lineage.name).policy;
    retention::require_room(&tenant, &lineage, &policy, &Reason::Import).await?;
    let base = base(&tenant, &lineage, pointer.as_ref()).await?;
    let request = request(&engine, (args, file), (&tenant, &lineage), &actor, manifest);
    let name = request.name.clone();
    let importing = import::import(&tenant, request, base, stream, engine.progress());
    let mut imported = tokio::select! {
        imported = importing => imported.map_err(|error| refused(error, &name))?,
        () = engine.interrupt.raised() => return Err(Error::Interrupted.into()),
    };
    let mut flip = Flip::Unchanged;
    if imported.held_back.is_none() {
        let job = super::export::policy(&engine, &lineage.name.tenant);
        let told = engine.progress();
        let how = (String::new(), args.force);
        (imported.record, flip) =
            pointer_move::point(&controls, imported.record, EventKind::Import, how, &job, told).await?;
    }
    Ok(answer(&engine, &lineage, imported, flip))
}

/// Takes in the archive that another program has made the current snapshot.
async fn current(engine: &Engine, args: &ImportArgs) -> Result<Answer, Failure> {
    let asked = LineageName { profile: args.profile.clone(), chrome_major: args.chrome_major };
    let (tenant, lineage) = engine.lineage_to_load(&asked).await?;
    let (record, outcome) = match resolve::snapshot(&tenant, &lineage, None).await {
        Err(Error::Foreign { .. }) => {
            engine.adopt(&lineage).await?;
            (resolve::snapshot(&tenant, &lineage, None).await?, Outcome::Stored)
        }
        found => (found?, Outcome::Unchanged),
    };
    let Some(content) = &record.content else {
        return Err(Failure::internal(format!("the snapshot {} has no content", record.record)));
    };
    let report = Report::of(&record, content.snapshot_id, outcome, Flip::Unchanged);
    let warnings = snapshot::warnings(&report, Vec::new());
    warnings.iter().for_each(|warning| engine.warn(warning));
    let mut document = snapshot::document(&lineage, &report, &warnings);
    document["archive_sha256"] = json!(record.archive_sha256);
    document["archive_size_bytes"] = json!(record.archive_size_bytes);
    let brief = Some(format!("{}\n", content.snapshot_id));
    Ok(Answer { brief, ..Answer::new(document, snapshot::text(&lineage, &report)) })
}

/// What is said of the archive: in the file that is named, else in the one beside it.
fn manifest(engine: &Engine, args: &ImportArgs, file: &Path) -> Result<Option<Manifest>, Failure> {
    let beside = || {
        let name = file.file_name()?.to_str()?.strip_suffix(ARCHIVE)?;
        Some(file.with_file_name(format!("{name}{MANIFEST}"))).filter(|path| path.is_file())
    };
    let Some(path) = args.manifest.clone().or_else(beside) else {
        engine.warn("there is no manifest: that the archive is whole cannot be checked");
        return Ok(None);
    };
    let failed = |error: io::Error| Error::io("cannot read", &path, error);
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(failed)?;
    file.take(limits::MANIFEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    let decoded = Manifest::decode(&bytes).map_err(|error| error.of(path.display()));
    Ok(Some(decoded.map_err(|error| refused(error, &path.display().to_string()))?))
}

/// What can be done about an archive, or a manifest, that is not taken in.
fn refused(error: Error, name: &str) -> Failure {
    let is_of_it = matches!(&error, Error::Damaged { object, .. } if object == name);
    match error {
        Error::BadArchive { .. } => Failure::from(error)
            .hint("fetch the archive again, or ask whoever wrote it for another; nothing was published"),
        _ if is_of_it => Failure::from(error).hint(
            "fetch archive and manifest again: they must be of the same snapshot; nothing was published",
        ),
        error => error.into(),
    }
}

fn chrome_major(args: &ImportArgs, file: &Path, manifest: Option<&Manifest>) -> Result<ChromeMajor, Failure> {
    match (args.chrome_major, manifest.map(|manifest| manifest.chrome_major_version)) {
        (Some(given), Some(told)) if given != told => {
            let reason = format!("the archive is of Chrome {told}, and not of Chrome {given}");
            Err(Failure::from(Error::VersionMismatch { reason })
                .hint("leave --chrome-major out: the manifest says it; nothing was published"))
        }
        (Some(major), _) | (None, Some(major)) => Ok(major),
        (None, None) => {
            let message = format!("which Chrome wrote {} is not known", file.display());
            Err(Failure::usage(message)
                .hint("say it with --chrome-major, for example --chrome-major 131, or name a --manifest"))
        }
    }
}

fn open(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if file == Path::new(STDIN) {
        return Ok(Box::new(io::stdin()));
    }
    let opened = File::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(ErrorKind::NotFound, format!("there is no file {}", file.display()))
        }
        _ => Error::io("cannot read", file, error).into(),
    })?;
    Ok(Box::new(opened))
}

/// What other archives than ours begin with: where, with what, what they are, and how they become one.
const OTHERS: [(usize, &[u8], &str, &str); 4] = [
    (0, &[0x1f, 0x8b], "gzip", "gunzip -c"),
    (0, b"BZh", "bzip2", "bunzip2 -c"),
    (0, &[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "unxz -c"),
    (257, b"ustar", "a tar file that is not compressed", "cat"),
];

/// Refuses an archive that is compressed in another way, with the command that changes it.
fn require_zstd(
    stream: Box<dyn Read + Send>,
    file: &Path,
    lineage: &Lineage,
) -> Result<Box<dyn Read + Send>, Failure> {
    let mut stream = io::BufReader::with_capacity(4096, stream);
    let start = io::BufRead::fill_buf(&mut stream).map_err(|error| Error::io("cannot read", file, error))?;
    let found =
        OTHERS.iter().find(|(at, magic, ..)| start.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    let Some((.., kind, reader)) = found else { return Ok(Box::new(stream)) };
    let (name, shown) = (&lineage.name, file.display());
    let message =
        format!("{shown} cannot be imported: it is {kind}, and an archive is tar compressed by zstd");
    Err(Failure::new(ErrorKind::IntegrityFailed, message).hint(format!(
        "`{reader} {shown} | zstd | pstore import - {name} --chrome-major {}`",
        lineage.chrome_major
    )))
}

/// The current snapshot, if it is one of ours that can be built on.
async fn base(
    tenant: &TenantStore,
    lineage: &Lineage,
    pointer: Option<&Pointer>,
) -> Result<Option<Record>, Failure> {
    match pointer.map(Pointer::target) {
        Some(Target::Record(_)) => match resolve::snapshot(tenant, lineage, None).await {
            Ok(record) => Ok(Some(record)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => Ok(None),
            Err(error) => Err(error.into()),
        },
        _ => Ok(None),
    }
}

fn request(
    engine: &Engine,
    (args, file): (&ImportArgs, &Path),
    (tenant, lineage): (&TenantStore, &Lineage),
    actor: &Actor,
    manifest: Option<Manifest>,
) -> Request {
    let settings = engine.settings.tenant(&lineage.name.tenant);
    let name = match file == Path::new(STDIN) {
        true => "the archive".to_owned(),
        false => file.display().to_string(),
    };
    let path = std::path::absolute(file).unwrap_or_else(|_| PathBuf::from(file));
    let source = match file == Path::new(STDIN) {
        true => STDIN.to_owned(),
        false => path.to_string_lossy().into_owned(),
    };
    Request {
        lineage: lineage.clone(),
        name,
        source: ("archive", source),
        manifest,
        about: engine::foreign::about(actor),
        max_bytes: settings.max_profile_bytes,
        quota_bytes: settings.quota_bytes,
        threads: engine::threads(),
        controls: Some(LineageHandle::new(tenant.clone(), lineage.clone(), actor.clone())),
        judge: Some((
            Arc::new(ArchiveJudge(ProfileExaminer {
                policy: args.checks.policy(),
                stopped: None,
                expected: capturing::expected(tenant, &lineage.name),
            })),
            std::env::temp_dir(),
        )),
    }
}

fn answer(engine: &Engine, lineage: &Lineage, imported: Imported, flip: Flip) -> Answer {
    let Imported { record, snapshot_id, outcome, held_back, arrived, skipped, taken_over, elapsed } =
        imported;
    let read_files = record.counts.files;
    let report = Report::of(&record, snapshot_id, outcome, flip);
    let report = Report { held_back, skipped, read_files, taken_over, elapsed, ..report };
    let warnings = snapshot::warnings(&report, Vec::new());
    warnings.iter().for_each(|warning| engine.warn(warning));
    let verdict = capturing::held_back(&report);
    let hint = verdict.is_some().then(|| capturing::moving(lineage, report.record));
    let mut document = snapshot::document(lineage, &report, &warnings);
    document["archive_sha256"] = json!(arrived.sha256);
    document["archive_size_bytes"] = json!(arrived.size);
    let mut text = snapshot::text(lineage, &report);
    text.push_str(&format!("  archive  {}, {}\n", arrived.sha256, size::bytes(arrived.size)));
    let brief = Some(format!("{snapshot_id}\n"));
    Answer { brief, verdict, hint, ..Answer::new(document, text) }
}
