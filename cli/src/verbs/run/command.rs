//! The command's words and its environment.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use store::catalog::lock::Hold;

use super::super::context::LOCK_TOKEN;

/// What stands for the profile's directory in the command.
const PROFILE: &str = "{profile}";

/// The command with the profile's place put in.
pub(super) fn words(words: &[OsString], profile: &Path) -> Vec<OsString> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let place = profile.as_os_str().as_bytes();
    let mut named = false;
    let mut command: Vec<OsString> = words
        .iter()
        .map(|word| {
            let (mut rest, mut out) = (word.as_bytes(), Vec::new());
            while let Some(at) = rest.windows(PROFILE.len()).position(|part| part == PROFILE.as_bytes()) {
                out.extend_from_slice(&rest[..at]);
                out.extend_from_slice(place);
                rest = &rest[at + PROFILE.len()..];
                named = true;
            }
            out.extend_from_slice(rest);
            OsString::from_vec(out)
        })
        .collect();
    if !named {
        let mut option = OsString::from("--user-data-dir=");
        option.push(OsStr::from_bytes(place));
        command.insert(1.min(command.len()), option);
    }
    command
}

/// What the command is told besides.
pub(super) async fn environment(hold: &Hold, profile: &Path) -> [(&'static str, OsString); 3] {
    [
        (LOCK_TOKEN, OsString::from(hold.token().await.to_string())),
        ("PSTORE_RUN_ID", OsString::from(&hold.controls().actor().run_id)),
        ("PSTORE_PROFILE", profile.as_os_str().to_owned()),
    ]
}
