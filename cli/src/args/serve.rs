//! `serve` defines the arguments of the commands for the HTTP server.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use server::{
    listen::Listen,
    tokens::{Lifetime, Role},
    users::SocketUser,
};

use super::value::seconds;

/// Offer profiles over HTTP, to callers that show a token
///
/// Runs until SIGTERM or SIGINT, then finishes the requests that have begun, or fails after --drain. Reads the tokens
/// and certificates again whenever their files change.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore token new --tenant acme --role run >> tokens.toml
  pstore serve --tokens tokens.toml
  pstore serve --tokens tokens.toml --listen unix:/run/pstore.sock
  pstore serve --tokens tokens.toml --listen 0.0.0.0:7070 --tls-cert server.pem --tls-key server.key")]
pub(crate) struct ServeArgs {
    /// The address and port to listen on, with port 0 for any free one; or unix:/path
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    pub(crate) listen: Listen,
    /// The file with the tokens that `pstore token new` has made
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: PathBuf,
    /// A file of at least 32 random bytes that signs the cookies of the page; servers with the same file accept
    /// each other's [default: a new key at every start]
    #[arg(long, value_name = "FILE")]
    pub(crate) login_key: Option<PathBuf>,
    /// The certificate of the server, as PEM, with its chain; encrypts connections
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The authorities of client certificates, as PEM; a client without a certificate needs a token
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Requests per second of a token, or of an address without one; twice as many at once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// Run no jobs, periodic or requested: other servers do
    #[arg(long)]
    pub(crate) no_jobs: bool,
    /// Make mounts below this directory for callers that may not mount; only its owner may have write access
    #[arg(long, value_name = "DIR")]
    pub(crate) mounts: Option<PathBuf>,
    /// Let callers ask for mounts that all users of this host may use, within the modes of the files
    #[arg(long, requires = "mounts")]
    pub(crate) mounts_for_others: bool,
    /// Offer the workspaces directly below this directory to agents, over MCP at /mcp
    #[arg(long, value_name = "DIR")]
    pub(crate) workspaces: Option<PathBuf>,
    /// Store containers of this Docker daemon for callers: each tenant's those with the label pstore.tenant=TENANT
    #[arg(long, value_name = "URL")]
    pub(crate) containers: Option<String>,
    /// Save projects for callers: DIR/TENANT/PROJECT.toml is the file of the tenant's project
    #[arg(long, value_name = "DIR")]
    pub(crate) projects: Option<PathBuf>,
    /// A user of this host that needs no token at unix:/path, with tenant and role, as 1000=acme:run; may be
    /// repeated. Everybody then reaches the socket
    #[arg(long = "socket-user", value_name = "UID=TENANT:ROLE")]
    pub(crate) socket_users: Vec<SocketUser>,
    /// Write each line of the log as a JSON document, with the time of day
    #[arg(long)]
    pub(crate) json_log: bool,
    /// Time for requests to end when the server stops
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub(crate) drain: Duration,
}

/// Make tokens for callers of `pstore serve`
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Example:
  pstore token new --tenant acme --role run --expires 90d >> tokens.toml"
)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) verb: TokenVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    New(TokenNewArgs),
}

/// Make a token: prints its entry for the file to stdout, and its secret, only once, to stderr
///
/// The entry holds only the SHA-256 of the secret. To revoke a token, remove its entry.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore token new --tenant acme --role run --expires 90d >> tokens.toml
  secret=$(pstore token new --tenant '*' --role admin -q 2>&1 >> tokens.toml)")]
pub(crate) struct TokenNewArgs {
    /// The tenant of the token; may be repeated; * for all
    #[arg(long = "tenant", value_name = "NAME", required = true)]
    pub(crate) tenants: Vec<String>,
    /// The rights of its holder; each role includes those before it
    #[arg(long, value_enum)]
    pub(crate) role: RoleArg,
    /// Lifetime of the token, as 90d, 12h or 30m; or never
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub(crate) expires: Lifetime,
    /// Its name in logs and events [default: a random one]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// A [`Role`] as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArg {
    /// Lists snapshots and shows their records
    Read,
    /// Runs agents: holds locks, and reads the files of profiles
    Run,
    /// Operates: moves pointers, tags snapshots
    Operate,
    /// Deletes, and takes locks away
    Admin,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Read => Self::Read,
            RoleArg::Run => Self::Run,
            RoleArg::Operate => Self::Operate,
            RoleArg::Admin => Self::Admin,
        }
    }
}
