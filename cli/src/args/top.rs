//! `top` defines the arguments of `pstore top`.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use engine::verbs::top::ServerUrl;
use store::name::Tenant;

use super::value::interval;

/// Watch runs, mounts, locks and rates, on this host or through a server
///
/// Shows a new frame every few seconds until q is pressed; ? shows the keys. If stdout is no terminal, or with --once or
/// --json, prints one frame and ends.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore top
  pstore top acme --every 10s
  PSTORE_SERVER_TOKEN=... pstore top --server https://pstore.example
  pstore top --server unix:/run/pstore.sock --once")]
pub(crate) struct TopArgs {
    #[arg(value_name = "TENANT", help = "The locks of this tenant; without it, of all tenants")]
    pub(crate) tenant: Option<Tenant>,
    /// Watch through this server: http://HOST:PORT, https://HOST or unix:/path
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<ServerUrl>,
    /// The file with the secret of a token for the server [default: PSTORE_SERVER_TOKEN]
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(crate) token_file: Option<PathBuf>,
    /// The time between frames, as 2s or 1m
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "2s")]
    pub(crate) every: Duration,
    /// Print one frame and end
    #[arg(long)]
    pub(crate) once: bool,
}

impl TopArgs {
    /// Whether it draws frames on a terminal, one after another.
    pub(crate) fn is_live(&self, json: bool) -> bool {
        !self.once && !json && io::stdout().is_terminal()
    }
}
