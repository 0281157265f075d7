//! `Global` defines the options of every command.

use std::path::PathBuf;

use clap::{
    Args, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
};
use engine::settings::Overrides;

/// The options as typed; [`engine::settings::Settings`] joins them with the environment and the file.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Where the snapshots are: file:///path or s3://bucket/prefix [env: PSTORE_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// An S3-compatible server [env: PSTORE_S3_ENDPOINT]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// The region of the S3 bucket [env: PSTORE_S3_REGION]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// The cache directory of this host [env: PSTORE_CACHE_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Use no cache on this host
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// The configuration file [env: PSTORE_CONFIG] [default: ~/.config/pstore/pstore.toml]
    #[arg(long, global = true, value_name = "FILE")]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Tell progress on stderr: json, one document on each line
    #[arg(long, global = true, value_name = "FORM", value_enum, conflicts_with = "quiet")]
    pub(crate) progress: Option<ProgressForm>,
    /// No progress and no remarks
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// More remarks; twice for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How progress is told to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressForm {
    Json,
}

impl Global {
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            store: self.store.clone(),
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            cache_dir: self.cache_dir.clone(),
            no_cache: self.no_cache,
            config: self.config.clone(),
        }
    }
}
