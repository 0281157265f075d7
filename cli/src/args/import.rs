//! `import` defines the arguments of `pstore import`.

use std::path::PathBuf;

use clap::Args;
use store::name::{ChromeMajor, ProfileName};

use super::{actor::ActorArgs, capture::ChecksArgs};

/// Store an archive as the profile's next snapshot
///
/// Takes a tar archive compressed with zstd, and checks it against its manifest: the one you
/// name, or NAME.manifest.json beside the archive. Unpacks nothing to disk.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:
  pstore import profile-1a2b3c4d5e6f.tar.zst acme/alice
  tar -C udd -c . | zstd | pstore import - acme/alice --chrome-major 131
  pstore import --current acme/alice",
    allow_missing_positional = true
)]
pub(crate) struct ImportArgs {
    /// The archive; - reads it from stdin
    #[arg(required_unless_present = "current")]
    pub(crate) file: Option<PathBuf>,
    #[arg(value_name = "TENANT/PROFILE", help = "The profile of the new snapshot")]
    pub(crate) profile: ProfileName,
    /// Import the archive in the store that another program has made current, instead of a file
    #[arg(long, conflicts_with_all = ["file", "manifest", "force"])]
    pub(crate) current: bool,
    /// The manifest of the archive [default: NAME.manifest.json beside NAME.tar.zst, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// The major version of the Chrome that wrote it [default: from the manifest]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    #[command(flatten)]
    pub(crate) checks: ChecksArgs,
    /// Import even while a run holds the lock, which then can no longer move the pointer, and even
    /// if the pointer is damaged
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}
