//! `pstore completions`

use serde_json::json;

use crate::{
    answer::Answer,
    args::{self, CompletionsArgs},
};

pub(super) fn run(args: &CompletionsArgs) -> Answer {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "pstore", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    Answer::new(json!({ "shell": args.shell.to_string(), "script": script }), script)
}
