//! `expect` turns the arguments of `pstore expect` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::escape,
    verbs::expect::{ExpectOutcome, ExpectRequest},
};

use crate::{answer::Answer, args::ExpectArgs};

pub(super) async fn run(engine: Engine, args: &ExpectArgs) -> Result<Answer, Failure> {
    let request = ExpectRequest {
        profile: args.profile.clone(),
        cookies: args.cookies.clone(),
        origins: args.origins.clone(),
        files: args.files.clone(),
        remove: args.remove,
        clear: args.clear,
        actor: args.actor.name(),
    };
    let outcome = engine.expect(&request).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &ExpectOutcome) -> String {
    let name = format!("{}/{}", outcome.tenant_id, outcome.profile_id);
    let cookies = outcome.cookies.iter().map(|cookie| format!("  cookie  {}:{}", cookie.host, cookie.name));
    let origins = outcome.origins.iter().map(|origin| format!("  origin  {origin}"));
    let files = outcome.files.iter().map(|file| format!("  file    {file}"));
    let lines = cookies.chain(origins).chain(files);
    let lines: String = lines.map(|line| format!("{}\n", escape::line(&line))).collect();
    match lines.is_empty() {
        true => format!("nothing is expected of {name}\n"),
        false => format!("a snapshot of {name} is held back as logged out unless it has\n{lines}"),
    }
}
