//! `pstore doctor`: one finding per line, and what to do about it.
//!
//! Nothing is changed but for scratch objects in the store, which are removed again.

mod host;
mod place;

use engine::{failure::Failure, text::size};
use serde_json::{Value, json};
use store::{ErrorKind, name::Tenant};

use super::Engine;
use crate::answer::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok,
    Warn,
    /// Nothing that needs it will work; the kind decides the exit code.
    Fail(ErrorKind),
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail(_) => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), advice: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: Status::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(name: &'static str, failure: Failure) -> Self {
        let Failure { kind, message, hint, .. } = failure;
        // Who reads this has run `pstore doctor` already.
        let advice = hint.filter(|hint| !hint.contains("pstore doctor"));
        let advice = advice.unwrap_or_else(|| remedy(kind).to_owned());
        Self { name, status: Status::Fail(kind), found: message, advice: Some(advice) }
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// What helps if nothing better is known: no failure is left without.
fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Denied => "check the credentials, and what they may do",
        ErrorKind::Unavailable => "check --store, --endpoint and the network",
        ErrorKind::StoreRefused => "use another server: this one would lose snapshots",
        ErrorKind::Damaged | ErrorKind::UnsupportedFormat => {
            "bring pstore.json back from a backup, or use the pstore that wrote it"
        }
        _ => "look at what the message names, and make it readable and writable",
    }
}

pub(super) async fn run(engine: Engine, tenant: Option<&Tenant>) -> Result<Answer, Failure> {
    let mut checks = place::checks(&engine, tenant).await;
    checks.push(host::cache(engine.cache_root.as_deref()));
    checks.extend(host::temporary());
    checks.push(host::fuse());
    checks.push(host::databases());
    let failed: Vec<ErrorKind> = checks
        .iter()
        .filter_map(|check| match check.status {
            Status::Fail(kind) => Some(kind),
            _ => None,
        })
        .collect();
    let warned = checks.iter().filter(|check| check.status == Status::Warn).count();
    let document = json!({
        "store": engine.location.shown(),
        "version": env!("CARGO_PKG_VERSION"),
        "checks": checks.iter().map(line).collect::<Vec<Value>>(),
        "failed": failed.len(),
        "warned": warned,
    });
    let verdict = failed
        .first()
        .map(|kind| (*kind, format!("{} failed", size::plural(failed.len() as u64, "check", "checks"))));
    Ok(Answer { verdict, ..Answer::new(document, text(&engine, &checks)) })
}

fn line(check: &Check) -> Value {
    let Check { name, status, found, advice } = check;
    json!({ "name": name, "status": status.name(), "found": found, "advice": advice })
}

fn text(engine: &Engine, checks: &[Check]) -> String {
    let mut text = format!("pstore {} with {}\n", env!("CARGO_PKG_VERSION"), engine.location.shown());
    for Check { name, status, found, advice } in checks {
        text.push_str(&format!("{:<5} {name:<12} {found}\n", status.name()));
        if let Some(advice) = advice {
            text.push_str(&format!("{:<18} -> {advice}\n", ""));
        }
    }
    text
}
