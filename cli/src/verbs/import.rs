//! `import` turns the arguments of `pstore import` into a request, and its outcome into text.

use std::{io, path::Path};

use engine::{
    Engine,
    failure::Failure,
    text::size,
    verbs::import::{ImportOutcome, ImportRequest, ImportSource},
};

use super::snapshot;
use crate::{answer::Answer, args::ImportArgs};

const STDIN: &str = "-";

impl ImportArgs {
    fn request(&self) -> ImportRequest {
        ImportRequest {
            source: match &self.file {
                Some(file) if file == Path::new(STDIN) => ImportSource::Stream,
                Some(file) => ImportSource::File(file.clone()),
                None => ImportSource::Current,
            },
            profile: self.profile.clone(),
            manifest: self.manifest.clone(),
            chrome_major: self.chrome_major,
            checks: self.checks.options(),
            force: self.force,
            lock_token: None,
            only_from: None,
            goes_back: true,
            actor: self.actor.name(),
        }
    }
}

pub(super) async fn run(engine: Engine, args: &ImportArgs) -> Result<Answer, Failure> {
    let request = args.request();
    let outcome = match &request.source {
        ImportSource::Stream => engine.import_stream(&request, Box::new(io::stdin())).await?,
        _ => engine.import(&request).await?,
    };
    let brief = Some(format!("{}\n", outcome.captured.snapshot_id));
    Ok(Answer { brief, ..Answer::of(&outcome, text(&request, &outcome))? })
}

fn text(request: &ImportRequest, outcome: &ImportOutcome) -> String {
    let mut text = snapshot::text(&outcome.captured);
    if let (Some(sha256), Some(bytes)) = (&outcome.archive_sha256, outcome.archive_size_bytes)
        && request.source != ImportSource::Current
    {
        text.push_str(&format!("  archive  {sha256}, {}\n", size::bytes(bytes)));
    }
    text
}
