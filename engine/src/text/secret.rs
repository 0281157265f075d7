//! `secret` keeps logins in URLs usable, and never shows them.
//!
//! A login in `--endpoint https://user:password@host` is for the server, and not for readers of a log. The program
//! passes every URL that it prints through [`hidden`].

use std::borrow::Cow;

use parking_lot::Mutex;

/// The replacement for a login.
const HIDDEN: &str = "***@";

/// The logins of the URLs that were read, each with its `@`.
static LOGINS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes note of the login in a URL, before anything else is done with it.
pub fn note(url: &str) {
    let Some(login) = login(url) else { return };
    let mut logins = LOGINS.lock();
    if !logins.contains(&login) {
        logins.push(login);
    }
}

/// The text without any login that was noted.
pub fn hidden(text: &str) -> Cow<'_, str> {
    let logins = LOGINS.lock();
    let mut shown = Cow::Borrowed(text);
    for login in logins.iter().filter(|login| text.contains(login.as_str())) {
        shown = Cow::Owned(shown.replace(login.as_str(), HIDDEN));
    }
    shown
}

/// All between the scheme and the last `@`: a password may hold any character.
fn login(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (login, _) = rest.rsplit_once('@')?;
    Some(format!("{login}@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_hidden_wherever_it_is_quoted() {
        assert_eq!(hidden("http://host:9000 and me@host"), "http://host:9000 and me@host");
        note("https://host:9000/path");
        note("http://me:hush/hush@host:9000");
        note("http://token@other");
        assert_eq!(
            hidden("no answer from http://me:hush/hush@host:9000, nor token@other"),
            "no answer from http://***@host:9000, nor ***@other"
        );
    }
}
