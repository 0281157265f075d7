//! `command` builds the command of `pstore run`: it puts the profile's directory into the words, and takes the store's
//! credentials out of the environment.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::Path,
};

use store::catalog::lock::Hold;

use super::request::RunRequest;
use crate::{
    LOCK_TOKEN,
    failure::Failure,
    host::{supervise, user::User},
};

/// Variables that hold credentials of the store, tell where they are, or are about this run of
/// pstore: the command does not get them.
const CREDENTIALS: [&str; 2] = ["AWS_*", "PSTORE_*"];
/// Variables that are about the user who runs pstore, and mislead another.
const OF_A_USER: [&str; 5] = ["XDG_*", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "MAIL", "SUDO_*"];
/// The variables that every command gets.
const TOLD: [&str; 2] = ["PSTORE_RUN_ID", "PSTORE_PROFILE"];

/// The placeholder of the profile's directory in the command.
const PROFILE: &str = "{profile}";

/// The command with the profile's place put in.
fn words(words: &[OsString], profile: &Path) -> Vec<OsString> {
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

/// The command under a lock, with the environment it may have.
pub(super) async fn command(
    request: &RunRequest,
    user: Option<&User>,
    hold: &Hold,
    profile: &Path,
) -> Result<tokio::process::Command, Failure> {
    let token = hold.token().await.to_string();
    told(request, user, (&hold.handle().actor().run_id, &token), profile)
}

/// The command with the environment it may have, which run it is, and the lock's token; that is
/// empty if there is no lock.
pub(super) fn told(
    request: &RunRequest,
    user: Option<&User>,
    (run_id, token): (&str, &str),
    profile: &Path,
) -> Result<tokio::process::Command, Failure> {
    let told = [
        (LOCK_TOKEN, OsString::from(token)),
        ("PSTORE_RUN_ID", OsString::from(run_id)),
        ("PSTORE_PROFILE", profile.as_os_str().to_owned()),
    ];
    let mut command = supervise::command(&words(&request.command, profile))?;
    command.env_clear().envs(environment(std::env::vars_os(), told, &request.pass_env, user));
    Ok(command)
}

/// Ours, but for what carries credentials of the store and for what is about another user.
fn environment(
    ours: impl Iterator<Item = (OsString, OsString)>,
    told: [(&'static str, OsString); 3],
    passed: &[String],
    user: Option<&User>,
) -> BTreeMap<OsString, OsString> {
    let is_passed = |name: &OsStr| passed.iter().any(|pattern| fits(name, pattern));
    let of_a_user = if user.is_some() { &OF_A_USER[..] } else { &[] };
    let is_withheld = |name: &OsStr| CREDENTIALS.iter().chain(of_a_user).any(|pattern| fits(name, pattern));
    let mut environment: BTreeMap<_, _> =
        ours.filter(|(name, _)| !is_withheld(name) || is_passed(name)).collect();
    for (name, value) in told {
        if TOLD.contains(&name) || is_passed(name.as_ref()) {
            environment.insert(name.into(), value);
        }
    }
    for (name, value) in user.map(User::variables).unwrap_or_default() {
        environment.insert(name.into(), value);
    }
    environment
}

/// A name, or how names begin.
fn fits(name: &OsStr, pattern: &str) -> bool {
    let name = name.as_encoded_bytes();
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> [(&'static str, OsString); 3] {
        [(LOCK_TOKEN, "token".into()), ("PSTORE_RUN_ID", "run".into()), ("PSTORE_PROFILE", "/p".into())]
    }

    fn names(ours: &[&str], passed: &[&str]) -> Vec<String> {
        let ours = ours.iter().map(|name| (OsString::from(name), OsString::from("x")));
        let passed: Vec<String> = passed.iter().map(ToString::to_string).collect();
        let environment = environment(ours, told(), &passed, None);
        environment.into_keys().map(|name| name.into_string().unwrap()).collect()
    }

    const OURS: [&str; 8] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DISPLAY",
        "HOME",
        "PSTORE_LOCK_TOKEN",
        "PSTORE_STORE",
        "XAWS_",
    ];

    #[test]
    fn the_command_gets_no_credentials_of_the_store() {
        assert_eq!(names(&OURS, &[]), ["DISPLAY", "HOME", "PSTORE_PROFILE", "PSTORE_RUN_ID", "XAWS_"]);
    }

    #[test]
    fn what_is_asked_for_is_passed_and_nothing_else() {
        let passed = names(&OURS, &["AWS_ACCESS_KEY_ID", "PSTORE_LOCK_TOKEN"]);
        let more = ["AWS_ACCESS_KEY_ID", "DISPLAY", "HOME", "PSTORE_LOCK_TOKEN", "PSTORE_PROFILE"];
        assert_eq!(passed[..5], more);
        assert_eq!(names(&OURS, &["AWS_*"]).iter().filter(|name| name.starts_with("AWS_")).count(), 3);
        assert_eq!(
            names(&["AWS_REGION"], &["REGION", "aws_region", ""]),
            ["PSTORE_PROFILE", "PSTORE_RUN_ID"]
        );
    }

    #[test]
    fn the_token_that_is_passed_is_the_one_of_this_run() {
        let ours = [(OsString::from(LOCK_TOKEN), OsString::from("of another"))].into_iter();
        let environment = environment(ours, told(), &[LOCK_TOKEN.to_owned()], None);
        assert_eq!(environment[OsStr::new(LOCK_TOKEN)], "token");
    }
}
