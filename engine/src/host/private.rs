//! `private` refuses directories that other users own or can write to.
//!
//! pstore uses their files again without asking: a user who can write to one decides what a browser loads, or which
//! files of this user are overwritten.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use rustix::process::geteuid;

use crate::failure::Failure;

const WRITTEN_BY_OTHERS: u32 = 0o022;

/// Fails if `directory`, which is for `what`, is another user's or can be changed by others. One
/// that is not there yet is made for this user alone. `choose` says how to name another.
pub fn require(directory: &Path, what: &str, choose: &str) -> Result<(), Failure> {
    // Who may not even look at it is told so by whatever comes next.
    let Ok(metadata) = fs::metadata(directory) else { return Ok(()) };
    let (shown, own) = (directory.display(), geteuid().as_raw());
    let another = format!("{choose} names another, for example {}", directory.join("pstore").display());
    if metadata.uid() != own {
        let message = format!("the directory for {what}, {shown}, belongs to user {}", metadata.uid());
        return Err(Failure::usage(message).hint(format!("`chown {own} {shown}` if it is yours; {another}")));
    }
    if metadata.mode() & WRITTEN_BY_OTHERS != 0 {
        let mode = metadata.mode() & 0o7777;
        let message =
            format!("the directory for {what}, {shown}, can be changed by other users (mode {mode:04o})");
        return Err(Failure::usage(message).hint(format!("`chmod go-w {shown}` closes it; {another}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_directory_that_others_can_change_is_refused_with_what_to_type() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let judge = || require(&path, "the cache", "--cache-dir");
        judge().unwrap();
        fs::create_dir(&path).unwrap();
        for (mode, is_fine) in [(0o700, true), (0o755, true), (0o775, false), (0o1777, false), (0o702, false)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match judge() {
                Ok(()) => assert!(is_fine, "{mode:o}"),
                Err(failure) => {
                    assert!(
                        !is_fine && failure.message.contains("can be changed by other users"),
                        "{mode:o}"
                    );
                    let hint = failure.hint.unwrap();
                    assert!(hint.contains(&format!("`chmod go-w {}`", path.display())), "{hint}");
                }
            }
        }
    }
}
