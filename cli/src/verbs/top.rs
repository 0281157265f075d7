//! `top` turns the arguments of `pstore top` into a view, and shows it: frame by frame on a terminal, else once.

use std::{fs, time::Duration};

use engine::{
    Engine,
    failure::Failure,
    settings::Settings,
    verbs::top::{HostView, ServerAccess, ServerUrl, ServerView, TopView},
};
use store::Error;

use crate::{
    answer::Answer,
    args::TopArgs,
    console::Console,
    top::{live, plain},
};

/// The environment variable with the secret of a token.
const TOKEN: &str = "PSTORE_SERVER_TOKEN";
/// How long a frame waits for the store, where others follow.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the only frame does.
const LONG_PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(
    engine: impl FnOnce() -> Result<Engine, Failure>,
    settings: &Settings,
    console: Console,
    args: &TopArgs,
) -> Result<Answer, Failure> {
    let is_live = args.is_live(console.json);
    let mut view = match &args.server {
        Some(url) => {
            TopView::Server(Box::new(ServerView::new(access(url, settings, args)?, args.tenant.clone())))
        }
        None => {
            let patience = if is_live { PATIENCE } else { LONG_PATIENCE };
            TopView::Host(Box::new(HostView::new(settings, engine(), args.tenant.clone(), patience)))
        }
    };
    if is_live {
        return live::watch(view, args.every).await;
    }
    let seen = view.look().await;
    Answer::of(&seen, plain::frame(&seen))
}

fn access(url: &ServerUrl, settings: &Settings, args: &TopArgs) -> Result<ServerAccess, Failure> {
    let token = match &args.token_file {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| Error::io("cannot read", path, error))?;
            Some(text.trim().to_owned())
        }
        None => settings.of_this_run(TOKEN),
    };
    ServerAccess::new(url.clone(), token)
}
