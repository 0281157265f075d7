//! `version` says which pstore this is: its version, its commit, the format it writes, and how it was built.

use std::sync::LazyLock;

use store::format::MAJOR;

/// What `--version` prints after the name; `-V` prints the number alone.
pub(super) static LONG: LazyLock<String> = LazyLock::new(long);

fn long() -> String {
    let commit = match env!("PSTORE_BUILT_FROM") {
        "" => "of an unknown commit",
        commit => commit,
    };
    let kind = if cfg!(debug_assertions) { "debug" } else { "release" };
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    format!(
        "{} ({commit})\nformat   {MAJOR}\ntarget   {}\nfeatures {kind}, {linked}, jemalloc",
        env!("CARGO_PKG_VERSION"),
        env!("PSTORE_BUILT_FOR"),
    )
}
