//! `cat` turns the arguments of `pstore cat` into a request, and its outcome into text.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
};

use engine::{Engine, failure::Failure, verbs::cat::CatRequest};
use serde_json::Value;

use crate::{answer::Answer, args::CatArgs};

pub(super) async fn run(engine: Engine, args: &CatArgs) -> Result<Answer, Failure> {
    if engine.observer.owns_stdout() {
        let message = "stdout is the file, and has no room for --json";
        return Err(Failure::usage(message).hint("`pstore ls --json` tells about a file"));
    }
    let request = CatRequest {
        snapshot: args.snapshot.choice(),
        path: args.path.clone(),
        is_for_terminal: io::stdout().is_terminal(),
    };
    engine.cat(&request, (io::stdout(), PathBuf::from("stdout"))).await?;
    Ok(Answer::new(Value::Null, String::new()))
}
