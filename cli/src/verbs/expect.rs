//! `pstore expect`

use engine::{failure::Failure, names::LineageName, text::escape};
use serde_json::{Value, json};
use store::{
    Error, ErrorKind,
    catalog::expectations::{self, Changed},
    format::expectations::{Expectations, MAX_OF_A_KIND},
    name::ProfileName,
};

use super::Engine;
use crate::{answer::Answer, args::ExpectArgs};

pub(super) async fn run(engine: Engine, args: &ExpectArgs) -> Result<Answer, Failure> {
    let name = &args.profile;
    let names_something = !(args.cookies.is_empty() && args.origins.is_empty() && args.files.is_empty());
    if args.remove && !names_something {
        let message = "--remove goes with --cookie, --origin or --file";
        return Err(
            Failure::usage(message).hint(format!("`pstore expect {name} --clear` expects nothing any more"))
        );
    }
    if !names_something && !args.clear {
        let tenant = engine.tenant(&name.tenant).await?;
        engine.chosen(&tenant, &any_major(name)).await?;
        let found = expectations::read(&tenant, name).await.map_err(|error| unreadable(name, error))?;
        return Ok(answer(name, found.as_ref(), "shown"));
    }
    let tenant = engine.tenant_to_change(&name.tenant).await?;
    engine.chosen(&tenant, &any_major(name)).await?;
    let change = |expected: &mut Expectations| match args.remove {
        true => remove(args, expected),
        false => add(args, expected),
    };
    let actor = engine.actor(&args.actor.name());
    let Changed { expectations, changed } = expectations::change(&tenant, name, &actor, args.clear, change)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::from(error).hint(format!("`pstore expect {name}` shows what is expected"))
            }
            _ => unreadable(name, error),
        })?;
    Ok(answer(name, Some(&expectations), if changed { "changed" } else { "unchanged" }))
}

/// The profile, which must be there and not deleted: its expectations are of every Chrome.
fn any_major(name: &ProfileName) -> LineageName {
    LineageName { profile: name.clone(), chrome_major: None }
}

/// A document that cannot be read holds captures back: says how to be rid of it.
fn unreadable(name: &ProfileName, error: Error) -> Failure {
    let unreadable = expectations::is_unreadable(&error);
    let failure = Failure::from(error);
    match unreadable {
        true => failure.hint(format!("`pstore expect {name} --clear` makes it anew, expecting nothing")),
        false => failure,
    }
}

/// Whether anything was not expected before.
fn add(args: &ExpectArgs, expected: &mut Expectations) -> store::Result<bool> {
    let added = [
        join(&mut expected.cookies, &args.cookies),
        join(&mut expected.origins, &args.origins),
        join(&mut expected.files, &args.files),
    ];
    let most = expected.cookies.len().max(expected.origins.len()).max(expected.files.len());
    if most > MAX_OF_A_KIND {
        let what = format!("{most} things of a kind cannot be expected: {MAX_OF_A_KIND} are the most");
        return Err(Error::InvalidInput { what });
    }
    Ok(added.contains(&true))
}

fn join<T: Clone + Ord>(all: &mut Vec<T>, more: &[T]) -> bool {
    let before = all.len();
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    all.sort();
    all.len() > before
}

fn remove(args: &ExpectArgs, expected: &mut Expectations) -> store::Result<bool> {
    let Expectations { cookies, origins, files, .. } = expected;
    take(cookies, &args.cookies, "cookie")?;
    take(origins, &args.origins, "origin")?;
    take(files, &args.files, "file")?;
    Ok(true)
}

fn take<T: PartialEq + ToString>(all: &mut Vec<T>, these: &[T], kind: &str) -> store::Result<()> {
    for one in these {
        let Some(at) = all.iter().position(|expected| expected == one) else {
            return Err(Error::NotFound { what: format!("an expectation of {kind} {}", one.to_string()) });
        };
        all.remove(at);
    }
    Ok(())
}

fn answer(name: &ProfileName, expected: Option<&Expectations>, outcome: &str) -> Answer {
    let expected = expected.filter(|expected| expected.revision > 0);
    let document = json!({
        "outcome": outcome,
        "tenant_id": name.tenant,
        "profile_id": name.profile,
        "revision": expected.map_or(0, |expected| expected.revision),
        "changed_at_ms": expected.map(|expected| expected.changed_at_ms),
        "by": expected.map(|expected| {
            let by = &expected.by;
            json!({ "run_id": by.run_id, "host": by.host, "host_run_id": by.host_run_id })
        }),
        "cookies": expected.map_or_else(Vec::new, |expected| expected.cookies.clone()),
        "origins": expected.map_or_else(Vec::new, |expected| expected.origins.clone()),
        "files": expected.map_or_else(Vec::<String>::new, |expected| expected.files.clone()),
    });
    let text = match expected.filter(|expected| !expected.is_empty()) {
        None => format!("nothing is expected of {name}\n"),
        Some(expected) => {
            let cookies = expected.cookies.iter().map(|cookie| format!("  cookie  {cookie}"));
            let origins = expected.origins.iter().map(|origin| format!("  origin  {origin}"));
            let files = expected.files.iter().map(|file| format!("  file    {file}"));
            let lines = cookies.chain(origins).chain(files);
            let lines: String = lines.map(|line| format!("{}\n", escape::line(&line))).collect();
            format!("a snapshot of {name} is held back as logged out unless it has\n{lines}")
        }
    };
    Answer::new(document, text)
}

/// What is missing of what was expected, and which cookie lapses first, for documents.
pub(super) fn found(record: &store::format::record::Record) -> (Value, Value) {
    let expected = record.health.as_ref().and_then(|health| health.expected.as_ref());
    let missing = expected.map(|expected| {
        let missing = expected.missing.iter();
        let told = missing.map(|it| json!({ "kind": it.kind, "name": it.name, "why": it.why }));
        told.collect::<Vec<Value>>()
    });
    let first = expected.and_then(|expected| expected.first_lapse());
    let first =
        first.map(|(cookie, at)| json!({ "host": cookie.host, "name": cookie.name, "lapses_at_ms": at }));
    (json!(missing.unwrap_or_default()), json!(first))
}

/// What is missing, for people.
pub(super) fn missing(record: &store::format::record::Record) -> Option<String> {
    let expected = record.health.as_ref()?.expected.as_ref()?;
    let names: Vec<String> =
        expected.missing.iter().map(|missing| format!("{} {}", missing.kind, missing.name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
