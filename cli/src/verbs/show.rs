//! `show` turns the arguments of `pstore show` into a request, and its outcome into text.

use capture::examiner::LOGGED_OUT;
use engine::{
    Engine,
    failure::Failure,
    text::{escape, size, time},
    verbs::show::{ShowOutcome, ShowRequest},
};
use store::format::{
    health::{Cookies, Expected, Health},
    manifest::Manifest,
    record::{CapturedIn, Record, Tag},
};

use crate::{answer::Answer, args::ShowArgs};

pub(super) async fn run(engine: Engine, args: &ShowArgs) -> Result<Answer, Failure> {
    let outcome = engine.show(&ShowRequest { snapshot: args.snapshot.choice() }).await?;
    let (text, brief) = match &outcome {
        ShowOutcome::Snapshot(record) => {
            (text(record), record.content.as_ref().map(|content| format!("{}\n", content.snapshot_id)))
        }
        ShowOutcome::Archive(manifest) => (archive(manifest), Some(format!("{}\n", manifest.archive_sha256))),
    };
    Ok(Answer { brief, ..Answer::of(&outcome, text)? })
}

/// An archive of another program as its manifest tells of it.
fn archive(manifest: &Manifest) -> String {
    let by = &manifest.captured_by;
    let mut lines = vec![
        ("archive", format!("{}, {}", manifest.archive_sha256, size::bytes(manifest.archive_size_bytes))),
        ("stored by", "another program; a rollback to it, or a load of it, takes it in".to_owned()),
        ("profile", format!("{}/{}", manifest.tenant_id, manifest.profile_id)),
        ("chrome", manifest.chrome_major_version.to_string()),
        ("captured", format!("{} UTC, {}", time::utc(manifest.captured_at_ms), manifest.mode.as_str())),
        ("by", format!("{}, {}, {}", by.host, by.host_run_id, by.writer_version)),
        ("size", size::bytes(manifest.uncompressed_size_bytes)),
    ];
    if let Some(place) = &manifest.captured_in {
        lines.extend(region(place));
    }
    if !manifest.predecessor_sha256.is_empty() {
        lines.push(("follows", manifest.predecessor_sha256.clone()));
    }
    if !manifest.notes.is_empty() {
        lines.push(("notes", manifest.notes.clone()));
    }
    escape::fields(&lines)
}

fn text(record: &Record) -> String {
    let counts = &record.counts;
    let id =
        record.content.as_ref().map_or_else(|| "none".to_owned(), |content| content.snapshot_id.to_string());
    let by = &record.captured_by;
    let mut lines = vec![
        ("snapshot", id),
        ("record", record.record.to_string()),
        ("profile", format!("{}/{}", record.tenant_id, record.profile_id)),
        ("chrome", chrome(record)),
        (
            "captured",
            format!(
                "{} UTC, {}, {}",
                time::utc(record.captured_at_ms),
                record.mode.as_str(),
                record.reason.as_str()
            ),
        ),
        ("by", join(&[&by.host, &by.host_run_id, &by.writer_version])),
        ("size", size::bytes(record.uncompressed_size_bytes)),
        ("files", files(record)),
        (
            "new",
            format!(
                "{} in {} of {}",
                size::bytes(counts.new_bytes),
                size::count(counts.new_chunks),
                size::plural(counts.chunks, "chunk", "chunks")
            ),
        ),
        ("stored", size::bytes(counts.stored_bytes)),
    ];
    if let Some(damage) = &record.damage {
        let (lost, all) = (size::count(damage.files), size::plural(counts.files, "file", "files"));
        let found = time::utc(damage.found_at_ms);
        lines.push(("damaged", format!("{lost} of {all} cannot be read, found {found} UTC")));
    }
    if let Some(health) = &record.health {
        lines.push(("browser", browser(health)));
        lines.push(("databases", databases(health)));
        if let Some(cookies) = &health.cookies {
            lines.push(("cookies", cookies_line(cookies)));
        }
        lines.extend(health.expected.as_ref().map(|expected| ("expected", expected_line(expected))));
    }
    if let Some(reason) = &record.held_back {
        lines.push(("held back", format!("{reason}: the pointer was not moved to it by itself")));
    }
    if let Some(reason) = &record.fallback {
        lines.push(("afresh", format!("{reason}: the session had started with an empty profile")));
    }
    if let Some(place) = &record.captured_in {
        lines.extend(region(place));
    }
    if !record.predecessor_sha256.is_empty() {
        lines.push(("follows", record.predecessor_sha256.clone()));
    }
    if let Some(sha) = &record.archive_sha256 {
        let size = record.archive_size_bytes.map(size::bytes).unwrap_or_default();
        lines.push(("archive", join(&[sha, &size])));
    }
    lines.extend(record.sources.iter().map(|source| ("source", format!("{} {}", source.kind, source.path))));
    if !record.exclusions.is_empty() {
        lines.push(("without", record.exclusions.join(", ")));
    }
    lines.extend(record.labels.iter().map(|(key, value)| ("label", format!("{key}={value}"))));
    let tagged =
        |(name, tag): (&String, &Tag)| ("tag", format!("{name}, {} UTC", time::utc(tag.tagged_at_ms)));
    lines.extend(record.tags.iter().map(tagged));
    if !record.notes.is_empty() {
        lines.push(("notes", record.notes.clone()));
    }
    escape::fields(&lines)
}

