//! `browse` defines the arguments of `ls`, `cat` and `find`.

use std::ffi::OsString;

use clap::Args;

use super::profile_ref::ChosenArgs;

/// List the files of a snapshot
///
/// Fetches only metadata.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore ls acme/alice
  pstore ls acme/alice@latest~1 Default -l
  pstore ls acme/alice@before-migration Default/Extensions -R --json")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
    /// The file or directory [default: the whole profile]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<OsString>,
    /// Also print mode, size and time of each
    #[arg(short)]
    pub(crate) long: bool,
    /// Also list the content of directories, at any depth
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// Write one file of a snapshot to stdout
///
/// Fetches only the file's own chunks, and verifies each before it writes it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore cat acme/alice Default/Preferences
  pstore cat acme/alice@latest~1 Default/Cookies > Cookies.old")]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
    /// The file
    #[arg(value_name = "PATH")]
    pub(crate) path: OsString,
}

/// Find files of a snapshot by their names
///
/// In GLOB * stands for any letters but /, ** for any, ? for one, [a-z] for one of these. A
/// GLOB without / matches the name alone, one with / the whole path.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore find acme/alice 'Cookies*'
  pstore find acme/alice 'Default/**/*.ldb'
  pstore find acme/alice Preferences --all")]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
    /// The pattern of the name or the path
    #[arg(value_name = "GLOB")]
    pub(crate) glob: OsString,
    /// Search every snapshot of the profile, the oldest first
    #[arg(long)]
    pub(crate) all: bool,
}
