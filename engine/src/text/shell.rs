//! `shell` writes a word so that a shell reads it as it is.

use std::path::Path;

/// The path as one word of a command.
pub fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%=,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_act_on_is_quoted() {
        for (path, typed) in [
            ("/mnt/a-1", "/mnt/a-1"),
            ("/a b", "'/a b'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
            ("", "''"),
        ] {
            assert_eq!(word(Path::new(path)), typed);
        }
    }
}
