//! `documents` lists the `--json` documents of this crate's commands, each with its schema.

use engine::{outcome::Outcome, schemas};
use serde_json::Value;

use crate::{serve::ServeOutcome, tokens::IssuedToken};

/// Every document by its name, and its schema.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![("serve", of::<ServeOutcome>("serve")), ("token-new", of::<IssuedToken>("token new"))]
}

fn of<T: Outcome>(verb: &str) -> Value {
    schemas::document::<T>(format!("What `pstore {verb} --json` prints"))
}