/// Where it was captured, as far as that is known.
fn region(place: &CapturedIn) -> Option<(&'static str, String)> {
    let geo = place.egress_ip_geo.as_ref();
    let from = geo.map(|geo| format!("requests from {}", join_with(&[&geo.country, &geo.region], "/")));
    let told = join(&[&place.host_region, from.as_deref().unwrap_or_default()]);
    (!told.is_empty()).then_some(("region", told))
}

fn browser(health: &Health) -> String {
    match health.ended.as_str() {
        "not_running" => "was not running".to_owned(),
        "running" => "ran on".to_owned(),
        ended => format!("{ended} in {} ms", health.stop_ms),
    }
}

fn databases(health: &Health) -> String {
    let mut parts = vec![format!("{} checked ({})", size::count(health.checked), health.depth)];
    for (found, word) in [(&health.damaged, "damaged"), (&health.unchecked, "not checked")] {
        parts.extend(found.iter().map(|finding| format!("{} {word}: {}", finding.path, finding.problem)));
    }
    parts
        .extend(health.hot_journals.iter().map(|path| format!("{path} with a journal that is still needed")));
    if !health.recovered.is_empty() {
        parts.push(format!("{} recovered when they are opened", size::count(health.recovered.len() as u64)));
    }
    parts.join("; ")
}

fn expected_line(expected: &Expected) -> String {
    if expected.missing.is_empty() {
        return match expected.first_lapse() {
            Some((cookie, at)) => {
                format!("all there; {}:{} lapses first, {} UTC", cookie.host, cookie.name, time::utc(at))
            }
            None => "all there".to_owned(),
        };
    }
    let missing = expected.missing.iter().map(|it| format!("{} {}: {}", it.kind, it.name, it.why));
    format!("{LOGGED_OUT}: {}", missing.collect::<Vec<_>>().join("; "))
}

fn cookies_line(cookies: &Cookies) -> String {
    let mut line = size::plural(cookies.rows, "cookie", "cookies");
    if cookies.v11 > 0 {
        line.push_str(&format!(
            ", {} of which will not decrypt on another host (v11)",
            size::count(cookies.v11)
        ));
    }
    line
}

fn chrome(record: &Record) -> String {
    let major = record.chrome_major_version.to_string();
    let version = record.chrome_last_version.as_ref().map(|version| format!("last run {version}"));
    let exit = record.exit_type.as_ref().map(|exit| format!("ended {exit}"));
    let parts: Vec<String> = [Some(major), version, exit].into_iter().flatten().collect();
    parts.join(", ")
}

fn files(record: &Record) -> String {
    let counts = &record.counts;
    let mut parts = vec![
        size::plural(counts.files, "file", "files"),
        size::plural(counts.directories, "directory", "directories"),
    ];
    if counts.symlinks > 0 {
        parts.push(size::plural(counts.symlinks, "symbolic link", "symbolic links"));
    }
    if counts.hard_links > 0 {
        parts.push(size::plural(counts.hard_links, "hard link", "hard links"));
    }
    if counts.skipped > 0 {
        parts.push(format!("{} left out", size::count(counts.skipped)));
    }
    parts.join(", ")
}

fn join(parts: &[&str]) -> String {
    join_with(parts, ", ")
}

fn join_with(parts: &[&str], between: &str) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(between)
}
