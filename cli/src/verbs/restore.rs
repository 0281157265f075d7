//! `restore` turns the arguments of `pstore restore` into a request, and its outcome into text.

use std::fmt::Write;

use engine::{
    Engine, contents,
    failure::Failure,
    text::{size, time},
    verbs::restore::{RestoreOutcome, RestoreRequest},
};

use crate::{answer::Answer, args::RestoreArgs};

impl RestoreArgs {
    fn request(&self) -> Result<RestoreRequest, Failure> {
        Ok(RestoreRequest {
            snapshot: self.snapshot.choice(),
            target: self.target.clone(),
            paths: self.paths.iter().map(|path| contents::path(path)).collect::<Result<_, Failure>>()?,
            force: self.force,
            same_owner: self.same_owner,
            preserve_special: self.preserve_special,
            load: self.load.options(),
            check: self.check.depth(),
        })
    }
}

pub(super) async fn run(engine: Engine, args: &RestoreArgs) -> Result<Answer, Failure> {
    let outcome = engine.restore(&args.request()?).await?;
    let brief = match (outcome.snapshot_id, outcome.files) {
        (Some(snapshot_id), Some(_)) => format!("{snapshot_id}\n"),
        _ => String::new(),
    };
    Ok(Answer { brief: Some(brief), ..Answer::of(&outcome, text(&outcome))? })
}

fn text(outcome: &RestoreOutcome) -> String {
    let (Some(bytes), Some(files)) = (outcome.uncompressed_size_bytes, outcome.files) else {
        return format!("Made an empty profile at {}\n", outcome.target);
    };
    let mut text = String::new();
    let speed = bytes as f64 / outcome.elapsed.as_secs_f64().max(0.001);
    let _ = writeln!(
        text,
        "Restored {} of {}/{} to {} in {}",
        outcome.sha256_prefix.as_deref().unwrap_or_default(),
        outcome.lineage.tenant_id,
        outcome.lineage.profile_id,
        outcome.target,
        size::seconds(outcome.elapsed)
    );
    let captured = time::utc(outcome.captured_at_ms.unwrap_or_default());
    let major = outcome.captured_chrome_major.unwrap_or(outcome.lineage.chrome_major_version);
    let _ = writeln!(text, "  captured  {captured} UTC, Chrome {major}");
    let _ = writeln!(text, "  files     {}, {}", size::count(files), size::bytes(bytes));
    let _ = writeln!(text, "  fetched   {}", size::bytes(outcome.fetched_bytes.unwrap_or_default()));
    let _ = writeln!(text, "  speed     {}/s, every byte verified", size::bytes(speed as u64));
    text
}
