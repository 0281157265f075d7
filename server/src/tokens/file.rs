//! `TokenFile` reads the tokens from a file, and again whenever the file changes.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use engine::failure::Failure;
use serde::Deserialize;

use super::{Role, SecretDigest, Tenants, Token, secret::find};
use crate::reloaded_files::{ReloadedFiles, read_own};

/// A name longer than this is a mistake.
const MAX_NAME_BYTES: usize = 64;

/// The tokens of a file, as they were when it could last be read.
#[derive(Debug)]
pub struct TokenFile {
    tokens: ReloadedFiles<Vec<Token>>,
}

impl TokenFile {
    /// Reads the file, which must be in order.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let own: PathBuf = path.to_owned();
        let tokens = ReloadedFiles::open("tokens", vec![path.to_owned()], move || read(&own))?;
        Ok(Self { tokens })
    }

    /// The token with this secret.
    pub fn find(&self, secret: &str) -> Option<Token> {
        find(&self.tokens.current(), secret).cloned()
    }

    /// The token with this name.
    pub fn named(&self, name: &str) -> Option<Token> {
        self.tokens.current().iter().find(|token| token.name == name).cloned()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.tokens.current().len()
    }

    /// Whether the tokens are those that the file has now: it is there, and it could be read.
    pub fn is_in_order(&self) -> bool {
        self.tokens.is_in_order()
    }
}

fn read(path: &Path) -> Result<Vec<Token>, Failure> {
    let shown = path.display();
    let hint = format!("`pstore token new --tenant NAME --role read >> {shown}` makes an entry");
    let bytes = read_own(path, "token file", &hint, 0)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{shown} is no text")))?;
    parse(&text).map_err(|problem| Failure::usage(format!("{shown}: {problem}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    sha256: String,
    tenants: Vec<String>,
    role: Role,
    expires_at_ms: Option<u64>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Token>, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let (mut names, mut digests) = (BTreeSet::new(), BTreeSet::new());
    let mut tokens = Vec::new();
    for entry in document.token {
        let Entry { name, sha256, tenants, role, expires_at_ms } = entry;
        check_name(&name)?;
        if !names.insert(name.clone()) {
            return Err(format!("two tokens are called {name}"));
        }
        let digest = SecretDigest::parse(&sha256)
            .ok_or_else(|| format!("the sha256 of {name} is not one of 64 digits 0-9 a-f"))?;
        if !digests.insert(digest.to_string()) {
            return Err(format!("{name} has the sha256 of another token"));
        }
        let tenants = Tenants::of(&tenants).map_err(|problem| format!("the tenants of {name}: {problem}"))?;
        tokens.push(Token { name, digest, tenants, role, expires_at_ms });
    }
    Ok(tokens)
}

/// A name is written into logs and events.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_plain) {
        return Err(format!("{name:?} names no token: it takes up to {MAX_NAME_BYTES} of A-Z a-z 0-9 . _ -"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    fn entry(name: &str, secret: &str) -> String {
        let digest = SecretDigest::of(secret);
        format!(
            "[[token]]\nname = \"{name}\"\nsha256 = \"{digest}\"\ntenants = [\"acme\"]\nrole = \"read\"\n"
        )
    }

    #[test]
    fn the_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, entry("one", "s1")).unwrap();
        let tokens = TokenFile::open(&path).unwrap();
        assert_eq!(tokens.find("s1").unwrap().name, "one");
        assert_eq!(tokens.find("s2"), None);
        fs::write(&path, format!("{}{}", entry("one", "s1"), entry("two", "s2"))).unwrap();
        assert_eq!(tokens.find("s2").unwrap().name, "two");
        for broken in ["[[token]", "[[token]]\nname = \"x\"\n", &entry("a b", "s")] {
            fs::write(&path, broken).unwrap();
            assert!(tokens.find("s1").is_some() && tokens.find("s2").is_some(), "{broken}");
            assert!(!tokens.is_in_order(), "{broken}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(tokens.count(), 2);
        // Another file in its place, as editors do it.
        fs::write(folder.path().join("next"), entry("two", "s2")).unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert!(tokens.find("s1").is_none() && tokens.find("s2").is_some() && tokens.is_in_order());
    }

    #[test]
    fn a_file_that_others_can_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, entry("one", "s1")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        let failure = TokenFile::open(&path).unwrap_err();
        assert!(failure.message.contains("can be changed by other users"), "{failure:?}");
        assert!(failure.hint.unwrap().starts_with("`chmod go-w "));
        assert!(TokenFile::open(&folder.path().join("none")).is_err());
    }

    #[test]
    fn an_entry_with_a_mistake_is_refused_with_what_it_is() {
        let good = entry("one", "s1");
        for (wrong, words) in [
            (good.replace("one", "a b"), "names no token"),
            (format!("{good}{good}"), "two tokens are called one"),
            (format!("{good}{}", good.replace("one", "two")), "two has the sha256 of another token"),
            (good.replace("\"acme\"", ""), "for no tenant"),
            (good.replace("read", "owner"), "unknown variant"),
            (good.replace("sha256 = \"", "sha256 = \"0"), "not one of 64 digits"),
            (format!("{good}colour = 1\n"), "unknown field"),
        ] {
            let problem = parse(&wrong).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
        assert_eq!(parse("").unwrap(), []);
    }
}
