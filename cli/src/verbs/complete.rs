//! `complete` prints the possible next words of a command line, for the scripts of `pstore completions`.
//!
//! A shell asks it while a user types. So it never fails, prints nothing but words, and never waits long: names come
//! from this host's cache, and if that is old, from the store, within a time that nobody notices.

mod typed_argument;

use std::{ffi::OsString, sync::Arc};

use engine::{
    Engine,
    failure::Failure,
    interrupt::Interrupt,
    mount::live::LiveMount,
    observer::Unobserved,
    settings::Settings,
    verbs::complete::{CompleteRequest, most_time},
};

use self::typed_argument::TypedArgument;
use crate::args;

/// The first argument with which the program answers so.
pub(crate) const VERB: &str = "complete-words";

/// The completions of the last of these words, one on each line.
pub(crate) async fn run(words: Vec<OsString>) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((last, before)) = words.split_last() else { return String::new() };
    let typed = TypedArgument::of(before);
    let found = tokio::time::timeout(most_time() * 2, candidates(&typed, last)).await;
    let mut found = found.ok().and_then(Result::ok).unwrap_or_default();
    found.retain(|candidate| candidate.starts_with(last.as_str()) && !candidate.contains(char::is_control));
    found.iter().map(|candidate| format!("{candidate}\n")).collect()
}

async fn candidates(typed: &TypedArgument, last: &str) -> Result<Vec<String>, Failure> {
    let invocation = args::parse_words(typed.global_line()).map_err(|_| Failure::usage("no such line"))?;
    if typed.is_for("MOUNTPOINT") {
        let live = LiveMount::all(&Settings::load(&invocation.global.overrides())?)?;
        return Ok(live.iter().map(|live| live.info.mountpoint.to_string_lossy().into_owned()).collect());
    }
    let engine = Engine::open(&invocation.global.overrides(), Arc::new(Unobserved), Interrupt::new())?;
    if typed.is_for("REF") {
        let Some(profile) = typed.profile() else { return Ok(Vec::new()) };
        return Ok(engine.complete(&CompleteRequest::Snapshots(profile)).await);
    }
    if typed.takes_references()
        && let Some((profile, _)) = last.split_once('@')
        && let Ok(name) = profile.parse()
    {
        let references = engine.complete(&CompleteRequest::Snapshots(name)).await;
        return Ok(references.iter().map(|reference| format!("{profile}@{reference}")).collect());
    }
    match last.split_once('/') {
        Some((tenant, _)) if typed.takes_profiles() => match tenant.parse() {
            Ok(tenant) => Ok(engine.complete(&CompleteRequest::Profiles(tenant)).await),
            Err(_) => Ok(Vec::new()),
        },
        None if typed.takes_profiles() => {
            let tenants = engine.complete(&CompleteRequest::Tenants).await;
            Ok(tenants.iter().map(|tenant| format!("{tenant}/")).collect())
        }
        None if typed.is_for("TENANT") => Ok(engine.complete(&CompleteRequest::Tenants).await),
        _ => Ok(Vec::new()),
    }
}
