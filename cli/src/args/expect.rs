//! `expect` defines the arguments of `pstore expect`.

use clap::Args;
use store::{
    format::expectations::{
        CookieName, MAX_HOST_BYTES, MAX_NAME_BYTES, MAX_ORIGIN_BYTES, MAX_PATH_BYTES, is_path, is_text,
    },
    name::ProfileName,
};

use super::actor::ActorArgs;

/// Set what a profile must contain; pstore holds back a snapshot without it as logged out
///
/// Every capture of the profile is judged by it, on every host: by `snapshot`, `run`, `commit` and
/// `import`. Without options, `expect` shows the expectations.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore expect acme/alice --cookie .example.com:sid --origin https://app.example.com
  pstore expect acme/alice --file Default/Preferences
  pstore expect acme/alice
  pstore expect acme/alice --cookie .example.com:sid --remove")]
pub(crate) struct ExpectArgs {
    #[arg(value_name = "TENANT/PROFILE", help = "The profile")]
    pub(crate) profile: ProfileName,
    /// A cookie that must exist and not have lapsed, by host and name; may be repeated
    #[arg(long = "cookie", value_name = "HOST:NAME", value_parser = cookie)]
    pub(crate) cookies: Vec<CookieName>,
    /// An origin that must keep something in Local Storage or have an IndexedDB; may be repeated
    #[arg(long = "origin", value_name = "ORIGIN", value_parser = origin)]
    pub(crate) origins: Vec<String>,
    /// A file, or a directory with files, that must exist, by its path in the profile; may be repeated
    #[arg(long = "file", value_name = "PATH", value_parser = file)]
    pub(crate) files: Vec<String>,
    /// Remove these expectations
    #[arg(long)]
    pub(crate) remove: bool,
    /// Remove all expectations
    #[arg(long, conflicts_with_all = ["cookies", "origins", "files", "remove"])]
    pub(crate) clear: bool,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

/// `.example.com:sid`
fn cookie(text: &str) -> Result<CookieName, String> {
    let host_end = if text.starts_with('[') { text.find(']').map(|at| at + 1) } else { text.find(':') };
    let parts = host_end.and_then(|end| Some((&text[..end], text[end..].strip_prefix(':')?)));
    match parts {
        Some((host, name))
            if is_text(host, MAX_HOST_BYTES)
                && is_text(name, MAX_NAME_BYTES)
                && host != "."
                && !host.contains(['/', ' '])
                // A URL has a host, and is none.
                && !name.starts_with("//") =>
        {
            Ok(CookieName { host: host.to_ascii_lowercase(), name: name.to_owned() })
        }
        _ => Err("it takes a host and the cookie's name, as .example.com:sid".to_owned()),
    }
}

/// `https://app.example.com`, as Chrome writes it: without a default port.
fn origin(text: &str) -> Result<String, String> {
    let wrong = || "it takes a scheme and a host, as https://app.example.com, and no path".to_owned();
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_host = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | '@' | '\\' | '"');
    if scheme.is_empty() || !scheme.chars().all(is_scheme) || rest.is_empty() || !rest.chars().all(is_host) {
        return Err(wrong());
    }
    let origin = format!("{scheme}://{rest}").to_ascii_lowercase();
    let usual = [("http://", ":80"), ("https://", ":443")];
    let short = usual
        .iter()
        .find_map(|(scheme, port)| origin.strip_suffix(port).filter(|rest| rest.starts_with(scheme)));
    let origin = short.unwrap_or(&origin).to_owned();
    is_text(&origin, MAX_ORIGIN_BYTES).then_some(origin).ok_or_else(wrong)
}

/// A path below the directory that is captured.
fn file(text: &str) -> Result<String, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    is_path(path).then(|| path.to_owned()).ok_or_else(|| {
        format!("it takes a path in the profile's directory, as Default/Preferences, of {MAX_PATH_BYTES} bytes at most")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_chrome_writes_them() {
        let read = |text: &str| cookie(text).map(|cookie| (cookie.host, cookie.name));
        let pair = |host: &str, name: &str| Ok((host.to_owned(), name.to_owned()));
        assert_eq!(read(".Example.com:sid"), pair(".example.com", "sid"));
        assert_eq!(read("[::1]:a:b"), pair("[::1]", "a:b"));
        for bad in ["", "sid", ":sid", "example.com:", ".:sid", "https://a.test:sid", "a b:c"] {
            read(bad).unwrap_err();
        }
        assert_eq!(origin("HTTPS://App.Example.com:443/").unwrap(), "https://app.example.com");
        assert_eq!(origin("http://localhost:8080").unwrap(), "http://localhost:8080");
        for bad in ["app.example.com", "https://", "https://a.test/path", "https://u@a.test", "://a"] {
            origin(bad).unwrap_err();
        }
        assert_eq!(file("Default/kept/").unwrap(), "Default/kept");
        for bad in ["", "/etc/passwd", "../x", "a//b", "a/./b"] {
            file(bad).unwrap_err();
        }
    }
}
