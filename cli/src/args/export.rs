//! `export` defines the arguments of `pstore export`.

use std::path::PathBuf;

use clap::Args;

use super::{actor::ActorArgs, profile_ref::ChosenArgs};

/// Write a snapshot as an archive that any tar reads, with its manifest
///
/// -o writes to a directory. --publish writes to the store, for programs that know only the
/// contract; `latest.json` then names the archive, if the snapshot is the current one.
///
/// The archive is called profile-<12 digits>.tar.zst, after its SHA-256. pstore verifies every
/// byte before it writes it. Each file appears when it is complete, or not at all.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore export acme/alice -o ./archives
  pstore export acme/alice@3f2a91 --splice -o ./archives
  pstore export acme/alice -o - | zstd -d | tar -x -C ./udd
  pstore export acme/alice --publish")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
    /// The directory to write to; `-` writes the archive alone, to stdout
    #[arg(short, long, value_name = "DIR", required_unless_present = "publish")]
    pub(crate) output: Option<PathBuf>,
    /// Put archive and manifest into the store
    #[arg(long, conflicts_with = "output")]
    pub(crate) publish: bool,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Do not compress anew: many times faster, for readers that handle several zstd frames
    #[arg(long)]
    pub(crate) splice: bool,
    /// The zstd level, 1 to 22 [default: 9, or as configured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22), conflicts_with = "splice")]
    pub(crate) level: Option<i32>,
    /// Leave out parts of a second in times; they take a kilobyte for nearly every file
    #[arg(long)]
    pub(crate) whole_seconds: bool,
}
